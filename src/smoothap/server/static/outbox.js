// Marks that the server has not taken yet: this tab keeps them until it has, while it is away and over a reload.

export class Outbox {
  // changed(number) is called with how many photos are marked in what waits.
  constructor(album, changed) {
    Object.assign(this, { memory: `smoothap marks for ${album}`, changed, entries: [], isLeft: false });
    window.addEventListener("beforeunload", (event) => this.entries.length && !this.isLeft && event.preventDefault()); // the browser asks
  }

  // The page reloads by itself, and nobody need be asked: what is in here stays.
  leave() {
    this.isLeft = true;
  }

  // What a reload left here: entries to be sent again.
  left() {
    try {
      return JSON.parse(sessionStorage.getItem(this.memory)) ?? [];
    } catch {
      return []; // storage is forbidden
    }
  }

  // An entry says of which collection it is, by key and name, and what it marks: {key, name, marks: {KIND: ids}}.
  add(entry) {
    this.entries.push(entry);
    this.store();
  }

  remove(entry) {
    this.entries = this.entries.filter((one) => one !== entry);
    this.store();
  }

  store() {
    try {
      if (this.entries.length) sessionStorage.setItem(this.memory, JSON.stringify(this.entries));
      else sessionStorage.removeItem(this.memory);
    } catch { /* storage is forbidden, or full: then the marks are kept as long as the page is open */ }
    this.changed(new Set(this.entries.flatMap(({ marks }) => Object.values(marks).flat())).size);
  }
}
