// Keeping photos in the chosen collection, and looking for what is missing: what the page does with its collections.

import { CollectionCard } from "./collection_card.js";
import { Collections } from "./collections.js";
import { $, button, make } from "./elements.js";
import { exportFiles } from "./exporting.js";
import { withKey, words } from "./strings.js";

export class Keeping {
  // page: {say(text, shown), failed(error), search(), changed(), go(view), joined(), decline(), marksForNow(),
  // markForNow(hits, kind), query()}, whose query is {name, id, cover} or null
  constructor(column, page) {
    Object.assign(this, { column, page, seen: new Set(), beginning: null });
    this.collections = new Collections(column.album, column.base, {
      changed: () => this.changed(), failed: page.failed, unsent: (number) => this.showUnsent(number),
    });
    this.card = new CollectionCard(this.collections, {
      say: page.say, failed: page.failed, chosen: () => this.chosen(), showMembers: (side) => this.showMembers(side), showNext: () => this.showNext(),
      export: (files) => exportFiles(column, files, { ...page, say: (text) => { $("collection-said").textContent = text; } }),
    });
    $("marks-note").textContent = words.searchWithMarks;
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
    $("lost-marks").textContent = words.unsent(number);
  }

  // Another collection: what was on the screen for the last one is no answer for this.
  chosen() {
    this.seen.clear();
    $("found").hidden = true;
    const { question } = this.column;
    if (question?.members !== undefined || question?.next !== undefined) this.page.go({});
    else this.page.joined();
  }

  async show(question, place = 0) {
    try {
      return await this.column.show(question, place);
    } catch (error) {
      this.page.failed(error);
      return null;
    }
  }

  // What a photo is marked as; a copy of what is marked is marked too.
  markOf(hit) {
    if (this.page.marksForNow()) return this.column.marks.get(hit.id);
    return [hit.id, ...(hit.copies ?? [])].map((id) => this.collections.marks.get(id)).find((mark) => mark !== undefined);
  }

  // Mark photos in the chosen collection; where none is chosen, in a new one for whose name is asked, once for a search.
  async mark(hits, kind) {
    if (!hits.length) return;
    await this.beginning; // a collection that is about to be
    if (this.page.marksForNow()) {
      this.page.markForNow(hits, kind);
      return;
    }
    const stays = kind === "neither" ? hits.flatMap((hit) => [hit.id, ...hit.copies]) : hits.map((hit) => hit.id);
    const marks = { [kind]: stays };
    if (this.collections.chosen === null) {
      this.beginning = this.begun(hits, kind, marks);
      const isThere = await this.beginning;
      this.beginning = null;
      if (!isThere) return;
    } else {
      this.collections.mark(stays, kind);
    }
    if (hits.length > 1) this.column.flash(hits);
    this.page.say(this.sentence(hits, kind), true);
  }

  sentence(hits, kind) {
    const { name } = this.collections.current;
    const what = hits.length === 1 ? hits[0].name : words.photos(hits.length);
    if (kind === "right") return words.kept(what, hits.length === 1 && hits[0].copies.length ? hits[0].copies.length + 1 : 0, name);
    return kind === "wrong" ? words.notKept(what, name) : words.unmarked(what);
  }

  // A new collection with these marks, and with the photo that is searched with, in one step; whether there is one now.
  async begun(hits, kind, marks) {
    const query = this.page.query();
    const cover = query?.cover ?? this.column.address(hits[0], "thumbnail");
    const name = await this.ask(cover, (query?.name ?? hits[0].label ?? "").slice(0, 80));
    if (name === null) {
      if (query !== null) {
        this.page.decline();
        this.page.markForNow(hits, kind);
      }
      return false;
    }
    const right = [...(query?.id === undefined ? [] : [query.id]), ...(marks.right ?? [])]; // what looks like it belongs: so does it
    const there = this.collections.list.find((one) => one.name === name);
    let answer = there ?? null;
    if (there) {
      await this.collections.choose(there.key);
      for (const [how, ids] of Object.entries({ ...marks, right })) if (ids.length) this.collections.mark(ids, how);
    } else {
      answer = await this.collections.create(name, { right: [...new Set(right)], wrong: marks.wrong ?? [] });
    }
    if (answer !== null) this.page.joined();
    return answer !== null;
  }

  // Ask for the name of a new collection; null where there is to be none.
  ask(cover, wish) {
    const dialog = $("naming");
    $("naming-cover").src = cover;
    $("naming-name").value = this.collections.freeName(wish || words.aCollection);
    $("naming-names").replaceChildren(...this.collections.list.map((one) => make("option", { value: one.name })));
    $("naming-search").textContent = this.page.query() === null ? words.doNotKeep : words.onlySearch;
    dialog.returnValue = "";
    dialog.showModal();
    $("naming-name").select();
    return new Promise((done) => {
      dialog.addEventListener("close", () => done(dialog.returnValue === "keep" ? $("naming-name").value.trim() || null : null), { once: true });
    });
  }

  keepShown() {
    return this.mark(this.column.unmarked(), "right");
  }

  restIsWrong() {
    return this.mark(this.column.unmarked(), "wrong");
  }

  async keepList() {
    const { question, photos } = this.column;
    if (this.collections.chosen === null && !(await this.begun([this.column.hits[0]], "right", {}))) return;
    if ((await this.collections.keep(question)) !== null) this.page.say(words.keptList(photos, this.collections.current.name), true);
  }

  // More has been seen, or marked: the buttons say how many photos they are about.
  saw() {
    const number = this.column.unmarked().length;
    for (const [id, text] of [["keep-shown", words.keepShown(number)], ["rest-wrong", words.restIsWrong(number)]]) {
      const button = this.column.tools.querySelector(`.${id}`);
      if (!button) continue;
      button.textContent = text;
      button.disabled = number === 0;
    }
  }

  showMembers(side = null) {
    return this.page.go({ members: this.collections.chosen, side });
  }

  // The photos most worth a look; a second time, others.
  showNext() {
    if (this.column.question?.next === this.collections.chosen) return this.displayNext(this.collections.chosen);
    return this.page.go({ next: this.collections.chosen });
  }

  displayMembers(key, side, place) {
    return this.show(side === null ? { members: key } : { members: key, side }, place);
  }

  // What was on the screen and left without a mark is not offered again.
  async displayNext(key) {
    if (this.column.question?.next === key) for (const hit of this.column.unmarked()) for (const id of [hit.id, ...hit.copies]) this.seen.add(id);
    else this.seen.clear();
    await this.collections.queue; // so that the server knows all marks
    const answer = await this.show({ next: key, seen: [...this.seen] });
    if (answer !== null) this.page.say($("found-note").textContent, !$("found-note").checkVisibility()); // the card may be in the sheet
  }

  // The column shows an answer: say what can be done with it.
  shown(column, answer) {
    const { question } = column;
    const tools = [];
    if (question !== null && question.members === undefined && column.total) {
      tools.push(button("", { title: withKey(words.keepShownTitle, "A"), className: "keep-shown" }, () => this.keepShown()));
    }
    if (question?.next !== undefined) {
      tools.push(button("", { title: withKey(words.restIsWrongTitle, "X"), className: "rest-wrong" }, () => this.restIsWrong()));
      tools.push(button(words.nextPhotos, { title: withKey(words.nextPhotosTitle, "M") }, () => this.showNext()));
      this.showFound(answer);
    }
    if ((question?.members ?? question?.next) !== undefined && this.page.query() !== null) {
      tools.push(button(words.backToSearch, { title: words.backToSearchTitle }, () => this.page.search()));
    }
    column.tools.replaceChildren(...tools);
    this.saw();
    const name = this.collections.current?.name;
    if (question?.members !== undefined) column.note.textContent = (question.side ? words.wrongMembers : words.members)(column.total, name);
    if (question?.next !== undefined) column.note.textContent = words.worthALook(name);
  }

  showFound(found) {
    const { recall, highest, why } = found;
    $("found").hidden = false;
    $("found-bar").hidden = recall === null;
    $("found-note").textContent = why;
    if (recall === null) return;
    $("found-share").style.width = `${100 * recall}%`;
    $("found-range").style.width = `${100 * highest}%`;
    $("found-note").textContent = words.share(found);
  }
}
