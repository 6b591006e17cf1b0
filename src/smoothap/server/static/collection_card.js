// What the page shows of the collections: the card beside the photos, and the dialog with all that can be done.

import { askJson } from "./ask.js";
import { $, make } from "./elements.js";
import { bytes as spokenBytes, number, withKey, words } from "./strings.js";

export class CollectionCard {
  // page: {say(text), failed(error), chosen(), showMembers(side), showNext(), export(files)}
  constructor(collections, page) {
    Object.assign(this, { collections, page });
    $("collection").hidden = $("collections-open").hidden = false;
    $("collection-choice").addEventListener("change", () => this.choose());
    $("collection-undo").addEventListener("click", () => this.undo());
    $("collection-show").addEventListener("click", () => page.showMembers());
    $("collection-wrong").addEventListener("click", () => page.showMembers("wrong"));
    $("collection-export").addEventListener("click", () => page.export({ collection: collections.chosen, remove_place: $("collection-no-places").checked }));
    $("collection-next").addEventListener("click", () => page.showNext());
    $("collections-open").addEventListener("click", () => this.open());
    $("collection-create").addEventListener("submit", (event) => this.submit(event, "collection-name", (name) => this.create(name)));
    $("collection-rename").addEventListener("submit", (event) => this.submit(event, "collection-new-name", (name) => collections.rename(name)));
    $("collection-delete").addEventListener("click", () => this.delete());
    $("collection-import").addEventListener("change", () => this.import());
    for (const [id, kind] of [["collection-csv", "export.csv"], ["collection-json", "export.json"], ["collection-zip", "originals.zip"]]) {
      $(id).addEventListener("click", () => this.download(kind));
    }
    this.show();
  }

  submit(event, field, action) {
    event.preventDefault();
    const name = $(field).value.trim();
    if (name) action(name);
  }

  async choose() {
    const value = $("collection-choice").value;
    if (value === "new") {
      this.show(); // the choice stays what it was until there is a new one
      this.open();
      $("collection-name").focus();
      return;
    }
    await this.collections.choose(value === "" ? null : Number(value));
    this.page.chosen();
  }

  async create(name) {
    if ((await this.collections.create(name)) === null) return;
    $("collection-name").value = "";
    $("collections").close();
    this.page.say(words.made(name));
    this.page.chosen();
  }

  async undo() {
    const what = await this.collections.takeBack();
    if (what !== null) this.page.say(words.undone(what), true);
  }

  async delete() {
    const { name } = this.collections.current;
    if ((await this.collections.delete()) === null) return;
    $("collections").close();
    this.page.say(words.deleted(name), true);
    this.page.chosen();
  }

  async import() {
    const file = $("collection-import").files[0];
    $("collection-import").value = "";
    const answer = file ? await this.collections.import(file) : null;
    if (answer === null) return;
    const left = answer.unknown ? words.notTakenIn(answer.unknown, answer.examples[0]) : "";
    $("collection-said").textContent = words.takenIn(Object.entries(answer.photos)) + left;
  }

  // A link of this page's own, which the browser saves: nothing of a zip has to fit into memory.
  download(kind) {
    const places = kind === "originals.zip" && $("collection-no-places").checked ? "?places=false" : "";
    make("a", { href: this.collections.address(kind) + places, download: "" }).click();
  }

  open() {
    $("collection-said").textContent = "";
    $("collections").showModal();
    this.show();
    this.showSize();
  }

  async showSize() {
    if (this.collections.current === null) return;
    $("collection-zip").disabled = true;
    $("collection-size").textContent = "";
    try {
      const { photos, bytes, missing } = await askJson(this.collections.address("originals"));
      $("collection-zip").disabled = photos === 0;
      $("collection-zip").textContent = words.zip(spokenBytes(bytes));
      const [first, ...others] = Object.entries(missing);
      $("collection-size").textContent = first
        ? words.unreadable(1 + others.length, ...first)
        : "";
    } catch (error) {
      this.page.failed(error);
    }
  }

  show() {
    const { list, current, undo } = this.collections;
    const name = current?.name ?? "";
    const choices = [["", words.noneChosen], ...list.map((one) => [one.key, words.named(one.name, one.right)]), ["new", words.newCollection]];
    $("collection-choice").replaceChildren(...choices.map(([value, textContent]) => make("option", { value, textContent })));
    $("collection-choice").value = current?.key ?? "";
    const counts = this.collections.counts();
    $("collection-count").textContent = current ? words.counts(counts, current.away) : words.howToKeep;
    $("collection-show").disabled = current === null || counts.right === 0;
    $("collection-next").disabled = current === null || counts.right === 0;
    $("collection-wrong").hidden = counts.wrong === 0;
    $("collection-wrong").textContent = words.wrongOnes(counts.wrong);
    $("collection-undo").disabled = undo === null && !this.collections.waiting;
    $("collection-undo").title = undo === null ? words.nothingToUndo : withKey(words.undo(undo.what), "Z");
    $("collections-count").textContent = list.length;
    $("collection-manage").hidden = current === null;
    $("collection-chosen").textContent = name;
    if (document.activeElement !== $("collection-new-name")) $("collection-new-name").value = name;
    $("collections-list").replaceChildren(...list.map((one) => {
      const button = make("button", { type: "button" }, make("bdi", { textContent: one.name }), make("b", { textContent: number(one.right) }));
      button.setAttribute("aria-pressed", one.key === current?.key);
      button.addEventListener("click", async () => {
        await this.collections.choose(one.key);
        this.page.chosen();
        this.showSize();
      });
      return make("li", {}, button);
    }));
    $("collections-empty").hidden = list.length > 0;
  }
}
