// The files of photos: copied into a folder of this computer, or sent as a zip.

import { askJson, post } from "./ask.js";
import { save } from "./elements.js";
import { words } from "./strings.js";

// files: {photos: IDS, remove_place} or {collection: KEY, remove_place}. page: {say(text, shown), failed(error)}
export async function exportFiles(column, files, page) {
  try {
    const { folder, files: copied, skipped } = await askJson(`${column.base}/photos/export`, files);
    page.say(words.exported({ files: copied, folder, skipped: skipped.length }), true);
  } catch (error) {
    page.failed(error);
  }
}

export async function zipFiles(column, files, page) {
  try {
    save(await (await post(`${column.base}/photos/originals.zip`, files)).blob(), `${column.album.name}.zip`);
  } catch (error) {
    page.failed(error);
  }
}
