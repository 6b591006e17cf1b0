// What the page shows, as its address has it: Back, a reload and a bookmark lead to the same photos.
//
// A view is {ids, part, space, members, side, next, people, person, missing, copies, chosen, filters, stacked, order}: the
// photo that is searched with, by its id in each album, a part of it, and whether for the person in it ("face") or for
// things inside photos ("region"); or the collection that is shown, by its key, or with side "wrong" what does not belong to
// it; or the one that more is looked for; or all people; or one of them by a face, and what may be missing of them; or the
// copies; the collection that marks go into; which photos are looked at, and in which order. How far one has scrolled is
// kept beside the address, as {place}.

const FILTERS = ["text", "folder", "since", "until", "camera", "collection"];
const SPACES = ["face", "region"]; // what is compared, where it is not whole photos

export function readView() {
  const given = new URLSearchParams(location.hash.slice(1));
  const numbers = (name) => (given.get(name) ?? "").split(",").filter((text) => /^\d+(\.\d+)?$/.test(text)).map(Number);
  const [ids, part] = [numbers("photo"), numbers("part")];
  return {
    ids: ids.length ? ids : null, part: part.length === 4 ? part : null,
    space: SPACES.includes(given.get("space")) ? given.get("space") : null,
    people: given.has("people"), person: numbers("person")[0] ?? null, missing: given.has("missing"),
    members: numbers("members")[0] ?? null, next: numbers("next")[0] ?? null, chosen: numbers("in")[0] ?? null,
    filters: Object.fromEntries(FILTERS.filter((name) => given.has(name)).map((name) => [name, given.get(name)])),
    side: given.get("side"), copies: given.has("copies"), order: given.get("order"),
    stacked: given.has("stacked") ? given.get("stacked") === "1" : null,
  };
}

// As what follows the question mark of an address.
export function asQuery(values) {
  const pairs = Object.entries(values).filter(([, value]) => value !== undefined && value !== null);
  return new URLSearchParams(pairs.flatMap(([name, value]) => [value].flat().map((one) => [name, one]))).toString();
}

function addressOf({ ids, part, space, members, side, next, people, person, missing, copies, chosen, filters, stacked, order }) {
  const values = {
    photo: ids?.join(","), part: part?.map((share) => share.toFixed(5)).join(","), space, members, side, next,
    people: people ? 1 : null, copies: copies ? 1 : null, order, person, missing: missing ? 1 : null,
    in: chosen, ...filters, stacked: stacked === null || stacked === undefined ? null : Number(stacked),
  };
  const pairs = Object.entries(values).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const hash = pairs.map(([name, value]) => `${name}=${encodeURIComponent(value).replaceAll("%2C", ",")}`).join("&");
  return hash ? `#${hash}` : location.pathname + location.search;
}

// Another view: Back leads to the one before. `state` is kept beside the address.
export function pushView(view, state = {}) {
  history.pushState(state, "", addressOf(view));
}

// The same view with a little difference, which Back does not undo.
export function replaceView(view) {
  history.replaceState(history.state, "", addressOf(view));
}

export function keepPlace(place) {
  if (history.state?.place !== place) history.replaceState({ ...history.state, place }, "");
}

export function keptState() {
  return history.state ?? {};
}

history.scrollRestoration = "manual"; // the list has to be there first
