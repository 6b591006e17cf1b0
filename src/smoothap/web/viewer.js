// A photo large: from one to the next, nearer and further, with what is known of it, and from here to a search.

import { askJson, post } from "./ask.js";
import { ShareBox } from "./box.js";
import { make } from "./column.js";

const $ = (id) => document.getElementById(id);
const NEAREST = 8;

export class Viewer {
  // page: {search(column, id), part(column, id, box), mark(column, hit, kind), markOf(column, id), marks(hit), say, failed}
  constructor(page, { local }) {
    Object.assign(this, { page, column: null, place: 0, zoom: 1, shift: [0, 0] });
    this.dialog = $("viewer");
    $("viewer-reveal").hidden = !local;
    this.box = new ShareBox($("viewer-stage"), $("viewer-image"), $("viewer-box"), (part) => part === null && this.choosePart(false), () => this.part());
    this.box.enabled = false;
    const actions = {
      "viewer-close": () => this.dialog.close(), "viewer-before": () => this.go(-1), "viewer-after": () => this.go(1),
      "viewer-search": () => this.search(), "viewer-part": () => this.part(), "viewer-reveal": () => this.reveal(),
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
      this.scale(event.deltaY < 0 ? 1.2 : 1 / 1.2);
    }, { passive: false });
    stage.addEventListener("pointerdown", (event) => this.grab(event));
    stage.addEventListener("pointermove", (event) => this.pull(event));
    stage.addEventListener("pointerup", () => { this.held = null; });
    stage.addEventListener("dblclick", () => !this.box.enabled && this.setZoom(this.zoom > 1 ? 1 : 2.5));
    $("viewer-image").addEventListener("error", () => { $("viewer-note").textContent = "The photo cannot be shown: is its file still there?"; });
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
      this.hit = hit;
      const image = $("viewer-image");
      image.alt = hit.label === null ? hit.name : `${hit.name}, ${hit.label}`;
      image.src = column.address(hit, "image");
      $("viewer-note").textContent = "";
      $("viewer-place").textContent = `${(place + 1).toLocaleString("en")} of ${column.total.toLocaleString("en")}`;
      $("viewer-before").disabled = place === 0;
      $("viewer-after").disabled = place === column.total - 1;
      this.showMark();
      const facts = await askJson(`${column.base}/photos/${hit.id}/facts`);
      if (place === this.place) this.showFacts(facts, hit);
      column.hitAt(place + 1).then((next) => { if (next) new Image().src = column.address(next, "image"); }, () => {});
    } catch (error) {
      this.dialog.close();
      this.page.failed(error);
    }
  }

  showFacts({ file, folder, taken, camera, width, height, bytes, label, copies }, hit) {
    $("viewer-title").replaceChildren(make("bdi", { textContent: file }));
    const size = [width && `${width.toLocaleString("en")} × ${height.toLocaleString("en")} pixels`, bytes && spoken(bytes)].filter(Boolean).join(", ");
    const facts = {
      Folder: folder || "the photo folder itself", Taken: taken && spokenDate(taken), Camera: camera, Size: size, Label: label,
      Score: hit.rank ? `${hit.score.toFixed(3)}, rank ${hit.rank.toLocaleString("en")}` : null, Copies: copies.length || null,
    };
    $("viewer-facts").replaceChildren(...Object.entries(facts).filter(([, value]) => value).flatMap(
      ([name, value]) => [make("dt", { textContent: name }), make("dd", {}, make("bdi", { textContent: value }))],
    ));
  }

  showMark() {
    const marks = this.page.marks(this.hit);
    $("viewer-yes").hidden = $("viewer-no").hidden = !marks;
    const mark = this.page.markOf(this.column, this.hit.id);
    $("viewer-yes").setAttribute("aria-pressed", mark === "right");
    $("viewer-no").setAttribute("aria-pressed", mark === "wrong");
  }

  async mark(kind) {
    const { hit, column } = this;
    if (!this.page.marks(hit)) return;
    await this.page.mark(column, [hit], this.page.markOf(column, hit.id) === kind ? "neither" : kind);
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

  choosePart(on) {
    this.box.enabled = on;
    this.box.set(on ? [0.25, 0.25, 0.5, 0.5] : null);
    this.dialog.classList.toggle("choosing", on);
    $("viewer-part").textContent = on ? "Search with this part" : "Search with a part";
    $("viewer-note").textContent = on ? "Drag over the photo, or move the box with the arrow keys (with Shift: its size), then press Enter." : "";
    if (on) {
      this.setZoom(1);
      $("viewer-stage").focus();
    }
  }

  async reveal() {
    try {
      await post(`${this.column.base}/photos/${this.hit.id}/reveal`, {});
      $("viewer-note").textContent = "Its folder opens on this computer.";
    } catch (error) {
      $("viewer-note").textContent = error.message;
    }
  }

  scale(factor) {
    if (!this.box.enabled) this.setZoom(this.zoom * factor);
  }

  setZoom(zoom) {
    this.zoom = Math.min(Math.max(zoom, 1), NEAREST);
    if (this.zoom === 1) this.shift = [0, 0];
    $("viewer-image").style.transform = this.zoom === 1 ? "" : `translate(${this.shift[0]}px, ${this.shift[1]}px) scale(${this.zoom})`;
    $("viewer-further").disabled = this.zoom === 1;
    $("viewer-nearer").disabled = this.zoom === NEAREST;
  }

  grab(event) {
    if (this.box.enabled || this.zoom === 1 || event.button !== 0) return;
    event.preventDefault();
    this.held = [event.clientX - this.shift[0], event.clientY - this.shift[1]];
    $("viewer-stage").setPointerCapture(event.pointerId);
  }

  pull(event) {
    if (!this.held) return;
    this.shift = [event.clientX - this.held[0], event.clientY - this.held[1]];
    this.setZoom(this.zoom);
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    const action = {
      ArrowLeft: () => this.go(-1), ArrowRight: () => this.go(1), "+": () => this.scale(1.5), "=": () => this.scale(1.5), "-": () => this.scale(1 / 1.5),
      0: () => this.setZoom(1), f: () => this.search(), p: () => this.part(), r: () => this.mark("right"), w: () => this.mark("wrong"),
    }[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!action) return;
    event.preventDefault();
    action();
  }
}

function spoken(bytes) {
  return bytes >= 1e6 ? `${(bytes / 1e6).toFixed(1)} MB` : `${Math.max(1, Math.round(bytes / 1e3))} kB`;
}

function spokenDate(taken) {
  const [day, clock] = taken.split(" ");
  const [year, month, number] = day.split("-").map(Number);
  const name = new Date(Date.UTC(year, month - 1, number)).toLocaleDateString("en", { day: "numeric", month: "long", year: "numeric", timeZone: "UTC" });
  return `${name}, ${clock.slice(0, 5)}`;
}
