// Several photos at once: selected with Shift, by dragging or by a long touch, and what is done with all of them.

import { $ } from "./elements.js";
import { exportFiles, zipFiles } from "./exporting.js";
import { isTouch, words } from "./strings.js";

const MOST = 20_000; // photos, which the server takes at once
const LONG = 450; // milliseconds that a finger rests on a photo
const FAR = 8; // pixels that a pointer moves before it drags
const EDGE = 40; // pixels from the edge of the screen at which dragging scrolls

export class Selection {
  // page: {say(text, shown), failed(error), mark(hits, kind), marks()}, where marks() says whether marks are kept
  constructor(column, page, { local }) {
    Object.assign(this, { column, page, hits: new Map(), anchor: null, drag: null, resting: null, isHandled: false });
    $("selection-export").hidden = $("selection-places").hidden = !local;
    const actions = {
      "selection-keep": () => this.mark("right"), "selection-no": () => this.mark("wrong"), "selection-clear": () => this.clear(),
      "selection-export": () => exportFiles(column, this.files, page), "selection-zip": () => zipFiles(column, this.files, page),
    };
    for (const [id, action] of Object.entries(actions)) $(id).addEventListener("click", action);
    const { list } = column;
    list.addEventListener("pointerdown", (event) => this.press(event));
    list.addEventListener("pointermove", (event) => this.move(event));
    for (const end of ["pointerup", "pointercancel"]) addEventListener(end, () => this.release());
    list.addEventListener("contextmenu", (event) => event.pointerType === "touch" && event.preventDefault());
    list.addEventListener("click", (event) => {
      if (!this.isHandled) return;
      this.isHandled = false; // the click at the end of a drag or of a long touch
      event.stopPropagation();
      event.preventDefault();
    }, { capture: true });
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && this.hits.size && !document.querySelector("dialog[open]")) this.clear();
    });
  }

  has(id) {
    return this.hits.has(id);
  }

  // Whether a click on a photo selects it, and does not open it.
  selects(event) {
    return event.shiftKey || event.ctrlKey || event.metaKey || ((isTouch || event.pointerType === "touch") && this.hits.size > 0);
  }

  // What the server is asked for.
  get files() {
    return { photos: [...this.hits.keys()], remove_place: $("selection-no-places").checked || $("selection-places").hidden };
  }

  get isDragging() {
    return this.drag !== null;
  }

  // ---- choosing

  toggle(place, isRange) {
    if (isRange && this.anchor !== null) return this.extend(this.anchor, place);
    const hit = this.column.hits[place];
    if (!this.hits.delete(hit.id)) this.hits.set(hit.id, hit);
    this.anchor = place;
    return this.show();
  }

  // Select all from one place to another, beside what is selected.
  async extend(from, to, beside = this.hits) {
    this.anchor ??= from;
    const [first, last] = [Math.min(this.anchor, to), Math.max(this.anchor, to)];
    if (last - first >= MOST) {
      this.page.failed(new Error(words.tooMany(MOST)));
      return;
    }
    const turn = (this.turn = (this.turn ?? 0) + 1);
    try {
      const hits = await this.column.range(first, last);
      if (turn !== this.turn) return; // the pointer is elsewhere by now
      this.hits = new Map([...beside, ...hits.map((hit) => [hit.id, hit])]);
      this.show();
    } catch (error) {
      this.page.failed(error);
    }
  }

  async section(first, last) {
    this.anchor = first;
    await this.extend(first, last);
  }

  clear() {
    this.hits.clear();
    this.anchor = null;
    this.show();
  }

  show() {
    const { size } = this.hits;
    $("selection").hidden = size === 0;
    $("selection-count").textContent = words.selected(size);
    $("selection-keep").hidden = $("selection-no").hidden = !this.page.marks();
    document.body.classList.toggle("selecting", size > 0);
    this.column.markTiles();
  }

  async mark(kind) {
    await this.page.mark([...this.hits.values()], kind);
    this.clear();
  }

  // ---- the pointer

  press(event) {
    this.isHandled = false;
    const tile = event.target.closest(".picture")?.closest(".tile");
    if (!tile?.dataset.id || event.button !== 0) return;
    const place = Number(tile.dataset.place);
    this.drag = { place, x: event.clientX, y: event.clientY, touch: event.pointerType === "touch", beside: null };
    if (!this.drag.touch) return;
    this.resting = setTimeout(() => {
      this.isHandled = true;
      this.toggle(place, false);
      navigator.vibrate?.(20);
    }, LONG);
  }

  move(event) {
    const { drag } = this;
    if (!drag) return;
    if (Math.hypot(event.clientX - drag.x, event.clientY - drag.y) > FAR) clearTimeout(this.resting);
    if (drag.touch) return; // which scrolls
    const tile = document.elementFromPoint(event.clientX, event.clientY)?.closest(".tile");
    const to = Number(tile?.dataset.place ?? drag.place);
    if (drag.beside === null && to === drag.place) return;
    if (drag.beside === null) {
      drag.beside = new Map(this.hits);
      this.anchor = drag.place;
      this.isHandled = true;
    }
    if (event.clientY > innerHeight - EDGE - $("selection").offsetHeight) scrollBy(0, EDGE);
    else if (event.clientY < EDGE) scrollBy(0, -EDGE);
    if (to !== drag.to) this.extend(drag.place, to, drag.beside);
    drag.to = to;
  }

  release() {
    clearTimeout(this.resting);
    this.drag = null;
  }
}
