// The query and the search with it: what is asked, by which part and which marks, and what the answers say.

import { app, marksForNow } from "./app.js";
import { Lost } from "./ask.js";
import { $, make } from "./elements.js";
import { showQuality } from "./quality.js";
import { words } from "./strings.js";
import { failed, say, well } from "./telling.js";

// ---- the query

export function setQuery(next, address) {
  if (app.query?.file) URL.revokeObjectURL($("query-image").src);
  app.query = next.vectors ? next : { ...next, vectors: new Map(), isForNow: false };
  for (const column of app.columns) column.marks.clear();
  app.refined = false;
  app.box.set(null);
  $("query-image").src = address;
  $("query-image").alt = words.query(next.name);
  $("query-image").hidden = false;
  $("stage").classList.remove("empty");
  $("stage").tabIndex = 0;
  $("stage").setAttribute("role", "group");
  $("stage").setAttribute("aria-label", words.drawOnQuery);
  $("query-name").replaceChildren(make("bdi", { textContent: next.label === null ? next.name : words.labelled(next.name, next.label) }));
  $("query-name").hidden = $("leave").hidden = false;
  $("controls").hidden = false;
  app.slider.reset();
}

// A photo that nothing can be done with is no query.
export function forget() {
  app.query = null;
  app.refined = false;
  $("query-image").hidden = $("query-name").hidden = $("controls").hidden = $("quality").hidden = $("leave").hidden = $("whole").hidden = true;
  $("query-image").removeAttribute("src");
  $("stage").classList.add("empty");
  $("stage").tabIndex = -1;
}

$("query-image").addEventListener("error", () => { $("query-image").alt = words.unshown; });

// ---- what is compared

// Whether all photos of the person in the query are looked for ("face"), or those with such a thing in them ("region");
// null for those that look like it.
export const spaceOf = () => ["face", "region"].find((space) => $(`space-${space}`).checked) ?? null;

// What the album does not have is not chosen: whole photos are, then.
export function chooseSpace(space) {
  const wanted = $(`space-${space ?? "photo"}`);
  const choice = wanted.parentElement.hidden ? $("space-photo") : wanted;
  if (choice.checked) return;
  choice.checked = true;
  beginScores();
}

// Scores and what they promise are other ones in another space.
export function beginScores() {
  showCalibration();
  app.slider.reset();
}

export function showCalibration() {
  $("slider-kind").hidden = spaceOf() !== null || !app.server.albums.every((album) => album.calibrated); // of whole photos
  if ($("slider-kind").hidden) document.querySelector('input[name="kind"][value="score"]').checked = true;
}

// ---- the question and its answers

// Which part of the query is asked with, "" for all of it.
const partOf = () => (app.box.value ? app.box.value.map((share) => share.toFixed(5)).join(",") : "");

const vectorOf = (column, part, space) => `${column.number} ${part} ${space}`;

// A photo is sent once for each part of it and each album: pages, filters and marks ask with the vector that came back.
function question(column) {
  const { query, columns, box } = app;
  const request = { ...app.slider.question(), ...app.filters?.question };
  if (app.refined && !marksForNow()) request.marks = app.keeping.collections.chosen;
  else if (app.refined) Object.assign(request, { right: column.marked("right"), wrong: column.marked("wrong") });
  if (query.ids) request.id = query.ids[columns.indexOf(column)];
  const space = spaceOf();
  if (space) Object.assign(request, { space, stacked: undefined }); // copies are shown as they are found
  const known = query.vectors.get(vectorOf(column, partOf(), space));
  if (known) Object.assign(request, known);
  else if (query.file) request.upload = { image: query.file, box: partOf() || null, preview: query.isStrange || null };
  else if (box.value) request.box = box.value;
  return request;
}

export async function search(place = 0) {
  const { query, columns } = app;
  if (query === null) return;
  const [part, space] = [partOf(), spaceOf()]; // by the time of an answer there may be another, and another query
  $("whole").hidden = app.box.value === null;
  try {
    const answers = await Promise.all(columns.map((column) => column.show(question(column), place)));
    if (answers.includes(null) || app.query !== query) return; // a later search is on its way
    well();
    if (query.file || part) columns.forEach((column, place) => query.vectors.set(vectorOf(column, part, space), answers[place].query));
    if (answers[0].preview) showPreview(answers[0].preview);
    showQuality(columns, answers, { isLabelled: !space && app.server.albums.every((album) => album.labelled), isForeign: Boolean(query.file) });
    app.slider.range(answers);
    showMarks();
    query.answered = true;
    say(columns.map((column, place) => words.found(column.album.name, answers[place].total)).join("; "));
  } catch (error) {
    if (app.query !== query) return; // of a photo that is not the query any more
    failed(error);
    if (query.file && !query.answered && space !== "face" && !(error instanceof Lost)) forget(); // a box around a face may help
  }
}

// A photo that this browser cannot show, as the server sees it.
function showPreview(picture) {
  const bytes = Uint8Array.from(atob(picture), (letter) => letter.charCodeAt(0));
  URL.revokeObjectURL($("query-image").src);
  $("query-image").src = URL.createObjectURL(new Blob([bytes], { type: "image/jpeg" }));
  $("query-image").alt = words.query(app.query.name);
}

export function searchAgain() {
  app.refined = true;
  return search();
}

// ---- marks of the search

// How many photos are marked as right and as wrong.
function markCounts() {
  if (app.keeping && !marksForNow()) return app.keeping.collections.counts();
  const [right, wrong] = ["right", "wrong"].map((kind) => app.columns.reduce((sum, column) => sum + column.marked(kind).length, 0));
  return { right, wrong };
}

export function showMarks() {
  const marks = markCounts();
  const none = marks.right + marks.wrong === 0;
  $("again").disabled = none;
  $("again").textContent = words.searchAgain(marks);
  $("clear").hidden = (app.keeping !== null && !marksForNow()) || none;
  $("keep-above").hidden = app.keeping === null || app.query === null || app.slider.isOpen;
  $("keep-above").textContent = words.keepList(app.columns[0]?.photos ?? 0);
}

// Marks that no collection keeps: for the next search, and gone with the next query.
export function markForNow(column, hits, kind) {
  for (const { id } of hits) {
    if (kind === "neither") column.marks.delete(id);
    else column.marks.set(id, kind);
  }
  column.markTiles();
  say(words.markedForNow(hits[0].name, kind));
  showMarks();
}

export function clearMarks() {
  for (const column of app.columns) column.marks.clear();
  for (const column of app.columns) column.markTiles();
  app.refined = false;
  return search();
}
