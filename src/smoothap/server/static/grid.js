// A grid of any length of which only what is near the screen exists: above and below it there is empty space.

import { Layout } from "./layout.js";

const AROUND = 1.5; // screens of tiles that exist above and below the one that is seen
const HEADING = 2.6; // rem: how high a heading is

export class Grid {
  // list: the <ol>. tile(place): the element in a place. heading(section): that of a section. shown(first, last, from, to):
  // those places are about to be seen, and the others exist. saw(): more has been seen. `seen` are the places whose whole
  // tile, with the photo and its buttons, has been on the screen.
  constructor(list, { tile, heading, shown, saw }) {
    Object.assign(this, {
      list, tile, heading, shown, saw, seen: new Set(), total: 0, sections: [], tiles: new Map(), headings: new Map(),
      first: 0, last: 0, current: 0, waiting: null, awaited: null, high: 200, layout: null,
    });
    addEventListener("scroll", () => this.later(), { passive: true });
    for (const each of [document.documentElement, list]) new ResizeObserver(() => this.later()).observe(each);
  }

  later() {
    this.waiting ??= requestAnimationFrame(() => this.draw());
  }

  // Begin again with another list; its sections are [{title, start, photos}], or none.
  reset(total, sections = []) {
    this.tiles.clear();
    this.headings.clear();
    this.seen.clear();
    this.list.replaceChildren();
    Object.assign(this, { total, sections, first: 0, last: 0, current: 0, awaited: null, layout: null });
    this.draw();
  }

  // A tile whose content has come, or has changed.
  renew(place) {
    const old = this.tiles.get(place);
    if (!old) return;
    const inside = old.contains(document.activeElement);
    const fresh = this.make(place);
    old.replaceWith(fresh);
    if (inside || place === this.awaited) fresh.querySelector(".picture")?.focus({ preventScroll: true });
    if (place === this.awaited) this.awaited = null;
    this.later(); // by now it may be seen
  }

  make(place) {
    const tile = this.tile(place);
    tile.dataset.place = place;
    tile.setAttribute("aria-setsize", this.total);
    tile.setAttribute("aria-posinset", place + 1);
    const picture = tile.querySelector(".picture");
    if (picture) picture.tabIndex = place === this.current ? 0 : -1;
    this.tiles.set(place, tile);
    return tile;
  }

  // How many stand beside each other, and how far it is from one row to the next: as high as a tile whose photo is
  // known, since those that wait for theirs are made as high as that.
  measure() {
    const style = getComputedStyle(this.list);
    const known = this.list.querySelector("[data-id]");
    const gap = Number.parseFloat(style.rowGap) || 0;
    if (known) this.high = known.getBoundingClientRect().height + gap;
    this.list.style.setProperty("--tile-height", `${this.high - gap}px`);
    const heading = HEADING * Number.parseFloat(getComputedStyle(document.documentElement).fontSize);
    this.list.style.setProperty("--heading-height", `${heading}px`);
    const [wide, { high, layout }] = [style.gridTemplateColumns.split(" ").length, this];
    if (layout?.wide !== wide || layout.high !== high) this.layout = new Layout(this.total, this.sections, { wide, high, heading: heading + gap });
    return this.layout;
  }

  draw() {
    this.waiting = null;
    if (this.total && !this.tiles.size) this.list.append(this.make(0)); // to know how high a row is
    const layout = this.measure();
    const above = -this.list.getBoundingClientRect().top;
    const spare = AROUND * innerHeight;
    this.place(...layout.between(above - spare, above + innerHeight + spare));
    this.list.style.paddingTop = `${this.total ? layout.topOf(this.first) : 0}px`;
    this.list.style.paddingBottom = `${this.total ? layout.height - layout.bottomOf(this.last - 1) : 0}px`;
    const before = this.seen.size;
    for (const [place, tile] of this.tiles) if (tile.dataset.id && isWhole(tile)) this.seen.add(place);
    if (this.seen.size > before) this.saw();
    if (this.total) this.shown(...layout.between(above, above + innerHeight), this.first, this.last);
  }

  // Let the tiles of these places exist, in their order, with the headings between them, and no others.
  place(first, last) {
    for (const kept of [this.tiles, this.headings]) {
      for (const [place, element] of kept) {
        if (place >= first && place < last) continue;
        element.remove();
        kept.delete(place);
      }
    }
    let next = null;
    const before = (element) => {
      if (element.nextElementSibling !== next || element.parentElement !== this.list) this.list.insertBefore(element, next);
      next = element;
    };
    for (let place = last - 1; place >= first; place -= 1) {
      before(this.tiles.get(place) ?? this.make(place));
      const section = this.sections[this.layout.partOf(place).number];
      if (section?.start !== place) continue;
      if (!this.headings.has(place)) this.headings.set(place, this.heading(section));
      before(this.headings.get(place));
    }
    Object.assign(this, { first, last });
  }

  // The first place on the screen, 0 while the beginning is.
  get top() {
    const above = -this.list.getBoundingClientRect().top;
    return above <= 0 ? 0 : this.measure().placeAt(above + 2);
  }

  // How far the row of that place has gone beyond the top of the screen.
  get offset() {
    return this.total ? -this.list.getBoundingClientRect().top - this.measure().topOf(this.top) : 0;
  }

  // Bring a place to the top of the screen, or beyond it by an offset.
  scrollTo(place, offset = 0) {
    scrollTo({ top: scrollY + this.list.getBoundingClientRect().top + this.measure().topOf(place) + offset });
    this.draw();
  }

  // Bring a place onto the screen and give it the focus.
  focus(place, options) {
    const to = Math.min(Math.max(place, 0), this.total - 1);
    if (this.total === 0) return;
    if (!this.tiles.has(to)) {
      scrollTo({ top: scrollY + this.list.getBoundingClientRect().top + this.measure().topOf(to) - innerHeight / 3 });
      this.draw();
    }
    const before = this.tiles.get(this.current)?.querySelector(".picture");
    if (before) before.tabIndex = -1;
    this.current = to;
    const picture = this.tiles.get(to)?.querySelector(".picture");
    this.awaited = picture ? null : to; // it gets the focus when its photo is known
    if (!picture) return;
    picture.tabIndex = 0;
    picture.focus(options);
  }

  // Where a key leads from a place; undefined where it leads nowhere.
  step(key, place) {
    const layout = this.measure();
    const page = Math.max(1, Math.floor(innerHeight / layout.high) - 1);
    const rows = { ArrowUp: -1, ArrowDown: 1, PageUp: -page, PageDown: page }[key];
    const to = { Home: 0, End: this.total - 1, ArrowLeft: place - 1, ArrowRight: place + 1 }[key] ?? (rows && layout.step(place, rows));
    return to === undefined ? undefined : Math.min(Math.max(to, 0), this.total - 1);
  }
}

// Whether all of a tile is on the screen, and not behind the bar of what is selected.
function isWhole(tile) {
  const { top, bottom, height } = tile.getBoundingClientRect();
  return height > 0 && top >= -1 && bottom <= innerHeight - document.getElementById("selection").offsetHeight + 1;
}
