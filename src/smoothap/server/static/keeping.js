// Keeping photos in the chosen collection, and looking for what is missing: what the page does with its collections.

import { CollectionCard } from "./collection_card.js";
import { Collections } from "./collections.js";
import { count, make } from "./column.js";

const $ = (id) => document.getElementById(id);

export class Keeping {
  // page: {say(text), failed(error), search(), changed(), query()}, whose query is {name, id} or null
  constructor(column, page) {
    Object.assign(this, { column, page, seen: new Set() });
    this.collections = new Collections(column.album, column.base, {
      changed: () => this.changed(), failed: page.failed, unsent: (number) => this.showUnsent(number),
    });
    this.card = new CollectionCard(this.collections, {
      say: page.say, failed: page.failed, chosen: () => this.chosen(), showMembers: () => this.showMembers(), showNext: () => this.showNext(),
    });
    $("marks-note").textContent = "Search again asks with the query and with what you marked in the collection.";
    $("keep-above").addEventListener("click", () => this.keepList());
  }

  async begin() {
    try {
      await this.collections.begin();
    } catch (error) {
      this.page.failed(error);
    }
  }

  // What keys do, by the letter.
  keys(shift) {
    return {
      a: () => (shift ? !$("keep-above").hidden && this.keepList() : this.keepShown()),
      x: () => this.restIsWrong(),
      z: () => this.card.undo(),
      m: () => !$("collection-next").disabled && this.showNext(),
      c: () => !$("collection-show").disabled && this.showMembers(),
    };
  }

  changed() {
    this.card?.show();
    this.column.markTiles();
    this.page.changed();
  }

  // What the banner says of marks while the server is away.
  showUnsent(number) {
    $("lost-marks").hidden = number === 0;
    $("lost-marks").textContent = `${count(number, "photo")} marked meanwhile ${number === 1 ? "is" : "are"} kept in this tab: leave it open.`;
  }

  // Another collection: what was on the screen for the last one is no answer for this.
  chosen() {
    this.seen.clear();
    $("found").hidden = true;
    const { question } = this.column;
    if (question?.members !== undefined || question?.next !== undefined) this.show(null);
  }

  async show(question) {
    try {
      return await this.column.show(question);
    } catch (error) {
      this.page.failed(error);
      return null;
    }
  }

  // A collection to put photos into: the chosen one, or a new one named after the query.
  async collection() {
    if (this.collections.chosen !== null) return true;
    const query = this.page.query();
    const name = this.collections.freeName((query?.name ?? "collection").slice(0, 80));
    if ((await this.collections.create(name)) === null) return false;
    if (query?.id !== undefined) this.collections.mark([query.id], "right"); // what looks like it belongs to it: so does it
    return true;
  }

  async mark(hits, kind) {
    if (!hits.length || !(await this.collection())) return;
    const { name } = this.collections.current;
    this.collections.mark(hits.map((hit) => hit.id), kind);
    const what = hits.length === 1 ? hits[0].name : count(hits.length, "photo");
    this.page.say({ right: `Kept ${what} in ${name}`, wrong: `${what}: not in ${name}`, neither: `${what}: not marked any more` }[kind]);
  }

  keepShown() {
    return this.mark(this.column.unmarked(), "right");
  }

  restIsWrong() {
    return this.mark(this.column.unmarked(), "wrong");
  }

  async keepList() {
    const { question, photos } = this.column;
    if (!(await this.collection())) return;
    if ((await this.collections.keep(question)) !== null) this.page.say(`Kept the ${count(photos, "photo")} of the list in ${this.collections.current.name}`);
  }

  showMembers() {
    return this.show({ members: this.collections.chosen });
  }

  // The photos most worth a look. What was on the screen and left without a mark is not offered again.
  async showNext() {
    const before = this.column.question;
    if (before?.next === this.collections.chosen) for (const hit of this.column.unmarked()) this.seen.add(hit.id);
    else this.seen.clear();
    await this.collections.queue; // so that the server knows all marks
    const answer = await this.show({ next: this.collections.chosen, seen: [...this.seen] });
    if (answer !== null) this.page.say($("found-note").textContent);
  }

  // The column shows an answer: say what can be done with it.
  shown(column, answer) {
    const { question } = column;
    const tool = (text, title, action) => {
      const button = make("button", { type: "button", textContent: text, title });
      button.addEventListener("click", action);
      return button;
    };
    const tools = [];
    if (question !== null && question.members === undefined && column.total) {
      tools.push(tool("Keep all shown", "Keep the photos that have been on the screen, but for those marked ✗ (A)", () => this.keepShown()));
    }
    if (question?.next !== undefined) {
      tools.push(tool("The rest do not belong", "Mark the photos that have been on the screen and have no mark as ✗ (X)", () => this.restIsWrong()));
      tools.push(tool("Next photos", "The photos most worth a look now (M)", () => this.showNext()));
      this.showFound(answer);
    }
    if ((question?.members ?? question?.next) !== undefined && this.page.query() !== null) {
      tools.push(tool("Back to the search", "The photos that look like the query", () => this.page.search()));
    }
    column.tools.replaceChildren(...tools);
    const name = this.collections.current?.name;
    if (question?.members !== undefined) column.note.textContent = `${count(column.total, "photo")} in ${name}`;
    if (question?.next !== undefined) column.note.textContent = `Most worth a look for ${name}: which of these belong to it?`;
  }

  showFound({ recall, lowest, highest, missing, why }) {
    $("found").hidden = false;
    $("found-bar").hidden = recall === null;
    $("found-note").textContent = why;
    if (recall === null) return;
    $("found-share").style.width = `${100 * recall}%`;
    $("found-range").style.width = `${100 * highest}%`;
    const between = `${Math.round(100 * lowest)} to ${Math.round(100 * highest)}%`;
    $("found-note").textContent = `About ${Math.round(100 * recall)}% is found (${between}): ${missing < 0.5 ? "probably none" : `about ${count(Math.round(missing), "photo")}`} missing. ${why}`;
  }
}
