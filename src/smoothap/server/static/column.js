// One album's photos on the page: a grid of any length that loads what is looked at, with marks, by pointer and by key.
//
// A question is a search, {upload: {image, box, preview}} with a photo from elsewhere; {members: KEY, side}, the photos
// of a collection, or those marked as wrong; {next: KEY, seen}, those most worth a look for it; {person: FACE, missing, seen}, the photos of a person, or
// those that may be; or null, the album in an order.

import { asQuery } from "./address.js";
import { ask, askJson, post } from "./ask.js";
import { $, button, magnifier, make, named, place, save } from "./elements.js";
import { Grid } from "./grid.js";
import { number, withKey, words } from "./strings.js";

const PAGE = 60;

function addressOf(album) {
  return `api/v1/albums/${encodeURIComponent(album.name)}`;
}

// As a form with a photo in it.
function asForm({ upload, ...values }) {
  const form = new FormData();
  for (const [name, value] of Object.entries({ ...values, ...upload })) {
    for (const one of [value].flat()) if (one !== undefined && one !== null) form.append(name, one);
  }
  return form;
}

// Whether one looks for more of a thing, and not at what a collection or a person has.
const isLookingForMore = (question) =>
  question !== null && question.members === undefined && (question.person === undefined || Boolean(question.missing));

export class Column {
  // page: {look(column, place), pick(column, id), unstack(column, hit), mark(column, hits, kind), markOf(column, hit),
  // marks(hit), saw(column), shown(column, answer), filter(), sections(column), at(place), none(), failed(error)}
  constructor(album, number, role, page) {
    Object.assign(this, { album, number, role, page, marks: new Map(), selection: null, question: null, hits: [], total: 0, turn: 0, pages: new Map() });
    this.heading = make("h2", {}, make("bdi", { textContent: album.name }));
    this.note = make("p", { className: "note" });
    this.csv = make("button", { type: "button", textContent: words.csv, title: words.downloadCsv, hidden: true });
    this.csv.setAttribute("aria-label", words.downloadCsvOf(album.name));
    this.csv.addEventListener("click", () => this.download());
    this.list = make("ol", { className: "grid" });
    this.message = make("p", { className: "message", hidden: true });
    this.tools = make("div", { className: "tools" });
    const header = make("header", {}, this.heading, this.note, this.tools, this.csv);
    this.element = make("section", { className: `column ${role}` }, header, this.list, this.message);
    this.element.setAttribute("aria-label", words.photosOf(album.name));
    this.list.addEventListener("click", (event) => this.click(event));
    this.list.addEventListener("keydown", (event) => this.key(event));
    this.grid = new Grid(this.list, {
      tile: (place) => this.tile(place), heading: (section) => this.section(section),
      shown: (...range) => this.near(...range), saw: () => this.page.saw(this),
    });
  }

  get base() {
    return addressOf(this.album);
  }

  // The address changes with the pixels: what the browser has kept is never another photo's picture.
  address(photo, kind) {
    return `${this.base}/photos/${photo.id}/${kind}?picture=${photo.picture}`;
  }

  // Show the answer to a question, or with null the album in its order. The old grid stays until the new one is there.
  // Where `place` is given, that place of the list is shown, and else its beginning. With `anchor` it is the same list as
  // before of an album that has changed: the photo of that id is shown, if it is near there.
  async show(question, place = 0, anchor = undefined) {
    const turn = (this.turn += 1);
    this.element.classList.add("waiting");
    try {
      const pages = new Set(question?.next === undefined && !question?.upload ? [0, place, place && place + PAGE].map((each) => Math.floor(each / PAGE)) : [0]);
      const [sections, answer, ...others] = await Promise.all([question === null ? this.page.sections(this) : null, ...[...pages].map((page) => this.fetch(question, page * PAGE))]);
      if (turn !== this.turn) return null;
      this.question = answered(question, answer);
      this.version = answer.version;
      this.hits = [];
      this.pages = new Map();
      for (const [number, each] of [answer, ...others].entries()) if (each.version === answer.version) this.keep([...pages][number], each);
      this.total = answer.total ?? this.hits.length;
      this.photos = this.total + (answer.folded ?? 0); // with the copies that lie under others
      const there = this.hits.findIndex((hit) => hit && hit.id === anchor);
      const to = there < 0 ? Math.min(place, this.total - 1) : there;
      const inside = this.list.contains(document.activeElement);
      const [offset, focus] = anchor === undefined ? [0, to] : [this.grid.offset, this.grid.current + to - place];
      if (anchor === undefined && this.element.getBoundingClientRect().top < 0) this.element.scrollIntoView();
      if (anchor === undefined && this.selection) this.selection.anchor = null; // its place was one of another list
      this.element.classList.toggle("looking", isLookingForMore(question));
      this.grid.reset(this.total, sections?.version === answer.version ? sections.sections : []);
      if (to > 0) this.grid.scrollTo(to, offset);
      if (inside) this.grid.focus(focus, { preventScroll: anchor !== undefined }); // whoever came by keyboard goes on from there
      this.showSummary(answer);
      this.page.shown(this, answer);
      return answer;
    } finally {
      if (turn === this.turn) this.element.classList.remove("waiting");
    }
  }

  // Whether another answer is on its way.
  get isWaiting() {
    return this.element.classList.contains("waiting");
  }

  // The same of an album that has changed: whoever has scrolled goes on seeing the same photos.
  refresh() {
    const { top } = this.grid;
    return this.show(this.question, top, top ? this.hits[top]?.id ?? null : null);
  }

  keep(page, answer) {
    this.pages.set(page, Promise.resolve());
    (answer.hits ?? answer.photos).forEach((hit, place) => { this.hits[page * PAGE + place] = named(hit); });
  }

  fetch(question, offset, limit = PAGE) {
    const page = `offset=${offset}&limit=${limit}`;
    if (question === null) return askJson(`${this.base}/photos?${asQuery({ ...this.page.filter(), offset, limit })}`);
    if (question.members !== undefined) return askJson(`${this.base}/collections/${question.members}/photos?${page}&side=${question.side ?? "right"}`);
    if (question.next !== undefined) return askJson(`${this.base}/collections/${question.next}/next`, { limit: PAGE, seen: question.seen });
    if (question.person !== undefined) {
      const { person, ...which } = question;
      return askJson(`${this.base}/people/${person}/photos`, { ...which, offset, limit });
    }
    const search = { ...question, offset, limit: PAGE, statistics: true, rerank: this.page.reranks() };
    if (!question.upload) return askJson(`${this.base}/search`, search);
    return ask(`${this.base}/search/photo`, { method: "POST", body: asForm(search) }).then((answer) => answer.json());
  }

  // These places are seen, and these exist around them: load what is missing, once the scrolling rests for a moment.
  near(first, last, from, to) {
    this.page.at(first);
    clearTimeout(this.resting);
    const missing = [];
    for (let page = Math.floor(from / PAGE); page * PAGE < to; page += 1) if (!this.pages.has(page)) missing.push(page);
    if (!missing.length) return;
    const middle = (first + last) / 2 / PAGE;
    missing.sort((one, other) => Math.abs(one - middle) - Math.abs(other - middle));
    this.resting = setTimeout(() => missing.forEach((page) => this.load(page).catch((error) => this.page.failed(error))), 50);
  }

  load(page) {
    if (!this.pages.has(page)) {
      const loading = this.loaded(page, this.turn);
      this.pages.set(page, loading);
      loading.catch(() => this.pages.delete(page)); // to be tried again
    }
    return this.pages.get(page);
  }

  async loaded(page, turn) {
    const answer = await this.fetch(this.question, page * PAGE);
    if (turn !== this.turn) return;
    if (answer.version !== this.version) {
      await this.refresh(); // the album was indexed meanwhile: a list has one version from end to end
      return;
    }
    this.keep(page, answer);
    for (let place = page * PAGE; place < Math.min((page + 1) * PAGE, this.total); place += 1) this.grid.renew(place);
  }

  // The photo in a place of the list, loaded if it is not there yet; undefined beyond its end.
  async hitAt(place) {
    if (place < 0 || place >= this.total) return undefined;
    await this.load(Math.floor(place / PAGE));
    return this.hits[place];
  }

  // All photos from one place to another.
  async range(first, last) {
    for (let page = Math.floor(first / PAGE); page * PAGE <= last; page += 1) await this.load(page);
    return this.hits.slice(first, last + 1);
  }

  showSummary(answer) {
    const searched = answer.query !== undefined;
    this.csv.hidden = !searched || answer.total === 0;
    const parts = [this.total ? words.listed(this.total, answer.folded) : ""];
    if (searched && answer.right_in_list !== null && answer.curve) {
      parts.push(words.rightInList(answer.right_in_list, answer.curve.positives));
    }
    if (searched && answer.expected_recall !== null) {
      parts.push(words.expected(answer.expected_recall, answer.expected_precision));
    }
    if (answer.note) parts.push(answer.note);
    this.note.textContent = parts.join(" · ");
    this.message.hidden = this.total > 0;
    this.message.textContent = this.page.none() ?? (searched ? words.noneScores : this.question !== null ? words.nothing : $("indexing").hidden ? words.emptyAlbum : words.filling);
  }

  // The heading of a month, a folder or a letter.
  section({ title, start, photos }) {
    const text = title || words.rootFolder;
    const select = button(words.select, { "aria-label": words.selectSection(text) }, () => this.selection.section(start, start + photos - 1));
    return make("li", { className: "heading" }, make("h3", {}, make("bdi", { textContent: text })), make("span", { className: "soft", textContent: number(photos) }), select);
  }

  tile(place) {
    const hit = this.hits[place];
    if (hit === undefined) {
      return make("li", { className: "tile empty" }, make("span", { className: "hidden-text", textContent: words.loading }));
    }
    const verdict = hit.right === true ? "right" : hit.right === false ? "wrong" : "";
    const known = hit.label === null ? hit.name : `${hit.name}, ${hit.label}`;
    const score = this.question?.next === undefined ? hit.score?.toFixed(3) : words.chance(hit.score);
    const described = hit.rank ? words.rank(place + 1, known, score, verdict) : known;
    const image = make("img", { src: this.address(hit, "thumbnail"), alt: described, decoding: "async", draggable: false });
    const picture = make("button", { type: "button", className: "picture", title: words.lookAt(known), tabIndex: -1 }, image);
    const tile = make("li", { className: `tile ${verdict}` }, picture);
    if (hit.box) image.addEventListener("load", () => picture.append(frame(image, hit.box)), { once: true });
    tile.dataset.id = hit.id;
    if (verdict) tile.append(make("span", { className: "mark", textContent: verdict === "right" ? "✓" : "✗", "aria-hidden": "true" }));
    if (this.selection) tile.append(this.button("select", "", words.select, "V", known));
    const { length } = hit.copies;
    if (length) tile.append(this.button("stack", `+${length}`, words.copies(length + 1), "D", known));
    if (hit.rank) {
      const rank = make("span", { className: "rank", textContent: number(place + 1) });
      tile.append(make("div", { className: "facts" }, rank, make("span", { className: "score", textContent: score })));
    }
    tile.append(make("div", { className: "name" }, make("bdi", { textContent: hit.label ?? hit.name.split("/").at(-1), title: hit.name })));
    const marks = this.page.marks(hit) ? [["yes", "✓", words.yes, "R"], ["no", "✗", words.no, "W"]] : [];
    const actions = [...marks, ["find", magnifier(), words.find, "F"]];
    tile.append(make("div", { className: "marks" }, ...actions.map((action) => this.button(...action, known))));
    this.markTile(tile, hit);
    return tile;
  }

  button(kind, sign, meaning, key, known) {
    const button = make("button", { type: "button", className: kind, title: withKey(meaning, key), tabIndex: -1 }, sign);
    button.setAttribute("aria-label", words.of(meaning, known));
    return button;
  }

  // The buttons of a tile as they stand.
  markTile(tile, hit) {
    const mark = this.page.markOf(this, hit);
    tile.classList.toggle("no", mark === "wrong");
    const pressed = { yes: mark === "right", no: mark === "wrong" };
    tile.classList.toggle("kept", mark === "right");
    if (this.selection) pressed.select = this.selection.has(hit.id);
    tile.classList.toggle("selected", pressed.select ?? false);
    for (const [kind, is] of Object.entries(pressed)) tile.querySelector(`.${kind}`)?.setAttribute("aria-pressed", is);
  }

  markTiles() {
    for (const [place, tile] of this.grid.tiles) if (tile.dataset.id) this.markTile(tile, this.hits[place]);
    this.page.saw(this);
  }

  // Let the tiles of these photos be seen for a moment: they were marked together.
  flash(hits) {
    const places = new Set(hits.map((hit) => this.hits.indexOf(hit)));
    for (const [place, tile] of this.grid.tiles) {
      if (!places.has(place)) continue;
      tile.classList.remove("flash");
      void tile.offsetWidth; // so that it begins again
      tile.classList.add("flash");
    }
  }

  act(tile, action, event) {
    const place = Number(tile.dataset.place);
    const hit = this.hits[place];
    if (!hit) return;
    if (action === "select" || (action === "picture" && this.selection?.selects(event))) {
      this.grid.current = place;
      this.selection?.toggle(place, event.shiftKey);
    } else if (action === "picture") {
      this.grid.current = place;
      this.page.look(this, place);
    } else if (action === "find") {
      this.page.pick(this, hit.id);
    } else if (action === "stack") {
      if (hit.copies.length) this.page.unstack(this, hit);
    } else if (this.page.marks(hit)) {
      const mark = action === "yes" ? "right" : "wrong";
      this.page.mark(this, [hit], this.page.markOf(this, hit) === mark ? "neither" : mark);
      this.markTile(tile, hit);
    }
  }

  click(event) {
    const button = event.target.closest("button");
    const tile = button?.closest(".tile");
    if (tile) this.act(tile, button.classList[0], event);
  }

  key(event) {
    const tile = event.target.closest(".tile");
    if (!tile || event.ctrlKey || event.metaKey || event.altKey) return;
    const action = { r: "yes", w: "no", f: "find", d: "stack", v: "select" }[event.key.toLowerCase()];
    if (action) {
      this.act(tile, action, event);
    } else {
      const place = this.grid.step(event.key, Number(tile.dataset.place));
      if (place === undefined) return;
      if (event.shiftKey) this.selection?.extend(Number(tile.dataset.place), place);
      this.grid.focus(place);
    }
    event.preventDefault();
  }

  // The photos that have been on the screen as a whole and are not marked.
  unmarked() {
    return this.hits.filter((hit, place) => this.grid.seen.has(place) && this.page.markOf(this, hit) === undefined);
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

// A frame around a part of a picture that is shown whole in a square.
function frame({ naturalWidth, naturalHeight }, [x, y, width, height]) {
  const longer = Math.max(naturalWidth, naturalHeight);
  const [across, down] = [naturalWidth / longer, naturalHeight / longer];
  const element = make("span", { className: "frame", "aria-hidden": "true" });
  place(element, [(1 - across) / 2 + x * across, (1 - down) / 2 + y * down, width * across, height * down]);
  return element;
}

// The question for the next page and for all else: with the vector of a photo, or of a part of one, that was sent.
function answered(question, answer) {
  if (!question?.upload && !question?.box) return question;
  const { upload, box, ...rest } = question;
  return { ...rest, ...answer.query };
}
