// One album's photos on the page: a grid that loads as one scrolls, with marks, by pointer and by key.

import { askJson, post } from "./ask.js";

const PAGE = 60;

export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in element) element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

export function count(number, noun) {
  return `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
}

export class Column {
  // page: {pick(column, id), marked(), kept(column, hit), inBasket(column, id), failed(error)}
  constructor(album, number, role, page) {
    Object.assign(this, { album, number, role, page, marks: new Map(), question: null, hits: [], total: 0, turn: 0 });
    this.heading = make("h2", {}, make("bdi", { textContent: album.name }));
    this.note = make("p", { className: "note" });
    this.csv = make("button", { type: "button", textContent: "CSV", title: "Download this list", hidden: true });
    this.csv.setAttribute("aria-label", `Download the list of ${album.name} as CSV`);
    this.csv.addEventListener("click", () => this.download());
    this.grid = make("ol", { className: "grid" });
    this.message = make("p", { className: "message", hidden: true });
    this.sentinel = make("div", { className: "sentinel" });
    const header = make("header", {}, this.heading, this.note, this.csv);
    this.element = make("section", { className: `column ${role}` }, header, this.grid, this.message, this.sentinel);
    this.element.setAttribute("aria-label", `Photos of ${album.name}`);
    this.grid.addEventListener("click", (event) => this.click(event));
    this.grid.addEventListener("keydown", (event) => this.key(event));
    this.observer = new IntersectionObserver((entries) => entries[0].isIntersecting && this.more(), { rootMargin: "600px" });
  }

  get base() {
    return `/api/albums/${this.number}`;
  }

  // The address changes with the pixels: what the browser has kept is never another photo's picture.
  address(photo, kind) {
    return `${this.base}/photos/${photo.id}/${kind}?picture=${photo.picture}`;
  }

  // Show the answer to a question, or with null the album in its order. The old grid stays until the new one is there.
  async show(question) {
    const turn = (this.turn += 1);
    this.element.classList.add("waiting");
    try {
      const answer = await this.fetch(question, 0);
      if (turn !== this.turn) return null;
      this.question = question;
      this.version = answer.version;
      this.hits = [];
      this.total = answer.total;
      const inside = this.grid.contains(document.activeElement);
      this.grid.replaceChildren();
      this.append(question ? answer.hits : answer.photos);
      if (inside) this.focus(this.grid.firstElementChild); // whoever came by keyboard goes on from the first photo
      this.showSummary(question ? answer : null);
      return answer;
    } finally {
      if (turn === this.turn) this.element.classList.remove("waiting");
    }
  }

  fetch(question, offset) {
    return question
      ? askJson(`${this.base}/search`, { ...question, offset, limit: PAGE })
      : askJson(`${this.base}/photos?offset=${offset}&limit=${PAGE}`);
  }

  async more() {
    if (this.loading || this.hits.length >= this.total) return;
    this.loading = true;
    const turn = this.turn;
    try {
      const answer = await this.fetch(this.question, this.hits.length);
      if (turn !== this.turn) return;
      if (answer.version === this.version) this.append(this.question ? answer.hits : answer.photos);
      else await this.show(this.question); // the album was indexed meanwhile: a list has one version from end to end
    } catch (error) {
      this.page.failed(error);
    } finally {
      this.loading = false;
    }
  }

  append(hits) {
    const first = this.hits.length === 0;
    this.hits.push(...hits);
    this.grid.append(...hits.map((hit, place) => this.tile(hit, first && place === 0)));
    this.observer.disconnect();
    if (this.hits.length < this.total) this.observer.observe(this.sentinel);
  }

  showSummary(answer) {
    this.csv.hidden = answer === null || answer.total === 0;
    const parts = [];
    if (answer === null) {
      parts.push(this.total ? count(this.total, "photo") : "");
    } else {
      parts.push(count(answer.total, "photo"));
      if (answer.right_in_list !== null && answer.curve) {
        parts.push(`${answer.right_in_list} of ${answer.curve.positives} right ones in the list`);
      }
      if (answer.expected_recall !== null) {
        const [recall, precision] = [answer.expected_recall, answer.expected_precision].map((share) => Math.round(100 * share));
        parts.push(`expected recall ${recall}%, precision ${precision}%`);
      }
    }
    this.note.textContent = parts.join(" · ");
    this.message.hidden = this.total > 0;
    this.message.textContent = answer === null
      ? "This album is empty. Fill it with: smoothap index PHOTOS --model MODEL --out ALBUM"
      : "No photo scores as high as that: move the slider to the left.";
  }

  tile(hit, first) {
    const verdict = hit.right === true ? "right" : hit.right === false ? "wrong" : "";
    const known = hit.label === null ? hit.name : `${hit.name}, ${hit.label}`;
    const described = hit.rank ? `Rank ${hit.rank}: ${known}, score ${hit.score.toFixed(3)}${verdict && `, ${verdict}`}` : known;
    const image = make("img", { src: this.address(hit, "thumbnail"), alt: described, loading: "lazy", decoding: "async" });
    const picture = make("button", { type: "button", className: "picture", title: `Search with ${known}`, tabIndex: first ? 0 : -1 }, image);
    const tile = make("li", { className: `tile ${verdict}` }, picture);
    tile.dataset.id = hit.id;
    if (verdict) tile.append(make("span", { className: "mark", textContent: verdict === "right" ? "✓" : "✗", "aria-hidden": "true" }));
    if (hit.rank) {
      const rank = make("span", { className: "rank", textContent: hit.rank });
      tile.append(make("div", { className: "facts" }, rank, make("span", { className: "score", textContent: hit.score.toFixed(3) })));
    }
    tile.append(make("div", { className: "name" }, make("bdi", { textContent: hit.label ?? hit.name, title: hit.name })));
    if (hit.rank) {
      const marks = [["yes", "✓", "Right (R)"], ["no", "✗", "Wrong (W)"], ["keep", "★", "Into the basket (B)"]];
      tile.append(make("div", { className: "marks" }, ...marks.map(([kind, sign, meaning]) => {
        const button = make("button", { type: "button", className: kind, textContent: sign, title: meaning, tabIndex: -1 });
        button.setAttribute("aria-label", `${meaning}: ${known}`);
        return button;
      })));
    }
    this.markTile(tile, hit.id);
    return tile;
  }

  // The buttons of a tile as they stand.
  markTile(tile, id) {
    const mark = this.marks.get(id);
    tile.classList.toggle("no", mark === "wrong");
    const pressed = { yes: mark === "right", no: mark === "wrong", keep: this.page.inBasket(this, id) };
    for (const [kind, is] of Object.entries(pressed)) tile.querySelector(`.${kind}`)?.setAttribute("aria-pressed", is);
  }

  markTiles() {
    for (const tile of this.grid.children) this.markTile(tile, Number(tile.dataset.id));
  }

  act(tile, action) {
    const id = Number(tile.dataset.id);
    const hit = this.hits.find((shown) => shown.id === id);
    if (action === "picture") {
      this.page.pick(this, id);
    } else if (hit.rank && action === "keep") {
      this.page.kept(this, hit);
    } else if (hit.rank) {
      const mark = action === "yes" ? "right" : "wrong";
      if (this.marks.get(id) === mark) this.marks.delete(id);
      else this.marks.set(id, mark);
      this.page.marked(`${hit.name} ${this.marks.get(id) === mark ? `is marked ${mark}` : "is not marked any more"}`);
    }
    this.markTile(tile, id);
  }

  click(event) {
    const button = event.target.closest("button");
    if (button) this.act(button.closest(".tile"), button.classList[0]);
  }

  key(event) {
    const tile = event.target.closest(".tile");
    if (!tile || event.ctrlKey || event.metaKey || event.altKey) return;
    const action = { r: "yes", w: "no", b: "keep" }[event.key.toLowerCase()];
    if (action) {
      this.act(tile, action);
    } else {
      const tiles = [...this.grid.children];
      const wide = tiles.findIndex((other) => other.offsetTop > tiles[0].offsetTop);
      const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -(wide < 0 ? tiles.length : wide), ArrowDown: wide < 0 ? tiles.length : wide };
      const places = { Home: 0, End: tiles.length - 1 };
      const place = places[event.key] ?? tiles.indexOf(tile) + step[event.key];
      if (Number.isNaN(place)) return;
      this.focus(tiles[place]);
    }
    event.preventDefault();
  }

  focus(tile) {
    if (!tile) return;
    for (const focusable of this.grid.querySelectorAll('.picture[tabindex="0"]')) focusable.tabIndex = -1;
    const picture = tile.querySelector(".picture");
    picture.tabIndex = 0;
    picture.focus();
    if (tile.nextElementSibling === null) this.more();
  }

  marked(kind) {
    return [...this.marks].filter(([, mark]) => mark === kind).map(([id]) => id);
  }

  async download() {
    try {
      save(await (await post(`${this.base}/search.csv`, this.question)).blob(), "photos.csv");
    } catch (error) {
      this.page.failed(error);
    }
  }
}

export function save(blob, name) {
  const address = URL.createObjectURL(blob);
  make("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}
