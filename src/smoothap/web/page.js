// The page: a query (a photo of the album, or one that is dropped, pasted or chosen), and the columns that answer it.

import { Lost, ask, askJson, onBack, post } from "./ask.js";
import { ShareBox } from "./box.js";
import { Column, count, make, save } from "./column.js";
import { drawCurves, percent } from "./curve.js";

const $ = (id) => document.getElementById(id);
const ROLES = ["before", "after"];

let server = null;
let begun = null; // the promise of the first answer
let columns = [];
let query = null; // {ids} for a photo of the album by its id in each column, or {file} for another; {label, name}
let lowest = null; // of the slider: nothing is asked for when it stands there
const basket = new Map(); // "column id" -> {column, hit}

const box = new ShareBox($("stage"), $("query-image"), $("box"), () => search());

// ---- telling

function say(text) {
  $("status").textContent = text;
}

function failed(error) {
  if (error instanceof Lost) return;
  $("mistake-text").textContent = error.message;
  $("mistake").hidden = false;
}

function well() {
  $("mistake").hidden = true;
}

// ---- the query

async function pick(column, id) {
  try {
    const photo = await askJson(`/api/albums/${column.number}/photos/${id}`);
    const missing = columns.find((column) => photo.twins[column.number] === null);
    if (missing) throw new Error(`${photo.name} is not in ${missing.album.name}: choose a photo that both albums have.`);
    const address = `#photo=${columns.map((column) => photo.twins[column.number]).join(",")}`;
    if (location.hash === address) open();
    else location.hash = address; // which opens it, and lets the browser's back button work
  } catch (error) {
    failed(error);
  }
}

async function open() {
  const ids = /^#photo=(\d+)(?:,(\d+))?$/.exec(location.hash)?.slice(1, columns.length + 1).map(Number);
  if (!ids || ids.some(Number.isNaN)) return;
  try {
    const photo = await askJson(`/api/albums/0/photos/${ids[0]}`);
    setQuery({ ids, name: photo.name, label: photo.label }, columns[0].address(photo, "image"));
    await search();
  } catch (error) {
    failed(error);
  }
}

async function take(file) {
  if (!file) return;
  await begun;
  if (server === null) return; // the banner says why
  if (file.size > server.upload_bytes) {
    failed(new Error(`${file.name} has ${(file.size / 1e6).toFixed(0)} MB, more than the ${server.upload_bytes / 1e6} MB that are taken here.`));
    return;
  }
  const without = columns.find((column) => !column.album.takes_photos);
  if (without) {
    failed(new Error(`${without.album.name} has vectors and no model: search with one of its own photos.`));
    return;
  }
  history.replaceState(null, "", location.pathname);
  setQuery({ file, name: file.name || "a pasted photo", label: null }, URL.createObjectURL(file));
  await search();
}

function setQuery(next, address) {
  if (query?.file) URL.revokeObjectURL($("query-image").src);
  query = { ...next, vectors: new Map() };
  for (const column of columns) column.marks.clear();
  box.set(null);
  $("query-image").src = address;
  $("query-image").alt = `The query: ${next.name}`;
  $("query-image").hidden = false;
  $("stage").classList.remove("empty");
  $("stage").tabIndex = 0;
  $("stage").setAttribute("role", "group");
  $("stage").setAttribute("aria-label", "The query: draw a box to search with a part of it, or press the arrow keys");
  $("query-name").replaceChildren(make("bdi", { textContent: next.label === null ? next.name : `${next.name} (${next.label})` }));
  $("query-name").hidden = false;
  $("controls").hidden = false;
  resetSlider();
}

$("query-image").addEventListener("error", () => {
  $("query-image").alt = "This browser cannot show the photo; the server may still read it.";
});

// ---- the search

// The query as the column's model sees it, asked for once: the slider and the marks do not send a photo again.
async function vectorOf(column, photo) {
  const part = box.value ? box.value.map((share) => share.toFixed(5)).join(",") : "";
  const name = `${column.number} ${part}`;
  const { vectors, file } = query;
  if (!vectors.has(name)) {
    const options = { method: "POST", headers: { "content-type": "application/octet-stream" }, body: file };
    const answer = file
      ? await (await ask(`${column.base}/embed${part && `?box=${part}`}`, options)).json()
      : await askJson(`${column.base}/photos/${photo}/part`, { box: part.split(",").map(Number) });
    vectors.set(name, answer); // {vector, model}
  }
  return vectors.get(name);
}

async function question(column) {
  const request = { right: column.marked("right"), wrong: column.marked("wrong") };
  if (query.ids) request.photo = query.ids[columns.indexOf(column)];
  if (query.file || box.value) Object.assign(request, await vectorOf(column, request.photo));
  const value = Number($("slider").value);
  if ($("slider").dataset.kind === "recall") {
    if (value < 1) request.recall = value;
  } else if (lowest !== null && value > lowest) {
    request.minimum = value;
  }
  return request;
}

async function search() {
  if (query === null) return;
  $("whole").hidden = box.value === null;
  try {
    const answers = await Promise.all(columns.map(async (column) => column.show(await question(column))));
    if (answers.includes(null)) return; // a later search is on its way
    well();
    showQuality(answers);
    showRange(answers);
    showMarks();
    query.answered = true;
    say(columns.map((column, place) => `${column.album.name}: ${count(answers[place].total, "photo")}`).join("; "));
  } catch (error) {
    failed(error);
    if (query?.file && !query.answered && !(error instanceof Lost)) forget();
  }
}

// A photo that nothing can be done with is no query.
function forget() {
  query = null;
  $("query-image").hidden = $("query-name").hidden = $("controls").hidden = $("quality").hidden = true;
  $("query-image").removeAttribute("src");
  $("stage").classList.add("empty");
  $("stage").tabIndex = -1;
}

function showQuality(answers) {
  const labelled = server.albums.every((album) => album.labelled);
  const drawn = answers.map((answer, place) => ({
    name: columns[place].album.name, before: columns[place].role === "before", curve: answer.curve,
  })).filter(({ curve }) => curve !== null);
  $("quality").hidden = !labelled;
  $("curves").replaceChildren(...(drawn.length ? [drawCurves(drawn)] : []));
  $("legend").replaceChildren(...drawn.map(({ name, before, curve }) => make(
    "li", {}, make("span", { className: before ? "line before" : "line" }),
    make("bdi", { textContent: name }), make("b", { textContent: `AP ${percent(curve.average_precision)}` }),
  )));
  $("quality-note").textContent = drawn.length
    ? `${count(drawn[0].curve.positives, "right photo")} among ${count(answers[0].ranked, "other")}; AP is exact, over the whole ranking.`
    : query.file
      ? "A photo from outside has no label, so there is nothing to count."
      : "No other photo has this label, so there is nothing to find.";
}

function showMarks() {
  const [right, wrong] = ["right", "wrong"].map((kind) => columns.reduce((sum, column) => sum + column.marked(kind).length, 0));
  $("again").disabled = right + wrong === 0;
  $("again").textContent = right + wrong ? `Search again: ${right} right, ${wrong} wrong` : "Search again";
  $("clear").hidden = right + wrong === 0;
}

// ---- the slider

function resetSlider() {
  lowest = null;
  const recall = document.querySelector('input[name="kind"]:checked').value === "recall";
  Object.assign($("slider"), recall ? { min: 0.5, max: 1, step: 0.01, value: 1 } : { min: -1, max: 1, step: 0.005, value: -1 });
  $("slider").dataset.kind = recall ? "recall" : "score";
  $("slider-label").textContent = recall ? "recall of about" : "score at least";
  showSlider();
}

function showRange(answers) {
  if ($("slider").dataset.kind === "recall" || lowest !== null) return showSlider();
  const ends = answers.filter((answer) => answer.lowest !== null);
  lowest = Math.floor(200 * Math.min(0.995, ...ends.map((answer) => answer.lowest))) / 200;
  const highest = Math.ceil(200 * Math.max(lowest + 0.005, ...ends.map((answer) => answer.highest))) / 200;
  Object.assign($("slider"), { min: lowest, max: highest, value: lowest });
  return showSlider();
}

function showSlider() {
  const value = Number($("slider").value);
  const recall = $("slider").dataset.kind === "recall";
  const everything = recall ? value >= 1 : lowest === null || value <= lowest;
  $("slider-value").textContent = everything ? "any: all photos" : recall ? `${Math.round(100 * value)}%` : value.toFixed(3);
}

let sliding = null;
$("slider").addEventListener("input", () => {
  showSlider();
  clearTimeout(sliding);
  sliding = setTimeout(search, 200);
});
$("slider-kind").addEventListener("change", () => {
  resetSlider();
  search();
});

// ---- the basket

function key(column, id) {
  return `${column.number} ${id}`;
}

function kept(column, hit) {
  const name = key(column, hit.id);
  if (!basket.delete(name)) basket.set(name, { column, hit });
  say(`${hit.name} is ${basket.has(name) ? "in" : "out of"} the basket`);
  showBasket();
}

function showBasket() {
  $("basket-count").textContent = basket.size;
  $("basket-empty").hidden = basket.size > 0;
  $("basket-csv").disabled = $("basket-clear").disabled = basket.size === 0;
  $("basket-list").replaceChildren(...[...basket].map(([name, { column, hit }]) => {
    const remove = make("button", { type: "button", textContent: "Remove" });
    remove.setAttribute("aria-label", `Remove ${hit.name} from the basket`);
    remove.addEventListener("click", () => {
      basket.delete(name);
      showBasket();
    });
    return make("li", {}, make("img", { src: column.address(hit, "thumbnail"), alt: hit.name, title: hit.name }), remove);
  }));
  for (const column of columns) column.markTiles();
}

async function downloadBasket() {
  try {
    for (const column of columns) {
      const photos = [...basket.values()].filter((kept) => kept.column === column).map(({ hit }) => ({ id: hit.id, score: hit.score }));
      if (!photos.length) continue;
      save(await (await post(`${column.base}/basket.csv`, { photos })).blob(), "basket.csv");
    }
  } catch (error) {
    failed(error);
  }
}

// ---- hands on the page

async function drawOne() {
  if (!columns.length) return;
  try {
    const { albums } = await askJson("/api/albums"); // whose photos may have been indexed again
    const offset = Math.floor(Math.random() * albums[0].photos);
    const page = await askJson(`/api/albums/0/photos?offset=${offset}&limit=1`);
    if (page.photos.length) await pick(columns[0], page.photos[0].id);
  } catch (error) {
    failed(error);
  }
}

function imageIn(transfer) {
  return [...(transfer?.files ?? [])][0];
}

$("choose").addEventListener("change", () => {
  take($("choose").files[0]);
  $("choose").value = "";
});
document.addEventListener("paste", (event) => {
  if (imageIn(event.clipboardData)) take(imageIn(event.clipboardData));
});
document.addEventListener("dragover", (event) => {
  event.preventDefault();
  document.body.classList.add("dropping");
});
document.addEventListener("dragleave", (event) => {
  if (event.relatedTarget === null) document.body.classList.remove("dropping");
});
document.addEventListener("drop", (event) => {
  event.preventDefault();
  document.body.classList.remove("dropping");
  take(imageIn(event.dataTransfer));
});
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (event.target.matches?.("input:not([type=range]):not([type=radio])")) return;
  const action = { n: drawOne, u: () => $("choose").click(), s: () => !$("again").disabled && search() }[event.key.toLowerCase()];
  if (action) {
    event.preventDefault();
    action();
  }
});
$("draw").addEventListener("click", drawOne);
$("whole").addEventListener("click", () => {
  box.set(null);
  search();
});
$("again").addEventListener("click", search);
$("clear").addEventListener("click", () => {
  for (const column of columns) column.marks.clear();
  for (const column of columns) column.markTiles();
  search();
});
$("mistake-close").addEventListener("click", well);
for (const name of ["basket", "keys"]) $(`${name}-open`).addEventListener("click", () => $(name).showModal());
for (const button of document.querySelectorAll("dialog .close")) {
  button.addEventListener("click", () => button.closest("dialog").close());
}
$("basket-csv").addEventListener("click", downloadBasket);
$("basket-clear").addEventListener("click", () => {
  basket.clear();
  showBasket();
});
window.addEventListener("hashchange", open);

// ---- the beginning

const names = (albums) => albums.map((album) => album.name).join(" and ");

async function begin() {
  try {
    server = await askJson("/api/albums");
  } catch (error) {
    failed(error);
    return;
  }
  const two = server.albums.length === 2;
  const page = { pick, kept, failed, inBasket: (column, id) => basket.has(key(column, id)), marked: (text) => { say(text); showMarks(); } };
  columns = server.albums.map((album, number) => new Column(album, number, two ? ROLES[number] : "alone", page));
  $("results").replaceChildren(...columns.map((column) => column.element));
  $("results").classList.toggle("two", two);
  $("title").replaceChildren(make("bdi", { textContent: names(server.albums) }));
  document.title = `${names(server.albums)} · smoothap`;
  $("summary").textContent = two ? "The same photos by two models, side by side" : "Find all the photos of a thing by one of them";
  $("slider-kind").hidden = !server.albums.every((album) => album.calibrated);
  $("query-note").textContent = server.albums.every((album) => album.takes_photos)
    ? "Or click any photo. Drag over the query to search with a part of it."
    : "Click any photo to search with it: this album has no model to see others with.";
  $("choose-label").hidden = !server.albums.every((album) => album.takes_photos);
  $("stage-hint").textContent = $("choose-label").hidden ? "Click a photo" : "Drop or paste a photo";
  showBasket();
  if (location.hash.startsWith("#photo=")) {
    await open();
  } else if (server.start) {
    history.replaceState(null, "", `#photo=${server.start.join(",")}`);
    await open();
    $("query-note").textContent = "A typical photo, not the best one: of about a hundred photos drawn at random, half gain more AP than this one from the first album to the second, and half gain less. Click any other photo.";
  }
  if (query === null) await Promise.all(columns.map((column) => column.show(null))).catch(failed);
}

// The server that is back may be another one, with other albums.
async function resume() {
  if (server === null) return begin();
  try {
    const { albums } = await askJson("/api/albums");
    if (names(albums) === names(server.albums)) return search();
  } catch (error) {
    return failed(error);
  }
  forget();
  basket.clear();
  history.replaceState(null, "", location.pathname);
  return begin();
}

onBack(resume);
begun = begin();
