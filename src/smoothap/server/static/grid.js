// A grid of any length of which only what is near the screen exists: above and below it there is empty space.

const AROUND = 1.5; // screens of tiles that exist above and below the one that is seen

export class Grid {
  // list: the <ol>. tile(place): the element in a place. shown(first, last, from, to): those places are about to be seen,
  // and the others exist. saw(): more has been seen. `seen` are the places whose whole tile, with the photo and its
  // buttons, has been on the screen.
  constructor(list, { tile, shown, saw }) {
    Object.assign(this, { list, tile, shown, saw, seen: new Set(), total: 0, tiles: new Map(), first: 0, last: 0, current: 0, waiting: null, awaited: null, high: 200 });
    addEventListener("scroll", () => this.later(), { passive: true });
    for (const each of [document.documentElement, list]) new ResizeObserver(() => this.later()).observe(each);
  }

  later() {
    this.waiting ??= requestAnimationFrame(() => this.draw());
  }

  // Begin anew with a list of another length.
  reset(total) {
    this.tiles.clear();
    this.seen.clear();
    this.list.replaceChildren();
    Object.assign(this, { total, first: 0, last: 0, current: 0, awaited: null });
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
    return { wide: style.gridTemplateColumns.split(" ").length, high: this.high };
  }

  draw() {
    this.waiting = null;
    if (this.total && !this.tiles.size) this.list.append(this.make(0)); // to know how high a row is
    const { wide, high } = this.measure();
    const rows = Math.ceil(this.total / wide);
    const above = -this.list.getBoundingClientRect().top;
    const spare = AROUND * innerHeight;
    const top = Math.min(Math.max(Math.floor((above - spare) / high), 0), Math.max(rows - 1, 0));
    const bottom = Math.min(Math.max(Math.ceil((above + innerHeight + spare) / high), top + 1), rows);
    this.place(top * wide, Math.min(bottom * wide, this.total));
    this.list.style.paddingTop = `${top * high}px`;
    this.list.style.paddingBottom = `${Math.max(rows - bottom, 0) * high}px`;
    const rowAt = (edge) => Math.min(Math.max(Math.floor(edge / high), 0), rows);
    const placesOf = (from, to) => [from * wide, Math.min(to * wide, this.total)];
    const before = this.seen.size;
    for (const [place, tile] of this.tiles) if (tile.dataset.id && isWhole(tile)) this.seen.add(place);
    if (this.seen.size > before) this.saw();
    if (this.total) this.shown(...placesOf(rowAt(above), rowAt(above + innerHeight + high)), this.first, this.last);
  }

  // Let the tiles of these places exist, in their order, and no others.
  place(first, last) {
    for (const [place, tile] of this.tiles) {
      if (place < first || place >= last) {
        tile.remove();
        this.tiles.delete(place);
      }
    }
    let next = null;
    for (let place = last - 1; place >= first; place -= 1) {
      const tile = this.tiles.get(place) ?? this.make(place);
      if (tile.nextElementSibling !== next || tile.parentElement !== this.list) this.list.insertBefore(tile, next);
      next = tile;
    }
    Object.assign(this, { first, last });
  }

  // The first place on the screen, 0 while the beginning is.
  get top() {
    const { wide, high } = this.measure();
    const above = -this.list.getBoundingClientRect().top;
    return above <= 0 ? 0 : Math.min(Math.floor((above + 2) / high) * wide, this.total);
  }

  // Bring a place to the top of the screen.
  scrollTo(place) {
    const { wide, high } = this.measure();
    scrollTo({ top: scrollY + this.list.getBoundingClientRect().top + Math.floor(place / wide) * high });
    this.draw();
  }

  // Bring a place onto the screen and give it the focus.
  focus(place, options) {
    const to = Math.min(Math.max(place, 0), this.total - 1);
    if (this.total === 0) return;
    if (!this.tiles.has(to)) {
      const { wide, high } = this.measure();
      scrollTo({ top: scrollY + this.list.getBoundingClientRect().top + Math.floor(to / wide) * high - innerHeight / 3 });
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
    const { wide, high } = this.measure();
    const page = wide * Math.max(1, Math.floor(innerHeight / high) - 1);
    const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -wide, ArrowDown: wide, PageUp: -page, PageDown: page };
    const to = { Home: 0, End: this.total - 1 }[key] ?? place + steps[key];
    return Number.isNaN(to) ? undefined : Math.min(Math.max(to, 0), this.total - 1);
  }
}

// Whether all of a tile is on the screen.
function isWhole(tile) {
  const { top, bottom, height } = tile.getBoundingClientRect();
  return height > 0 && top >= -1 && bottom <= innerHeight + 1;
}
