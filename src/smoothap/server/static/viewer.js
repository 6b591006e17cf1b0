// A photo large: from one to the next, nearer and further, with what is known of it, and from here to a search.

import { askJson, post } from "./ask.js";
import { ShareBox } from "./box.js";
import { $, make, named, place, visible } from "./elements.js";
import { isTyping } from "./people.js";
import { bytes as spokenBytes, percent, words } from "./strings.js";

const NEAREST = 8; // times as large as it fits
const ENLARGED = 3; // times: a small photo is shown no larger than this
const WHOLE = 0.98; // of a photo: a part that is larger is all of it
const REST = 250; // milliseconds after which a photo that is looked at is fetched with all its pixels

export class Viewer {
  // page: {search(column, id), part(column, id, box), mark(column, hit, kind), markOf(column, hit), marks(hit), say, failed}
  // faces: those of the photo, where people are shown.
  constructor(page, { local }) {
    Object.assign(this, { page, faces: null, match: null, isDrawing: false, column: null, place: 0, zoom: 1, shift: [0, 0], size: null, fingers: new Map() });
    this.dialog = $("viewer");
    $("viewer-reveal").hidden = !local;
    this.box = new ShareBox($("viewer-stage"), $("viewer-image"), $("viewer-box"), (part) => part === null && this.choosePart(false), () => (this.isDrawing ? this.draw() : this.part()));
    this.box.enabled = false;
    const actions = {
      "viewer-close": () => this.dialog.close(), "viewer-before": () => this.go(-1), "viewer-after": () => this.go(1),
      "viewer-search": () => this.search(), "viewer-part": () => this.part(), "viewer-draw": () => this.draw(), "viewer-reveal": () => this.reveal(), "viewer-near": () => this.showMatch(),
      "viewer-nearer": () => this.scale(1.5), "viewer-further": () => this.scale(1 / 1.5),
      "viewer-yes": () => this.mark("right"), "viewer-no": () => this.mark("wrong"),
    };
    for (const [id, action] of Object.entries(actions)) $(id).addEventListener("click", action);
    this.dialog.addEventListener("keydown", (event) => this.key(event));
    this.dialog.addEventListener("cancel", (event) => {
      if (!this.box.enabled) return;
      event.preventDefault(); // Escape leaves the choosing of a part first
      this.choosePart(false);
    });
    this.dialog.addEventListener("close", () => this.column?.grid.focus(this.place, { preventScroll: false }));
    const stage = $("viewer-stage");
    stage.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.scale(event.deltaY < 0 ? 1.2 : 1 / 1.2, event);
    }, { passive: false });
    stage.addEventListener("pointerdown", (event) => this.grab(event));
    stage.addEventListener("pointermove", (event) => this.pull(event));
    for (const end of ["pointerup", "pointercancel"]) stage.addEventListener(end, (event) => this.drop(event));
    stage.addEventListener("dblclick", (event) => this.scale(this.zoom > 1 ? 1 / this.zoom : 2.5, event));
    $("viewer-image").addEventListener("load", () => this.arrived());
    new ResizeObserver(() => this.fit()).observe(stage);
    $("viewer-image").addEventListener("error", () => { $("viewer-note").textContent = words.noPicture; });
  }

  async open(column, place) {
    Object.assign(this, { column, place });
    if (!this.dialog.open) this.dialog.showModal();
    await this.show();
  }

  async go(step) {
    const place = this.place + step;
    if (place < 0 || place >= this.column.total) return;
    this.place = place;
    await this.show();
  }

  async show() {
    const { column, place } = this;
    this.choosePart(false);
    this.setZoom(1);
    try {
      const hit = await column.hitAt(place);
      if (place !== this.place || !hit) return;
      column.grid.seen.add(place);
      Object.assign(this, { hit, facts: null, size: null });
      const image = $("viewer-image");
      image.alt = hit.label === null ? hit.name : `${hit.name}, ${hit.label}`;
      image.src = column.address(hit, "image");
      $("viewer-note").textContent = "";
      $("viewer-place").textContent = words.place(place + 1, column.total);
      $("viewer-before").disabled = place === 0;
      $("viewer-after").disabled = place === column.total - 1;
      this.showMark();
      this.frame(hit);
      this.faces?.show(hit);
      const through = hit.through ?? null;
      const [facts, led] = await Promise.all([hit.id, through].map((id) => (id === null ? null : askJson(`${column.base}/photos/${id}`))));
      if (hit === this.hit) this.showFacts(facts, hit, led);
      column.hitAt(place + 1).then((next) => { if (next) new Image().src = column.address(next, "image"); }, () => {});
    } catch (error) {
      this.dialog.close();
      this.page.failed(error);
    }
  }

  // `led` is the photo through which this one came into the list: it resembles that one more than the query.
  showFacts(known, hit, led) {
    const { name, camera, label, stack } = named(known);
    const [folder, file] = [name.slice(0, Math.max(name.lastIndexOf("/"), 0)), name.slice(name.lastIndexOf("/") + 1)];
    this.facts = known;
    $("viewer-title").replaceChildren(make("bdi", { textContent: file }));
    const facts = [
      [words.folder, folder || words.rootFolder], [words.taken, spokenDate(known)], [words.camera, camera && visible(camera)],
      [words.size, spokenSize(known)], [words.label, label], [words.score, hit.rank ? words.scored(hit.score.toFixed(3), this.place + 1) : null],
      [words.copiesFact, stack.length - 1 || null], [words.through, led && words.throughPhoto(named(led).name)],
    ];
    this.sharpen();
    $("viewer-facts").replaceChildren(...facts.filter(([, value]) => value).flatMap(
      ([name, value]) => [make("dt", { textContent: name }), make("dd", {}, make("bdi", { textContent: value }))],
    ));
  }

  // A frame around the part of the photo that was found, if that is not all of it; faces have frames of their own.
  frame({ box, face }) {
    const isPart = box && (face ?? null) === null && box[2] * box[3] < WHOLE;
    this.match = isPart ? box : null;
    $("viewer-match").hidden = $("viewer-near").hidden = this.match === null;
    if (this.match) place($("viewer-match"), this.match);
  }

  // That part as large as it fits, and the whole photo again.
  showMatch() {
    if (!this.match || this.box.enabled) return;
    const [stage, image] = [$("viewer-stage"), $("viewer-image")];
    const [x, y, width, height] = this.match;
    const isNear = $("viewer-near").getAttribute("aria-pressed") === "true";
    const room = Math.min(stage.clientWidth / (width * image.clientWidth), stage.clientHeight / (height * image.clientHeight));
    const zoom = isNear ? 1 : Math.min(Math.max(0.9 * room, 1), NEAREST);
    this.shift = [(0.5 - x - width / 2) * image.clientWidth * zoom, (0.5 - y - height / 2) * image.clientHeight * zoom];
    this.setZoom(zoom);
    $("viewer-near").setAttribute("aria-pressed", !isNear);
  }

  // The picture is there: as large as there is room for it, and a small one no larger than it bears.
  arrived() {
    const { naturalWidth, naturalHeight } = $("viewer-image");
    this.size ??= [naturalWidth, naturalHeight]; // and not that of the same picture with more pixels
    this.fit();
  }

  fit() {
    const stage = $("viewer-stage");
    if (!this.size || !this.dialog.open) return;
    const [width, height] = this.size;
    const scale = Math.min(stage.clientWidth / width, stage.clientHeight / height, ENLARGED);
    Object.assign($("viewer-image").style, { width: `${width * scale}px`, height: `${height * scale}px` });
    this.cover();
    this.sharpen();
  }

  // The layer with frames over the photo is as large as it and moved with it.
  cover() {
    const { offsetLeft, offsetTop, clientWidth, clientHeight, style } = $("viewer-image");
    const layer = $("viewer-layer").style;
    Object.assign(layer, { left: `${offsetLeft}px`, top: `${offsetTop}px`, width: `${clientWidth}px`, height: `${clientHeight}px`, transform: style.transform });
    layer.setProperty("--thin", `${2 / this.zoom}px`);
  }

  // Fetch a picture with more pixels, if the photo has more than the one that is shown and the screen has room for them.
  sharpen() {
    clearTimeout(this.resting);
    const { hit, column, size, facts } = this;
    if (!size || !facts || facts.width <= size[0] || !this.dialog.open) return;
    const shown = $("viewer-image").clientWidth * this.zoom * devicePixelRatio;
    if (shown <= 1.2 * $("viewer-image").naturalWidth || $("viewer-image").src.includes("/detail?")) return;
    this.resting = setTimeout(() => {
      const sharp = new Image();
      sharp.addEventListener("load", () => {
        if (hit === this.hit && this.dialog.open) $("viewer-image").src = sharp.src;
      });
      sharp.src = column.address(hit, "detail");
    }, REST);
  }

  showMark() {
    const marks = this.page.marks(this.hit);
    $("viewer-yes").hidden = $("viewer-no").hidden = !marks;
    const mark = this.page.markOf(this.column, this.hit);
    $("viewer-yes").setAttribute("aria-pressed", mark === "right");
    $("viewer-no").setAttribute("aria-pressed", mark === "wrong");
  }

  async mark(kind) {
    const { hit, column } = this;
    if (!this.page.marks(hit)) return;
    await this.page.mark(column, [hit], this.page.markOf(column, hit) === kind ? "neither" : kind);
    column.markTiles();
    this.showMark();
  }

  search() {
    const { column, hit } = this;
    this.dialog.close();
    this.page.search(column, hit.id);
  }

  // First the part is drawn, then it is searched with.
  part() {
    if (!this.box.enabled) {
      this.choosePart(true);
      return;
    }
    if (this.box.value === null) return;
    const { column, hit, box: { value } } = this;
    this.dialog.close();
    this.page.part(column, hit.id, value);
  }

  // The same for a face that was not found.
  draw() {
    if (!this.box.enabled) {
      this.choosePart(true, true);
      return;
    }
    const { value } = this.box;
    if (value === null) return;
    this.choosePart(false);
    this.faces.draw(value);
  }

  choosePart(on, isDrawing = false) {
    this.isDrawing = on && isDrawing;
    this.box.enabled = on;
    this.box.set(on ? (isDrawing ? [0.4, 0.35, 0.2, 0.3] : this.match ?? [0.25, 0.25, 0.5, 0.5]) : null);
    this.dialog.classList.toggle("choosing", on);
    $("viewer-part").hidden = this.isDrawing;
    $("viewer-part").textContent = on ? words.searchThisPart : words.searchPart;
    $("viewer-part").classList.toggle("main", on);
    $("viewer-draw").hidden = on && !isDrawing;
    $("viewer-draw").textContent = this.isDrawing ? words.isFace : words.drawFace;
    $("viewer-draw").classList.toggle("main", this.isDrawing);
    $("viewer-search").classList.toggle("main", !on);
    $("viewer-note").textContent = on ? words.drawPart : "";
    if (on) {
      this.setZoom(1);
      $("viewer-stage").focus();
    }
  }

  async reveal() {
    try {
      await post(`${this.column.base}/photos/${this.hit.id}/reveal`, {});
      $("viewer-note").textContent = words.opensFolder;
    } catch (error) {
      $("viewer-note").textContent = error.message;
    }
  }

  // With a pointer, what is under it stays there.
  scale(factor, pointer) {
    if (this.box.enabled) return;
    const stage = $("viewer-stage").getBoundingClientRect();
    const zoom = Math.min(Math.max(this.zoom * factor, 1), NEAREST);
    const at = pointer ? [pointer.clientX - stage.left - stage.width / 2, pointer.clientY - stage.top - stage.height / 2] : [0, 0];
    this.shift = this.shift.map((shift, axis) => at[axis] - (at[axis] - shift) * (zoom / this.zoom));
    this.setZoom(zoom);
  }

  setZoom(zoom) {
    this.zoom = Math.min(Math.max(zoom, 1), NEAREST);
    const [image, stage] = [$("viewer-image"), $("viewer-stage")];
    const room = [image.clientWidth * this.zoom + stage.clientWidth, image.clientHeight * this.zoom + stage.clientHeight];
    this.shift = this.zoom === 1 ? [0, 0] : this.shift.map((shift, axis) => { // some of it stays on the screen
      const most = Math.max(room[axis] / 2 - 60, 0);
      return Math.min(Math.max(shift, -most), most);
    });
    $("viewer-scale").textContent = this.zoom === 1 ? words.fit : percent(this.zoom);
    this.sharpen();
    image.style.transform = this.zoom === 1 ? "" : `translate(${this.shift[0]}px, ${this.shift[1]}px) scale(${this.zoom})`;
    this.cover();
    $("viewer-near").setAttribute("aria-pressed", "false");
    $("viewer-further").disabled = this.zoom === 1;
    $("viewer-nearer").disabled = this.zoom === NEAREST;
  }

  // A mouse or one finger moves the photo, two fingers zoom; a finger that passes over a photo that fits turns the page.
  grab(event) {
    if (this.box.enabled || event.button !== 0) return;
    event.preventDefault();
    this.fingers.set(event.pointerId, event);
    this.began = this.fingers.size === 1 ? event : null;
    $("viewer-stage").setPointerCapture(event.pointerId);
  }

  pull(event) {
    const before = this.fingers.get(event.pointerId);
    if (!before || this.box.enabled) return;
    this.fingers.set(event.pointerId, event);
    const other = [...this.fingers.values()].find((finger) => finger.pointerId !== event.pointerId);
    if (other) {
      const [now, then] = [event, before].map((one) => Math.hypot(one.clientX - other.clientX, one.clientY - other.clientY));
      this.scale(now / Math.max(then, 1), { clientX: (event.clientX + other.clientX) / 2, clientY: (event.clientY + other.clientY) / 2 });
    } else if (this.zoom > 1) {
      this.shift = [this.shift[0] + event.clientX - before.clientX, this.shift[1] + event.clientY - before.clientY];
      this.setZoom(this.zoom);
    }
  }

  drop(event) {
    const { began } = this;
    this.fingers.delete(event.pointerId);
    this.began = null;
    if (!began || began.pointerType === "mouse" || this.zoom > 1 || event.type !== "pointerup") return;
    const [right, down] = [event.clientX - began.clientX, event.clientY - began.clientY];
    if (Math.abs(right) > 50 && Math.abs(right) > 2 * Math.abs(down)) this.go(right < 0 ? 1 : -1);
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || isTyping(event)) return;
    const action = {
      ArrowLeft: () => this.go(-1), ArrowRight: () => this.go(1), "+": () => this.scale(1.5), "=": () => this.scale(1.5), "-": () => this.scale(1 / 1.5),
      0: () => this.setZoom(1), f: () => this.search(), p: () => this.part(), t: () => this.showMatch(), r: () => this.mark("right"), w: () => this.mark("wrong"),
    }[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!action) return;
    event.preventDefault();
    action();
  }
}

// The size of a photo, as far as it is known.
export function spokenSize({ width, height, bytes }) {
  return [width && words.pixels(width, height), bytes && spokenBytes(bytes)].filter(Boolean).join(", ");
}

// When a photo was taken, and how that is known where its camera does not tell.
function spokenDate({ taken, day, dated_by: how }) {
  if (taken) return words.takenAt(taken.slice(0, 10), taken.slice(11, 16));
  return day ? words.dated(day, how) : null;
}
