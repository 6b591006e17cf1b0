// The copies of one photo, taken apart: each can be looked at, and told to be no copy.

import { askJson, post } from "./ask.js";
import { $, button, make, named } from "./elements.js";
import { words } from "./strings.js";
import { spokenSize } from "./viewer.js";

export class Stack {
  // page: {look(column, id), changed(), say(text), failed(error)}
  constructor(page) {
    this.page = page;
    this.dialog = $("stack");
    this.dialog.addEventListener("close", () => {
      this.column?.grid.focus(this.column.grid.current);
      if (this.apart) page.changed();
    });
  }

  async open(column, hit) {
    try {
      const { stack } = await askJson(`${column.base}/photos/${hit.id}`);
      Object.assign(this, { column, apart: false });
      $("stack-list").replaceChildren(...stack.map((photo) => this.item(named(photo))));
      if (!this.dialog.open) this.dialog.showModal();
    } catch (error) {
      this.page.failed(error);
    }
  }

  item(photo) {
    const find = button(words.searchWithIt, { "aria-label": words.searchWith(photo.name) }, () => {
      this.dialog.close();
      this.page.look(this.column, photo.id);
    });
    const apart = button(words.notACopy, { hidden: !this.column.album.keeps, "aria-label": words.isNotACopy(photo.name) }, async () => {
      try {
        await post(`${this.column.base}/photos/${photo.id}/not-a-copy`, {});
        item.remove();
        if (this.dialog.open) this.apart = true;
        else this.page.changed(); // closed before the server had answered
        this.page.say(words.remembered(photo.name));
        if ($("stack-list").children.length < 2) this.dialog.close();
      } catch (error) {
        this.dialog.close();
        this.page.failed(error);
      }
    });
    const picture = make("img", { src: this.column.address(photo, "thumbnail"), alt: photo.name });
    const item = make("li", {}, picture, make("bdi", { textContent: photo.name }), make("span", { className: "soft", textContent: spokenSize(photo) }), find, apart);
    return item;
  }
}
