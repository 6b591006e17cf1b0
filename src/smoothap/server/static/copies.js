// The photos that are there more than once, to be looked through: each with its copies, the best first.

import { askJson } from "./ask.js";
import { $, button, make, named } from "./elements.js";
import { words } from "./strings.js";
import { spokenSize } from "./viewer.js";

const PAGE = 60; // stacks

export class CopiesView {
  // page: {open(column, hit), leave(), failed(error)}
  constructor(column, page) {
    Object.assign(this, { column, page, stacks: [] });
    $("copies-back").addEventListener("click", () => page.leave());
    $("copies-more").addEventListener("click", () => this.more());
  }

  get isShown() {
    return !$("copies").hidden;
  }

  display() {
    this.stacks = [];
    return this.more();
  }

  async more() {
    try {
      const answer = await askJson(`${this.column.base}/copies?offset=${this.stacks.length}&limit=${PAGE}`);
      this.stacks.push(...answer.stacks);
      $("copies-list").replaceChildren(...this.stacks.map((stack) => this.item(stack)));
      $("copies-count").textContent = answer.total ? words.stacks(answer.total) : words.noStacks;
      $("copies-more").hidden = this.stacks.length >= answer.total;
    } catch (error) {
      this.page.failed(error);
    }
  }

  item({ photos, best, kind }) {
    const pictures = photos.map(named).map((photo) => {
      const image = make("img", { src: this.column.address(photo, "thumbnail"), alt: photo.name, loading: "lazy" });
      const name = make("bdi", { textContent: photo.name });
      const about = make("span", { className: "soft", textContent: photo.id === best ? words.best(spokenSize(photo)) : spokenSize(photo) });
      return make("figure", { className: "small" }, image, make("figcaption", {}, name, make("br"), about));
    });
    const first = named(photos[0]);
    const open = button(words.lookClosely, { "aria-label": words.open(first.name) }, () => this.page.open(this.column, first));
    const head = make("div", { className: "row" }, make("b", { textContent: words.copiesKind(kind) }), open);
    return make("li", { className: "card" }, head, make("div", { className: "stacked" }, ...pictures));
  }
}
