// What is shown, and how one comes from there to something else: each view has an address, to which Back comes back.

import { pushView } from "./address.js";
import { app } from "./app.js";
import { askJson } from "./ask.js";
import { $, named } from "./elements.js";
import { chooseSpace, forget, search, setQuery, showMarks, spaceOf } from "./search.js";
import { words } from "./strings.js";
import { failed, say, well } from "./telling.js";

// Of a view: none of its kinds.
const NOTHING = { ids: null, part: null, space: null, members: null, side: null, next: null, people: false, person: null, missing: false, copies: false };
const STRANGE = /hei[cf]|tiff?\b|jp2|jpeg2000/i; // kinds of photos that browsers do not show

// What is shown now.
export function view() {
  const { people, copies, query } = app;
  const question = app.columns[0]?.question;
  const isElsewhere = (people?.isShown ?? false) || (copies?.isShown ?? false);
  const isList = question?.members !== undefined || question?.next !== undefined || question?.person !== undefined || isElsewhere;
  return {
    ids: isList ? null : query?.ids ?? null, part: query?.ids && !isList ? app.box.value : null, space: query && !isList ? spaceOf() : null,
    members: isElsewhere ? null : question?.members ?? null, side: isElsewhere ? null : question?.side ?? null, next: isElsewhere ? null : question?.next ?? null,
    people: people?.isShown ?? false, person: isElsewhere ? null : question?.person ?? null, missing: question?.missing ?? false, copies: copies?.isShown ?? false,
    chosen: app.keeping?.collections.chosen ?? null, ...(app.filters?.values ?? {}), ...(app.browsing?.values ?? {}),
  };
}

// Show another view, to which Back comes back.
export function go(next, state = {}) {
  pushView(next, state);
  return show(next, state);
}

// The same for a view of which only this is known.
export const goTo = (next) => go({ ...view(), ...NOTHING, ...next });

export async function show(next, { place = 0, upload } = {}) {
  const { people, keeping, columns, uploads } = app;
  try {
    app.filters?.set(next.filters ?? {}, next.stacked ?? null);
    app.browsing?.set(next.order ?? null);
    await keeping?.collections.choose(next.chosen);
    const isPerson = people !== null && (next.person ?? null) !== null;
    showTab({ isPeople: people !== null && Boolean(next.people), isPerson, isCopies: app.copies !== null && Boolean(next.copies) });
    if (people?.isShown) {
      await people.display();
    } else if (app.copies?.isShown) {
      forget();
      await app.copies.display();
    } else if (isPerson) {
      forget();
      await people.displayPerson(next.person, next.missing ?? false, place);
    } else if (next.ids?.length >= columns.length) {
      const ids = next.ids.slice(0, columns.length);
      chooseSpace(next.space);
      if (app.query?.ids?.join() !== ids.join()) {
        const photo = named(await askJson(`${columns[0].base}/photos/${ids[0]}`));
        setQuery({ ids, name: photo.name, label: photo.label }, columns[0].address(photo, "image"));
      }
      app.box.set(next.part ?? null);
      await search(place);
    } else if (uploads[upload]) {
      chooseSpace(next.space);
      if (app.query !== uploads[upload]) setQuery(uploads[upload], URL.createObjectURL(uploads[upload].file));
      await search(place);
    } else if (keeping && (next.members ?? next.next ?? null) !== null) {
      await ((next.members ?? null) !== null ? keeping.displayMembers(next.members, next.side ?? null, place) : keeping.displayNext(next.next));
    } else {
      forget();
      showMarks();
      app.browsed = place;
      await browse(place);
    }
  } catch (error) {
    failed(error);
  }
}

// All photos, or those that pass the filters.
export async function browse(place = 0) {
  try {
    await Promise.all(app.columns.map((column) => column.show(null, place)));
    well();
  } catch (error) {
    failed(error);
  }
}

// The tab that is shown: people, or photos; of these, all photos of one person have a card of their own.
function showTab({ isPeople = false, isPerson = false, isCopies = false }) {
  $("people").hidden = !isPeople;
  $("copies").hidden = !isCopies;
  $("results").hidden = isPeople || isCopies;
  $("person").hidden = true;
  if (isPeople || isCopies) $("arrange").hidden = true;
  document.body.classList.toggle("with-people", isPeople || isPerson);
  for (const [id, is] of [["tab-photos", !isPeople && !isPerson], ["tab-people", isPeople || isPerson]]) {
    if (is) $(id).setAttribute("aria-current", "page");
    else $(id).removeAttribute("aria-current");
  }
}

// Search with a photo of the album. A search that is begun from the photos of a collection, or from a search of it, belongs
// to that collection; one that is begun from all photos belongs to none yet. Who looks for things goes on looking for them.
export async function pick(column, id, part = null, space = spaceOf() === "region" ? "region" : null) {
  const { columns } = app;
  try {
    const photo = named(await askJson(`${column.base}/photos/${id}`));
    const missing = columns.find((column) => photo.twins[column.number] === null);
    if (missing) throw new Error(words.missingIn(photo.name, missing.album.name));
    const chosen = column.question === null ? null : app.keeping?.collections.chosen ?? null;
    await goTo({ ids: columns.map((column) => photo.twins[column.number]), part, space, chosen });
  } catch (error) {
    failed(error);
  }
}

// Search with a random photo of those that pass.
export async function drawOne() {
  const [column] = app.columns;
  if (!column) return;
  try {
    const { total } = await column.fetch(null, 0, 1);
    const { photos } = await column.fetch(null, Math.floor(Math.random() * total), 1);
    if (photos.length) await pick(column, photos[0].id);
  } catch (error) {
    failed(error);
  }
}

// Search with a photo from elsewhere.
export async function take(file) {
  const { server, columns, uploads, people } = app;
  if (!file || server === null) return; // the banner says why
  if (file.size > server.upload_bytes) {
    failed(new Error(words.tooLarge(file.name, file.size, server.upload_bytes)));
    return;
  }
  const without = columns.find((column) => !column.album.takes_photos);
  if (without) {
    failed(new Error(words.noModel(without.album.name)));
    return;
  }
  const isStrange = STRANGE.test(`${file.type} ${file.name}`);
  setQuery({ file, isStrange, name: file.name || words.pasted, label: null }, URL.createObjectURL(file));
  uploads.push(app.query);
  await app.keeping?.collections.choose(null); // a new search, of no collection yet
  if (people && document.body.classList.contains("with-people")) chooseSpace("face"); // whoever looks at people means one
  showTab({});
  pushView({ ...view(), ...NOTHING, space: spaceOf() }, { upload: uploads.length - 1 });
  await search();
}

// From a search back to all photos, where one was before.
export function leave() {
  say(words.allPhotos);
  return go({ ...view(), ...NOTHING }, { place: app.browsed });
}
