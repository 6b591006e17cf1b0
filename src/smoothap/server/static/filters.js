// Which photos are looked at: the card with folder, dates, camera and collection.

import { askJson } from "./ask.js";
import { $, make, visible } from "./elements.js";
import { words } from "./strings.js";

const FIELDS = { text: "names", folder: "filter-folder", since: "filter-since", until: "filter-until", camera: "filter-camera", collection: "filter-collection" };

export class Filters {
  // changed(): another choice was made. failed(error)
  constructor(base, album, page) {
    Object.assign(this, { base, page, stacksByItself: album.keeps }); // where it can be told that a photo is no copy
    $("filters").hidden = false;
    $("filter-stacked").checked = album.keeps;
    const [, ...fields] = Object.values(FIELDS); // what is typed as a name is looked for while one types
    for (const id of [...fields, "filter-stacked", "filter-rerank"]) $(id).addEventListener("change", () => this.changed());
    $("filter-clear").addEventListener("click", () => this.clear());
  }

  // What there is to choose from; what was chosen stays, where it is still there.
  async begin(collections) {
    try {
      const { folders, cameras, first, last, undated } = await askJson(`${this.base}/choices`);
      this.fill("filter-folder", words.allFolders, folders.map((folder) => [folder, visible(folder)]));
      this.fill("filter-camera", words.allCameras, Object.entries(cameras).map(([name, photos]) => [name, words.named(visible(name), photos)]));
      for (const id of ["filter-since", "filter-until"]) Object.assign($(id), { min: first ?? "", max: last ?? "", disabled: first === null });
      $("filter-undated").textContent = first !== null && undated ? words.without(undated) : "";
      $("filter-dates").hidden = first === null;
      $("filter-camera-row").hidden = Object.keys(cameras).length === 0;
      $("filter-folder-row").hidden = folders.length === 0;
    } catch (error) {
      this.page.failed(error);
    }
    this.showCollections(collections);
  }

  showCollections(collections) {
    $("filter-collection-row").hidden = collections === null;
    const named = (collections ?? []).map(({ key, name }) => [String(key), words.inCollection(name)]);
    this.fill("filter-collection", words.anyCollection, [["none", words.noCollectionYet], ...named]);
  }

  fill(id, all, choices) {
    const before = $(id).value;
    $(id).replaceChildren(...[["", all], ...choices].map(([value, textContent]) => make("option", { value, textContent })));
    $(id).value = choices.some(([value]) => value === before) ? before : "";
  }

  // What is asked of a photo, for the server.
  get where() {
    const where = {};
    for (const [name, id] of Object.entries(FIELDS)) if ($(id).value.trim() && !$(id).disabled) where[name] = $(id).value.trim();
    if (where.collection === undefined) return where;
    const { collection, ...rest } = where;
    return collection === "none" ? { ...rest, in_no_collection: true } : { ...rest, collection: Number(collection) };
  }

  get question() {
    return { ...this.where, stacked: $("filter-stacked").checked };
  }

  // What is chosen, as an address has it; `stacked` is null where it is as it is by default.
  get values() {
    const chosen = Object.entries(FIELDS).filter(([, id]) => $(id).value && !$(id).disabled);
    const stacked = $("filter-stacked").checked;
    return { filters: Object.fromEntries(chosen.map(([name, id]) => [name, $(id).value])), stacked: stacked === this.stacksByItself ? null : stacked };
  }

  set(filters, stacked) {
    for (const [name, id] of Object.entries(FIELDS)) $(id).value = filters[name] ?? "";
    $("filter-stacked").checked = stacked ?? this.stacksByItself;
    this.showCount();
    if (Object.keys(filters).some((name) => name !== "text")) $("filter-details").open = true;
  }

  clear() {
    for (const id of Object.values(FIELDS)) $(id).value = "";
    this.changed();
  }

  changed() {
    this.showCount();
    this.page.changed();
  }

  showCount() {
    const [, ...fields] = Object.values(FIELDS);
    const number = fields.filter((id) => $(id).value && !$(id).disabled).length;
    $("filter-count").textContent = number || "";
    $("filter-clear").hidden = number === 0;
  }
}
