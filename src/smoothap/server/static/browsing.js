// How all photos are browsed: their order, the months, folders or letters to go to, how large they are, and names to look for.

import { asQuery } from "./address.js";
import { askJson } from "./ask.js";
import { $, make } from "./elements.js";
import { words } from "./strings.js";

const ALBUM = "album"; // the order in which photos came into the album, which has no sections
const SIZE = "smoothap size of photos";
const REST = 300; // milliseconds after which a name that is typed is looked for

export class Browsing {
  // page: {changed(), named(), filter()}; changed() is called for another order, named() for another name to look for.
  constructor(column, page) {
    Object.assign(this, { column, page, usual: column.album.labelled ? ALBUM : "newest", sections: [], chosen: null });
    $("size-row").hidden = $("names-form").hidden = false;
    $("order").value = this.usual;
    $("order").addEventListener("change", () => page.changed());
    $("jump").addEventListener("change", () => column.grid.scrollTo(Number($("jump").value)));
    $("size").addEventListener("input", () => this.resize($("size").value));
    $("names").addEventListener("input", () => {
      clearTimeout(this.resting);
      this.resting = setTimeout(() => page.named(), REST);
    });
    $("names-form").addEventListener("submit", (event) => {
      event.preventDefault();
      clearTimeout(this.resting);
      page.named();
      $("names").blur(); // which puts the keys of a phone away
    });
    $("size").value = Number.parseFloat(getComputedStyle($("results")).getPropertyValue("--tile"));
    try {
      const size = localStorage.getItem(SIZE);
      if (size) this.resize(size);
    } catch { /* storage is forbidden: then photos are as large as usual */ }
  }

  get order() {
    return $("order").value === ALBUM ? null : $("order").value;
  }

  // As an address has it: nothing where it is as usual.
  get values() {
    return { order: $("order").value === this.usual ? null : $("order").value };
  }

  set(order) {
    $("order").value = order ?? this.usual;
    if ($("order").selectedIndex < 0) $("order").value = this.usual;
  }

  resize(size) {
    const { top } = this.column.grid;
    $("size").value = size;
    $("results").style.setProperty("--tile", `${$("size").value}rem`);
    if (top) this.column.grid.scrollTo(top); // the same photos stay on the screen
    try {
      localStorage.setItem(SIZE, $("size").value);
    } catch { /* storage is forbidden */ }
  }

  // The sections of the list that is about to be shown; null where it has none.
  async ask(column) {
    if (this.order === null) return null;
    return askJson(`${column.base}/photos/sections?${asQuery({ ...this.page.filter(), order: this.order })}`);
  }

  // The column shows a list: what there is to choose from for it.
  shown({ question, grid: { sections } }) {
    $("arrange").hidden = question !== null;
    $("jump-row").hidden = sections.length < 2;
    if (sections === this.sections) return;
    this.sections = sections;
    $("jump").replaceChildren(...sections.map(({ title, start, photos }) => make("option", { value: start, textContent: words.named(title || words.rootFolder, photos) })));
  }

  // This place is the first on the screen.
  at(place) {
    if (!this.sections.length || document.activeElement === $("jump")) return;
    $("jump").value = this.sections.findLast(({ start }) => start <= place)?.start ?? 0;
  }
}
