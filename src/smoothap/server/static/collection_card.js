// What the page shows of the collections: the card beside the photos, and the dialog with all that can be done.

import { askJson } from "./ask.js";
import { count, make } from "./column.js";

const $ = (id) => document.getElementById(id);

export function spokenSize(bytes) {
  for (const [unit, factor] of [["GB", 1e9], ["MB", 1e6], ["kB", 1e3]]) {
    if (bytes >= factor) return `${(bytes / factor).toFixed(1)} ${unit}`;
  }
  return `${bytes} bytes`;
}

export class CollectionCard {
  // page: {say(text), failed(error), chosen(), showMembers(), showNext()}
  constructor(collections, page) {
    Object.assign(this, { collections, page });
    $("collection").hidden = $("collections-open").hidden = false;
    $("collection-choice").addEventListener("change", () => this.choose());
    $("collection-undo").addEventListener("click", () => this.undo());
    $("collection-show").addEventListener("click", () => page.showMembers());
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
    this.page.say(`Made the collection ${name}`);
    this.page.chosen();
  }

  async undo() {
    const what = await this.collections.takeBack();
    if (what !== null) this.page.say(`Undone: ${what}`, true);
  }

  async delete() {
    const { name } = this.collections.current;
    if ((await this.collections.delete()) === null) return;
    $("collections").close();
    this.page.say(`${name} is deleted. Undo brings it back.`, true);
    this.page.chosen();
  }

  async import() {
    const file = $("collection-import").files[0];
    $("collection-import").value = "";
    const answer = file ? await this.collections.import(file) : null;
    if (answer === null) return;
    const taken = Object.entries(answer.photos).map(([name, photos]) => `${name}: ${count(photos, "photo")}`).join("; ");
    const left = answer.unknown ? ` ${count(answer.unknown, "photo")} not in this album, such as ${answer.examples[0]}.` : "";
    $("collection-said").textContent = `Taken in: ${taken}.${left}`;
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
      $("collection-zip").textContent = `Photos as a zip, ${spokenSize(bytes)}`;
      const [first, ...others] = Object.entries(missing);
      $("collection-size").textContent = first
        ? `${count(1 + others.length, "original")} cannot be had, such as ${first[0]}: ${first[1]}.`
        : "";
    } catch (error) {
      this.page.failed(error);
    }
  }

  show() {
    const { list, current, undo } = this.collections;
    const name = current?.name ?? "";
    const choices = [["", "none chosen"], ...list.map((one) => [one.key, `${one.name} (${one.right.toLocaleString("en")})`]), ["new", "New collection …"]];
    $("collection-choice").replaceChildren(...choices.map(([value, textContent]) => make("option", { value, textContent })));
    $("collection-choice").value = current?.key ?? "";
    const { right, wrong } = this.collections.counts();
    $("collection-count").textContent = current
      ? `${count(right, "photo")}${wrong ? `, ${wrong.toLocaleString("en")} marked as not belonging` : ""}${current.away ? `, ${current.away.toLocaleString("en")} no longer in the album` : ""}`
      : "Press ✓ under a photo, or R on it: it is kept in a collection, which stays.";
    $("collection-show").disabled = current === null || right === 0;
    $("collection-next").disabled = current === null || right === 0;
    $("collection-undo").disabled = undo === null && !this.collections.waiting;
    $("collection-undo").title = undo === null ? "Nothing to undo" : `Undo: ${undo.what} (Z)`;
    $("collections-count").textContent = list.length;
    $("collection-manage").hidden = current === null;
    $("collection-chosen").textContent = name;
    if (document.activeElement !== $("collection-new-name")) $("collection-new-name").value = name;
    $("collections-list").replaceChildren(...list.map((one) => {
      const button = make("button", { type: "button" }, make("bdi", { textContent: one.name }), make("b", { textContent: one.right.toLocaleString("en") }));
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
