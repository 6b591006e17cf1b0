// The page: a query (a photo of the album, or one that is dropped, pasted or chosen), and the columns that answer it.

import { keepPlace, keptState, readView, replaceView } from "./address.js";
import { app, isOfPerson, marksForNow, names } from "./app.js";
import { askJson, onBack } from "./ask.js";
import { ShareBox } from "./box.js";
import { Browsing } from "./browsing.js";
import { Column } from "./column.js";
import { CopiesView } from "./copies.js";
import { $, make, titleOf } from "./elements.js";
import { follow } from "./events.js";
import { PhotoFaces } from "./faces.js";
import { Filters } from "./filters.js";
import { Keeping } from "./keeping.js";
import { Learning } from "./learning.js";
import { People } from "./people.js";
import { beginScores, clearMarks, markForNow, search, searchAgain, showCalibration, showMarks } from "./search.js";
import { Selection } from "./selection.js";
import "./sheet.js";
import { Slider } from "./slider.js";
import { Stack } from "./stack.js";
import { words } from "./strings.js";
import { failed, notKept, say } from "./telling.js";
import { Viewer } from "./viewer.js";
import { browse, drawOne, go, goTo, leave, pick, show, take, view } from "./views.js";

const ROLES = ["before", "after"];
const CAN = ["labelled", "takes_photos", "keeps", "people", "regions"]; // of an album
const EVERY = 2000; // milliseconds between two readings of an album that changes
const REST = 100; // milliseconds before one
let known = null; // the version of each album and of its lists, as the server told last
let renewing = null; // the next reading
let renewed = 0; // when it was read last

app.slider = new Slider(() => search());
app.box = new ShareBox($("stage"), $("query-image"), $("box"), () => {
  if (app.query?.ids) replaceView(view());
  search();
});

// ---- hands on the page

async function takeSoon(file) {
  await begun;
  await take(file);
}

const imageIn = (transfer) => [...(transfer?.files ?? [])][0];

$("choose").addEventListener("change", () => {
  takeSoon($("choose").files[0]);
  $("choose").value = "";
});
document.addEventListener("paste", (event) => {
  if (imageIn(event.clipboardData)) takeSoon(imageIn(event.clipboardData));
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
  takeSoon(imageIn(event.dataTransfer));
});

document.addEventListener("keydown", (event) => {
  if (app.people?.isShown) return; // the keys are those of the photos
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (event.target.matches?.("input:not([type=range]):not([type=radio])")) return;
  if (event.target.matches?.("select")) return;
  const action = {
    "/": () => !$("names-form").hidden && $("names").focus(), n: drawOne, u: () => $("choose").click(), s: () => !$("again").disabled && searchAgain(),
    ...((isOfPerson(app.columns[0]) ? app.people.keys() : app.keeping?.keys(event.shiftKey)) ?? {}),
  }[event.key.toLowerCase()];
  if (action) {
    event.preventDefault();
    action();
  }
});
$("draw").addEventListener("click", drawOne);
$("whole").addEventListener("click", () => {
  app.box.set(null);
  search();
});
$("leave").addEventListener("click", () => {
  leave();
  $("draw").focus(); // the button is gone
});
$("again").addEventListener("click", searchAgain);
$("clear").addEventListener("click", clearMarks);
$("spaces").addEventListener("change", () => {
  if (app.query) replaceView(view());
  beginScores();
  search();
});
$("tab-photos").addEventListener("click", leave);
$("tab-people").addEventListener("click", () => goTo({ people: true }));
$("review").addEventListener("click", () => goTo({ copies: true }));
$("keys-open").addEventListener("click", () => $("keys").showModal());
for (const button of document.querySelectorAll("dialog .close")) {
  button.addEventListener("click", () => button.closest("dialog").close());
}
window.addEventListener("popstate", () => app.columns.length && show(readView(), keptState()));
let resting = null;
addEventListener("scroll", () => {
  clearTimeout(resting);
  resting = setTimeout(() => {
    const [column] = app.columns;
    if (!column) return;
    const { top } = column.grid;
    keepPlace(top);
    if (app.query === null && column.question === null) app.browsed = top;
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

async function begin() {
  try {
    app.server = await askJson("api/v1/albums");
  } catch (error) {
    failed(error);
    return;
  }
  build(app.server);
  const { albums, start } = app.server;
  const isTwo = albums.length === 2;
  const title = words.bothAlbums(names(albums));
  const canTake = albums.every((album) => album.takes_photos);
  $("results").replaceChildren(...app.columns.map((column) => column.element));
  $("results").classList.toggle("two", isTwo);
  $("title").replaceChildren(make("bdi", { textContent: title }));
  document.title = `${title} · smoothap`;
  $("summary").textContent = isTwo ? words.twoAlbums : words.oneAlbum;
  $("query-note").textContent = canTake ? words.howToSearch : words.howToSearchInside;
  $("choose-label").hidden = !canTake;
  $("stage-hint").textContent = canTake ? words.drop : words.pressMagnifier;
  showCalibration();
  const ready = Promise.all([app.keeping?.begin(), app.filters?.begin(null)]); // while the photos are on their way
  const showCollections = () => app.filters?.showCollections(app.keeping?.collections.list ?? null);
  const first = readView();
  const isSpecial = Object.keys(first.filters).length || first.people || first.copies || [first.chosen, first.members, first.next, first.person].some((each) => each !== null);
  if (isSpecial) {
    await ready; // so that there is what it names
    showCollections();
  }
  if (first.ids === null && start) {
    replaceView({ ids: start });
    await show({ ids: start });
    $("query-note").textContent = words.typical;
  } else {
    await show(first, keptState());
    if (app.query === null && first.ids !== null) await browse(); // a photo that is not there any more
  }
  await ready;
  showCollections();
  follow(told);
}

// The parts of the page, as far as the server has what they show.
function build(server) {
  const { albums: [album, other] } = server;
  const viewer = new Viewer({
    search: pick, part: pick, failed,
    mark: (...marked) => page.mark(...marked), markOf: (...asked) => page.markOf(...asked), marks: (hit) => page.marks(hit),
  }, server);
  const stack = new Stack({ failed: notKept, say, changed: () => show(view(), keptState()), look: pick });
  const page = {
    failed,
    pick: (column, id) => pick(column, id),
    look: (column, place) => viewer.open(column, place),
    unstack: (column, hit) => stack.open(column, hit),
    filter: () => ({ ...app.filters?.question, order: app.browsing?.order }),
    reranks: () => !other && $("filter-rerank").checked, // a comparison shows what the two models themselves do
    none,
    sections: (column) => app.browsing?.ask(column) ?? null,
    at: (place) => app.browsing?.at(place),
    marks: (hit) => app.keeping !== null || Boolean(hit.rank),
    mark: (column, hits, kind) => (isOfPerson(column) ? app.people.mark(hits, kind) : app.keeping ? app.keeping.mark(hits, kind) : markForNow(column, hits, kind)),
    markOf: (column, hit) => (isOfPerson(column) ? app.people.markOf(hit) : app.keeping ? app.keeping.markOf(hit) : column.marks.get(hit.id)),
    saw: () => app.keeping?.saw(),
    shown: (column, answer) => {
      app.browsing?.shown(column);
      if (isOfPerson(column)) app.people.shown(column);
      else app.keeping?.shown(column, answer);
    },
  };
  app.columns = server.albums.map((album, number) => new Column(album, number, other ? ROLES[number] : "alone", page));
  const [column] = app.columns;
  const told = { say, failed: notKept };
  app.people = other || !album.people ? null : new People(column, { ...told, go: goTo, changed: () => replaceView(view()) });
  viewer.faces = app.people && new PhotoFaces(app.people, { failed: notKept, go: goTo, close: () => $("viewer").close() });
  $("tabs").hidden = app.people === null;
  const spaces = { face: app.people !== null, region: !other && album.regions };
  for (const [space, is] of Object.entries(spaces)) $(`space-${space}`).parentElement.hidden = !is;
  $("spaces").hidden = !Object.values(spaces).includes(true);
  $("collection-places-row").hidden = $("collection-export").hidden = !server.local;
  app.keeping = other || !album.keeps ? null : new Keeping(column, {
    ...told, go: goTo, marksForNow, markForNow: (hits, kind) => markForNow(column, hits, kind),
    search: () => (app.query.ids ? goTo({ ids: app.query.ids }) : history.back()),
    query: () => app.query && { name: app.query.label ?? titleOf(app.query.name), id: app.query.ids?.[0], cover: $("query-image").src },
    joined: () => replaceView(view()), // the search belongs to that collection from now on
    decline: () => { app.query.isForNow = true; },
    changed: () => { showMarks(); app.filters?.showCollections(app.keeping?.collections.list ?? null); },
  });
  app.learning = app.keeping && new Learning(column.base, { ...told, changed: relearnt });
  app.learning?.look();
  if (other) return;
  app.filters = new Filters(column.base, album, { failed, changed: goOn });
  app.browsing = new Browsing(column, { changed: goOn, named: findNames, filter: () => app.filters.question });
  app.copies = new CopiesView(column, { failed, open: (column, hit) => stack.open(column, hit), leave });
  app.selection = new Selection(column, {
    ...told, mark: (hits, kind) => page.mark(column, hits, kind), marks: () => app.keeping !== null || isOfPerson(column),
  }, server);
  column.selection = app.selection;
}

// What to say where no photo is to be shown because of what is asked of one; null where nothing is.
function none() {
  const { text, ...where } = app.filters?.where ?? {};
  if (Object.keys(where).length) return words.nonePasses;
  return text ? words.noneNamed(text) : null;
}

// Another name is looked for, among all photos or those that are found; while one types, it is one step for Back.
function findNames() {
  const [column] = app.columns;
  const isOfAlbum = app.query !== null || (column.question === null && !app.people?.isShown && !app.copies.isShown);
  if (!isOfAlbum) goTo({});
  else if (readView().filters.text === undefined) goOn();
  else {
    replaceView(view());
    show(view(), { upload: keptState().upload });
  }
}

// The same with another choice of photos.
function goOn() {
  const { upload } = keptState();
  return go(view(), upload === undefined ? {} : { upload });
}

// ---- what comes by itself

// The server tells that something is new: collections and learning are looked at, and new photos shown where they belong.
function told(albums) {
  const { keeping, people } = app;
  if (names(albums).join() !== names(app.server.albums).join()) {
    resume();
    return;
  }
  const now = albums.map((album) => album.version).join();
  const isOther = known === null ? albums.some(({ version }, number) => !version.startsWith(app.server.albums[number].version)) : known !== now;
  known = now;
  app.learning?.follow(albums[0].learning);
  people?.follow(albums[0].people);
  keeping?.collections.look(albums[0].collections);
  showIndexing(albums[0]);
  if (isOther) renewSoon();
}

// How far the album is with photos that are being taken in, or why none can be.
function showIndexing({ indexing, problem }) {
  $("indexing").hidden = !indexing && !problem;
  $("indexing-share").hidden = !indexing;
  if (indexing) $("indexing-share").value = indexing.total ? indexing.done / indexing.total : 0;
  $("indexing-note").textContent = problem ?? (indexing ? words.indexing(indexing) : "");
}

// While photos come in, the list is read again every few seconds.
function renewSoon() {
  renewing ??= setTimeout(() => {
    renewing = null;
    if (isBusy()) renewSoon();
    else renew().catch(failed);
  }, Math.max(REST, renewed + EVERY - Date.now()));
}

// Nothing is changed below a dialog, such as a photo that is looked at, nor under a hand or an answer that is on its way.
const isBusy = () => document.querySelector("dialog[open]") !== null || (app.selection?.isDragging ?? false) || app.columns.some((column) => column.isWaiting);

async function renew() {
  const { columns, keeping, filters } = app;
  const server = await askJson("api/v1/albums");
  app.learning?.look(); // what was learnt may be undone elsewhere
  await filters?.begin(keeping?.collections.list ?? null);
  if (isBusy()) return renewSoon();
  const isOther = (album, number) => CAN.some((can) => album[can] !== server.albums[number][can]);
  if (app.server.albums.some(isOther) && !app.query?.file) {
    keeping?.collections.outbox.leave();
    location.reload(); // what can be done with it is another thing now: people were found, say
    return;
  }
  const added = server.albums[0].photos - app.server.albums[0].photos;
  app.server = server;
  renewed = Date.now();
  for (const [number, album] of server.albums.entries()) columns[number].album = album;
  if (app.copies?.isShown) await app.copies.display();
  else if (!app.people?.isShown && columns[0].question?.next === undefined) await Promise.all(columns.map((column) => column.refresh())); // what is offered stays
  if (added) say(words.added(added), true);
}

// The album has learnt, or forgotten it: what its model made of a query, and what a score means, is another thing now.
async function relearnt() {
  app.query?.vectors.clear();
  try {
    app.server = await askJson("api/v1/albums");
  } catch (error) {
    failed(error);
  }
  beginScores();
  await (app.query === null ? browse() : search());
}

// The server that is back may be another one, with other albums.
async function resume() {
  if (app.server === null) return begin();
  try {
    const { albums } = await askJson("api/v1/albums");
    if (names(albums).join() === names(app.server.albums).join()) return Promise.all([search(), app.learning?.look()]);
  } catch (error) {
    return failed(error);
  }
  app.keeping?.collections.outbox.leave();
  history.replaceState(null, "", location.pathname);
  location.reload();
}

onBack(resume);
const begun = begin();
