// The page: a query (a photo of the album, or one that is dropped, pasted or chosen), and the columns that answer it.

import { keepPlace, keptState, pushView, readView, replaceView } from "./address.js";
import { Lost, askJson, onBack } from "./ask.js";
import { ShareBox } from "./box.js";
import { Column, count, make, named } from "./column.js";
import { follow } from "./events.js";
import { PhotoFaces } from "./faces.js";
import { Filters } from "./filters.js";
import { Keeping } from "./keeping.js";
import { Learning } from "./learning.js";
import { People } from "./people.js";
import { showQuality } from "./quality.js";
import { Slider } from "./slider.js";
import { Stack } from "./stack.js";
import { failed, notKept, say, well } from "./telling.js";
import { Viewer } from "./viewer.js";

const $ = (id) => document.getElementById(id);
const ROLES = ["before", "after"];
const NOTHING = { ids: null, part: null, space: null, members: null, next: null, people: false, person: null, missing: false }; // of a view
const STRANGE = /hei[cf]|tiff?\b|jp2|jpeg2000/i; // kinds of photos that browsers do not show

let server = null;
let begun = null; // the promise of the first answer
let columns = [];
let query = null; // {ids} for a photo of the album by its id in each column, or {file} for another; {label, name}
let keeping = null; // the collections of the album, where there is one album and it can keep them
let learning = null; // what the album learns from them
let people = null; // the people of the album, where there is one album and it shows them
let filters = null; // which photos are looked at, where there is one album
const uploads = []; // photos from elsewhere that were searched with, for as long as the page is open
let browsed = 0; // the first place on the screen when all photos were shown last
let refined = false; // whether the marks are part of the question
let versions = null; // of the albums, as the server told last

const slider = new Slider(() => search());
const box = new ShareBox($("stage"), $("query-image"), $("box"), () => {
  if (query?.ids) replaceView(view());
  search();
});

// ---- the query

// Search with a photo of the album. A search that is begun from the photos of a collection, or from a search of it, belongs
// to that collection; one that is begun from all photos belongs to none yet. Who looks for things goes on looking for them.
async function pick(column, id, part = null, space = spaceOf() === "region" ? "region" : null) {
  try {
    const photo = named(await askJson(`${column.base}/photos/${id}`));
    const missing = columns.find((column) => photo.twins[column.number] === null);
    if (missing) throw new Error(`${photo.name} is not in ${missing.album.name}: choose a photo that both albums have.`);
    const chosen = column.question === null ? null : keeping?.collections.chosen ?? null;
    go({ ...view(), ...NOTHING, ids: columns.map((column) => photo.twins[column.number]), part, space, chosen });
  } catch (error) {
    failed(error);
  }
}

// What is shown now.
function view() {
  const question = columns[0]?.question;
  const isList = question?.members !== undefined || question?.next !== undefined || question?.person !== undefined || (people?.isShown ?? false);
  return {
    ids: isList ? null : query?.ids ?? null, part: query?.ids && !isList ? box.value : null, space: query && !isList ? spaceOf() : null,
    members: question?.members ?? null, next: question?.next ?? null, people: people?.isShown ?? false,
    person: people?.isShown ? null : question?.person ?? null, missing: question?.missing ?? false, chosen: keeping?.collections.chosen ?? null, ...(filters?.values ?? {}),
  };
}

// Show another view, to which Back comes back.
function go(next, state = {}) {
  pushView(next, state);
  return show(next, state);
}

async function show(next, { place = 0, upload } = {}) {
  try {
    filters?.set(next.filters ?? {}, next.stacked ?? null);
    await keeping?.collections.choose(next.chosen);
    showTab(people !== null && Boolean(next.people), people !== null && (next.person ?? null) !== null);
    if (people?.isShown) {
      await people.display();
    } else if (people && (next.person ?? null) !== null) {
      forget();
      await people.displayPerson(next.person, next.missing ?? false, place);
    } else if (next.ids?.length >= columns.length) {
      const ids = next.ids.slice(0, columns.length);
      chooseSpace(next.space);
      if (query?.ids?.join() !== ids.join()) {
        const photo = named(await askJson(`${columns[0].base}/photos/${ids[0]}`));
        setQuery({ ids, name: photo.name, label: photo.label }, columns[0].address(photo, "image"));
      }
      box.set(next.part ?? null);
      await search(place);
    } else if (uploads[upload]) {
      chooseSpace(next.space);
      if (query !== uploads[upload]) setQuery(uploads[upload], URL.createObjectURL(uploads[upload].file));
      await search(place);
    } else if (keeping && (next.members ?? next.next) !== null) {
      await (next.members !== null ? keeping.displayMembers(next.members, place) : keeping.displayNext(next.next));
    } else {
      forget();
      showMarks();
      browsed = place;
      await browse(place);
    }
  } catch (error) {
    failed(error);
  }
}

// The tab that is shown: people, or photos; of these, all photos of one person have a card of their own.
function showTab(isPeople, isPerson) {
  $("people").hidden = !isPeople;
  $("results").hidden = isPeople;
  $("person").hidden = true;
  document.body.classList.toggle("with-people", isPeople || isPerson);
  for (const [id, is] of [["tab-photos", !isPeople && !isPerson], ["tab-people", isPeople || isPerson]]) {
    if (is) $(id).setAttribute("aria-current", "page");
    else $(id).removeAttribute("aria-current");
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
  const isStrange = STRANGE.test(`${file.type} ${file.name}`);
  setQuery({ file, isStrange, name: file.name || "a pasted photo", label: null }, URL.createObjectURL(file));
  uploads.push(query);
  await keeping?.collections.choose(null); // a new search, of no collection yet
  if (people && document.body.classList.contains("with-people")) chooseSpace("face"); // whoever looks at people means one
  showTab(false, false);
  pushView({ ...view(), ...NOTHING, space: spaceOf() }, { upload: uploads.length - 1 });
  await search();
}

function setQuery(next, address) {
  if (query?.file) URL.revokeObjectURL($("query-image").src);
  query = next.vectors ? next : { ...next, vectors: new Map(), isForNow: false };
  for (const column of columns) column.marks.clear();
  refined = false;
  box.set(null);
  $("query-image").src = address;
  $("query-image").alt = `The query: ${next.name}`;
  $("query-image").hidden = false;
  $("stage").classList.remove("empty");
  $("stage").tabIndex = 0;
  $("stage").setAttribute("role", "group");
  $("stage").setAttribute("aria-label", "The query: draw a box to search with a part of it, or press the arrow keys");
  $("query-name").replaceChildren(make("bdi", { textContent: next.label === null ? next.name : `${next.name} (${next.label})` }));
  $("query-name").hidden = $("leave").hidden = false;
  $("controls").hidden = false;
  slider.reset();
}

$("query-image").addEventListener("error", () => {
  $("query-image").alt = "This browser cannot show the photo; the server may still read it.";
});

// ---- the search

// Which part of the query is asked with, "" for all of it.
const partOf = () => (box.value ? box.value.map((share) => share.toFixed(5)).join(",") : "");

// Whether all photos of the person in the query are looked for ("face"), or those with such a thing in them ("region");
// null for those that look like it.
const spaceOf = () => ["face", "region"].find((space) => $(`space-${space}`).checked) ?? null;

// What the album does not have is not chosen: whole photos are, then.
function chooseSpace(space) {
  const wanted = $(`space-${space ?? "photo"}`);
  const choice = wanted.parentElement.hidden ? $("space-photo") : wanted;
  if (choice.checked) return;
  choice.checked = true;
  beginScores();
}

// Scores and what they promise are other ones in another space.
function beginScores() {
  showCalibration();
  slider.reset();
}

const vectorOf = (column, part, space) => `${column.number} ${part} ${space}`;

// A photo is sent once for each part of it and each album: pages, filters and marks ask with the vector that came back.
function question(column) {
  const request = { ...slider.question(), ...filters?.question };
  if (refined && !marksForNow()) request.marks = keeping.collections.chosen;
  else if (refined) Object.assign(request, { right: column.marked("right"), wrong: column.marked("wrong") });
  if (query.ids) request.id = query.ids[columns.indexOf(column)];
  const space = spaceOf();
  if (space) Object.assign(request, { space, stacked: undefined }); // copies are shown as they are found
  const known = query.vectors.get(vectorOf(column, partOf(), space));
  if (known) Object.assign(request, known);
  else if (query.file) request.upload = { image: query.file, box: partOf() || null, preview: query.isStrange || null };
  else if (box.value) request.box = box.value;
  return request;
}

async function search(place = 0) {
  if (query === null) return;
  const [asked, part, space] = [query, partOf(), spaceOf()]; // by the time of an answer there may be another
  $("whole").hidden = box.value === null;
  try {
    const answers = await Promise.all(columns.map((column) => column.show(question(column), place)));
    if (answers.includes(null) || asked !== query) return; // a later search is on its way
    well();
    if (query.file || part) columns.forEach((column, place) => query.vectors.set(vectorOf(column, part, space), answers[place].query));
    if (answers[0].preview) showPreview(answers[0].preview);
    showQuality(columns, answers, { isLabelled: !space && server.albums.every((album) => album.labelled), isForeign: Boolean(query.file) });
    slider.range(answers);
    showMarks();
    query.answered = true;
    say(columns.map((column, place) => `${column.album.name}: ${count(answers[place].total, "photo")}`).join("; "));
  } catch (error) {
    if (asked !== query) return; // of a photo that is not the query any more
    failed(error);
    if (query.file && !query.answered && space !== "face" && !(error instanceof Lost)) forget(); // a box around a face may help
  }
}

// A photo that this browser cannot show, as the server sees it.
async function showPreview(picture) {
  const bytes = Uint8Array.from(atob(picture), (letter) => letter.charCodeAt(0));
  URL.revokeObjectURL($("query-image").src);
  $("query-image").src = URL.createObjectURL(new Blob([bytes], { type: "image/jpeg" }));
  $("query-image").alt = `The query: ${query.name}`;
}

// A photo that nothing can be done with is no query.
function forget() {
  query = null;
  refined = false;
  $("query-image").hidden = $("query-name").hidden = $("controls").hidden = $("quality").hidden = $("leave").hidden = $("whole").hidden = true;
  $("query-image").removeAttribute("src");
  $("stage").classList.add("empty");
  $("stage").tabIndex = -1;
}

// From a search back to all photos, where one was before.
function leave() {
  say("All photos");
  return go({ ...view(), ...NOTHING }, { place: browsed });
}

function searchAgain() {
  refined = true;
  return search();
}

// How many photos are marked as right and as wrong.
function markCounts() {
  if (keeping && !marksForNow()) return keeping.collections.counts();
  const [right, wrong] = ["right", "wrong"].map((kind) => columns.reduce((sum, column) => sum + column.marked(kind).length, 0));
  return { right, wrong };
}

function showMarks() {
  const { right, wrong } = markCounts();
  $("again").disabled = right + wrong === 0;
  $("again").textContent = right + wrong ? `Search again: ${right} right, ${wrong} wrong` : "Search again";
  $("clear").hidden = (keeping !== null && !marksForNow()) || right + wrong === 0;
  $("keep-above").hidden = keeping === null || query === null || slider.isOpen;
  $("keep-above").textContent = columns[0]?.photos === 1 ? "Keep this photo" : `Keep all ${(columns[0]?.photos ?? 0).toLocaleString("en")} photos`;
}

// Whether marks are for this search alone: no album keeps them, or somebody said that nothing is to be kept.
function marksForNow() {
  return keeping === null || (query !== null && query.isForNow && keeping.collections.chosen === null);
}

// Marks that no collection keeps: for the next search, and gone with the next query.
function markForNow(column, hits, kind) {
  for (const { id } of hits) {
    if (kind === "neither") column.marks.delete(id);
    else column.marks.set(id, kind);
  }
  column.markTiles();
  say(`${hits[0].name} ${kind === "neither" ? "is not marked any more" : `is marked ${kind}`}`);
  showMarks();
}

// ---- hands on the page

async function drawOne() {
  if (!columns.length) return;
  try {
    const { total } = await columns[0].fetch(null, 0, 1); // a random one of those that pass
    const { photos } = await columns[0].fetch(null, Math.floor(Math.random() * total), 1);
    if (photos.length) await pick(columns[0], photos[0].id);
  } catch (error) {
    failed(error);
  }
}

const imageIn = (transfer) => [...(transfer?.files ?? [])][0];

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
const isOfPerson = (column) => column?.question?.person !== undefined && people !== null;

document.addEventListener("keydown", (event) => {
  if (people?.isShown) return; // the keys are those of the photos
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (event.target.matches?.("input:not([type=range]):not([type=radio])")) return;
  if (event.target.matches?.("select")) return;
  const action = {
    n: drawOne, u: () => $("choose").click(), s: () => !$("again").disabled && searchAgain(),
    ...((isOfPerson(columns[0]) ? people?.keys() : keeping?.keys(event.shiftKey)) ?? {}),
  }[event.key.toLowerCase()];
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
$("leave").addEventListener("click", () => {
  leave();
  $("draw").focus(); // the button is gone
});
$("again").addEventListener("click", searchAgain);
$("spaces").addEventListener("change", () => {
  if (query) replaceView(view());
  beginScores();
  search();
});
$("tab-photos").addEventListener("click", leave);
$("tab-people").addEventListener("click", () => go({ ...view(), ...NOTHING, people: true }));
$("clear").addEventListener("click", () => {
  for (const column of columns) column.marks.clear();
  for (const column of columns) column.markTiles();
  refined = false;
  search();
});
$("keys-open").addEventListener("click", () => $("keys").showModal());
for (const button of document.querySelectorAll("dialog .close")) {
  button.addEventListener("click", () => button.closest("dialog").close());
}
window.addEventListener("popstate", () => columns.length && show(readView(), keptState()));
let resting = null;
addEventListener("scroll", () => {
  clearTimeout(resting);
  resting = setTimeout(() => {
    if (!columns.length) return;
    const { top } = columns[0].grid;
    keepPlace(top);
    if (query === null && columns[0].question === null) browsed = top;
  }, 150);
}, { passive: true });
welcome();

// Whoever comes for the first time is told in three lines what can be done here.
function welcome() {
  const name = "smoothap was here";
  try {
    $("welcome").hidden = localStorage.getItem(name) !== null;
    $("welcome-close").addEventListener("click", () => {
      localStorage.setItem(name, "yes");
      $("welcome").hidden = true;
      $("results").focus({ preventScroll: true });
    });
  } catch { /* storage is forbidden: then nobody is told twice in one visit */ }
}

// ---- the beginning

function showCalibration() {
  $("slider-kind").hidden = spaceOf() !== null || !server.albums.every((album) => album.calibrated); // of whole photos
  if ($("slider-kind").hidden) document.querySelector('input[name="kind"][value="score"]').checked = true;
}

const names = (albums) => albums.map((album) => album.name).join(" and ");

async function begin() {
  try {
    server = await askJson("api/v1/albums");
  } catch (error) {
    failed(error);
    return;
  }
  const two = server.albums.length === 2;
  $("collection-places-row").hidden = !server.local;
  const viewer = new Viewer({
    search: (column, id) => pick(column, id), part: pick, failed,
    mark: (...marked) => page.mark(...marked), markOf: (...asked) => page.markOf(...asked), marks: (hit) => page.marks(hit),
  }, server);
  const stack = new Stack({ failed: notKept, say, changed: () => show(view(), keptState()), look: (column, id) => pick(column, id) });
  const page = {
    failed,
    pick: (column, id) => pick(column, id),
    look: (column, place) => viewer.open(column, place),
    unstack: (column, hit) => stack.open(column, hit),
    filter: () => filters?.question ?? {},
    reranks: () => !two && $("filter-rerank").checked, // a comparison shows what the two models themselves do
    isFiltered: () => Object.keys(filters?.where ?? {}).length > 0,
    marks: (hit) => keeping !== null || Boolean(hit.rank),
    mark: (column, hits, kind) => (isOfPerson(column) ? people.mark(hits, kind) : keeping ? keeping.mark(hits, kind) : markForNow(column, hits, kind)),
    markOf: (column, hit) => (isOfPerson(column) ? people.markOf(hit) : keeping ? keeping.markOf(hit) : column.marks.get(hit.id)),
    saw: () => keeping?.saw(),
    shown: (column, answer) => (isOfPerson(column) ? people.shown(column) : keeping?.shown(column, answer)),
  };
  columns = server.albums.map((album, number) => new Column(album, number, two ? ROLES[number] : "alone", page));
  const [album] = server.albums;
  const elsewhere = (next) => go({ ...view(), ...NOTHING, ...next });
  people = two || !album.people ? null : new People(columns[0], { say, failed: notKept, go: elsewhere, changed: () => replaceView(view()) });
  viewer.faces = people && new PhotoFaces(people, { failed: notKept, go: elsewhere, close: () => $("viewer").close() });
  $("tabs").hidden = people === null;
  const spaces = { face: people !== null, region: !two && album.regions };
  for (const [space, is] of Object.entries(spaces)) $(`space-${space}`).parentElement.hidden = !is;
  $("spaces").hidden = !Object.values(spaces).includes(true);
  keeping = two || !album.keeps ? null : new Keeping(columns[0], {
    say, failed: notKept, marksForNow, markForNow: (hits, kind) => markForNow(columns[0], hits, kind),
    search: () => (query.ids ? go({ ...view(), ...NOTHING, ids: query.ids }) : history.back()),
    query: () => query && { name: query.label ?? query.name, id: query.ids?.[0], cover: $("query-image").src },
    go: elsewhere,
    joined: () => replaceView(view()), // the search belongs to that collection from now on
    decline: () => { query.isForNow = true; },
    changed: () => { showMarks(); filters?.showCollections(keeping?.collections.list ?? null); },
  });
  learning = keeping && new Learning(columns[0].base, { say, failed: notKept, changed: relearnt });
  learning?.look();
  filters = two ? null : new Filters(columns[0].base, album, { failed, changed: () => go(view(), keptState().upload === undefined ? {} : { upload: keptState().upload }) });
  const ready = Promise.all([keeping?.begin(), filters?.begin(null)]); // while the photos are on their way
  $("results").replaceChildren(...columns.map((column) => column.element));
  $("results").classList.toggle("two", two);
  $("title").replaceChildren(make("bdi", { textContent: names(server.albums) }));
  document.title = `${names(server.albums)} · smoothap`;
  $("summary").textContent = two ? "The same photos by two models, side by side" : "Find all the photos of a thing by one of them";
  showCalibration();
  $("query-note").textContent = server.albums.every((album) => album.takes_photos)
    ? "Or press the magnifier under any photo. Drag over the query to search with a part of it."
    : "Press the magnifier under any photo to search with it: this album has no model to see others with.";
  $("choose-label").hidden = !server.albums.every((album) => album.takes_photos);
  $("stage-hint").textContent = $("choose-label").hidden ? "Press the magnifier under a photo" : "Drop or paste a photo";
  const first = readView();
  const isSpecial = Object.keys(first.filters).length || first.chosen !== null || first.members !== null || first.next !== null || first.people || first.person !== null;
  if (isSpecial) {
    await ready; // so that there is what it names
    filters?.showCollections(keeping?.collections.list ?? null);
  }
  if (first.ids === null && server.start) {
    replaceView({ ids: server.start });
    await show({ ids: server.start });
    $("query-note").textContent = "A typical photo, not the best one: of about a hundred photos drawn at random, half gain more AP than this one from the first album to the second, and half gain less. Press the magnifier under any other photo.";
  } else {
    await show(first, keptState());
    if (query === null && first.ids !== null) await browse(); // a photo that is not there any more
  }
  await ready;
  filters?.showCollections(keeping?.collections.list ?? null);
  follow(told);
}

// The server tells that something is new: collections and learning are looked at, and new photos shown if one looks at
// the beginning of the list.
function told(albums) {
  if (names(albums) !== names(server.albums)) {
    resume();
    return;
  }
  const version = albums.map((album) => album.version).join();
  const isOther = versions !== null && versions !== version;
  versions = version;
  learning?.follow(albums[0].learning);
  people?.follow(albums[0].people);
  keeping?.collections.look(albums[0].collections);
  if (!isOther) return;
  filters?.begin(keeping?.collections.list ?? null);
  if (scrollY < innerHeight / 4 && !document.querySelector("dialog[open]")) show(view(), keptState());
}

async function browse(place = 0) {
  try {
    await Promise.all(columns.map((column) => column.show(null, place)));
    well();
  } catch (error) {
    failed(error);
  }
}

// The album has learnt, or forgotten it: what its model made of a query, and what a score means, is another thing now.
async function relearnt() {
  query?.vectors.clear();
  try {
    server = await askJson("api/v1/albums");
  } catch (error) {
    failed(error);
  }
  beginScores();
  await (query === null ? browse() : search());
}

// The server that is back may be another one, with other albums.
async function resume() {
  if (server === null) return begin();
  try {
    const { albums } = await askJson("api/v1/albums");
    if (names(albums) === names(server.albums)) return Promise.all([search(), learning?.look()]);
  } catch (error) {
    return failed(error);
  }
  keeping?.collections.outbox.leave();
  history.replaceState(null, "", location.pathname);
  location.reload();
}

onBack(resume);
begun = begin();
