// One album's photos on the page: a grid that loads as one scrolls, with marks, by pointer and by key.
//
// A question is a search; {members: KEY}, the photos of a collection; {next: KEY, seen}, those most worth a look for it;
// or null, the album in its order.

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
  // page: {pick(column, id), mark(column, hits, kind), markOf(column, id), marks(hit), shown(column), failed(error)}
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
    this.tools = make("div", { className: "tools" });
    const header = make("header", {}, this.heading, this.note, this.tools, this.csv);
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
      this.total = answer.total ?? answer.hits.length;
      const inside = this.grid.contains(document.activeElement);
      this.grid.replaceChildren();
      this.append(answer.hits ?? answer.photos);
      if (inside) this.focus(this.grid.firstElementChild); // whoever came by keyboard goes on from the first photo
      this.showSummary(answer);
      this.page.shown(this, answer);
      return answer;
    } finally {
      if (turn === this.turn) this.element.classList.remove("waiting");
    }
  }

  fetch(question, offset) {
    const page = `offset=${offset}&limit=${PAGE}`;
    if (question === null) return askJson(`${this.base}/photos?${page}`);
    if (question.members !== undefined) return askJson(`${this.base}/collections/${question.members}/photos?${page}`);
    if (question.next !== undefined) return askJson(`${this.base}/collections/${question.next}/next`, { limit: PAGE, seen: question.seen });
    return askJson(`${this.base}/search`, { ...question, offset, limit: PAGE });
  }

  async more() {
    if (this.loading || this.hits.length >= this.total) return;
    this.loading = true;
    const turn = this.turn;
    try {
      const answer = await this.fetch(this.question, this.hits.length);
      if (turn !== this.turn) return;
      if (answer.version === this.version) this.append(answer.hits ?? answer.photos);
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
    const searched = answer.ranked !== undefined;
    this.csv.hidden = !searched || answer.total === 0;
    const parts = [this.total ? count(this.total, "photo") : ""];
    if (searched && answer.right_in_list !== null && answer.curve) {
      parts.push(`${answer.right_in_list} of ${answer.curve.positives} right ones in the list`);
    }
    if (searched && answer.expected_recall !== null) {
      const [recall, precision] = [answer.expected_recall, answer.expected_precision].map((share) => Math.round(100 * share));
      parts.push(`expected recall ${recall}%, precision ${precision}%`);
    }
    this.note.textContent = parts.join(" · ");
    this.message.hidden = this.total > 0;
    this.message.textContent = searched
      ? "No photo scores as high as that: move the slider to the left."
      : this.question === null
        ? "This album is empty. Fill it with: smoothap index PHOTOS --model MODEL --out ALBUM"
        : "There is no photo to show.";
  }

  tile(hit, first) {
    const verdict = hit.right === true ? "right" : hit.right === false ? "wrong" : "";
    const known = hit.label === null ? hit.name : `${hit.name}, ${hit.label}`;
    const score = this.question?.next === undefined ? hit.score?.toFixed(3) : `${Math.round(100 * hit.score)}%`; // of belonging
    const described = hit.rank ? `Rank ${hit.rank}: ${known}, score ${score}${verdict && `, ${verdict}`}` : known;
    const image = make("img", { src: this.address(hit, "thumbnail"), alt: described, loading: "lazy", decoding: "async" });
    const picture = make("button", { type: "button", className: "picture", title: `Search with ${known}`, tabIndex: first ? 0 : -1 }, image);
    const tile = make("li", { className: `tile ${verdict}` }, picture);
    tile.dataset.id = hit.id;
    if (verdict) tile.append(make("span", { className: "mark", textContent: verdict === "right" ? "✓" : "✗", "aria-hidden": "true" }));
    if (hit.rank) {
      const rank = make("span", { className: "rank", textContent: hit.rank });
      tile.append(make("div", { className: "facts" }, rank, make("span", { className: "score", textContent: score })));
    }
    tile.append(make("div", { className: "name" }, make("bdi", { textContent: hit.label ?? hit.name, title: hit.name })));
    if (this.page.marks(hit)) {
      const marks = [["yes", "✓", "It belongs (R)"], ["no", "✗", "It does not (W)"]];
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
    const mark = this.page.markOf(this, id);
    tile.classList.toggle("no", mark === "wrong");
    const pressed = { yes: mark === "right", no: mark === "wrong" };
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
    } else if (this.page.marks(hit)) {
      const mark = action === "yes" ? "right" : "wrong";
      this.page.mark(this, [hit], this.page.markOf(this, id) === mark ? "neither" : mark);
      this.markTile(tile, id);
    }
  }

  click(event) {
    const button = event.target.closest("button");
    if (button) this.act(button.closest(".tile"), button.classList[0]);
  }

  key(event) {
    const tile = event.target.closest(".tile");
    if (!tile || event.ctrlKey || event.metaKey || event.altKey) return;
    const action = { r: "yes", w: "no" }[event.key.toLowerCase()];
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

  // The shown photos that are not marked.
  unmarked() {
    return this.hits.filter((hit) => this.page.markOf(this, hit.id) === undefined);
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
