// Learning from the collections: begun, followed and undone. The server does the work, and goes on if the page is closed.

import { ask, askJson } from "./ask.js";
import { $ } from "./elements.js";
import { words } from "./strings.js";

export class Learning {
  // page: {say(text), failed(error), changed()}; changed() is called when the album's vectors are others than before.
  constructor(base, page) {
    Object.assign(this, { address: `${base}/learning`, page, info: null, share: null });
    $("learn").addEventListener("click", () => this.write("POST"));
    $("unlearn").addEventListener("click", () => this.write("DELETE"));
    $("collections-open").addEventListener("click", () => this.look());
  }

  async look() {
    try {
      this.take(await askJson(this.address));
    } catch (error) {
      this.page.failed(error);
    }
  }

  // The server tells how far it is, and with null that it is not learning.
  follow(share) {
    if (share !== this.share) this.look();
    this.share = share;
  }

  async write(method) {
    $("learn").disabled = $("unlearn").disabled = true;
    try {
      this.take(await (await ask(this.address, { method })).json());
    } catch (error) {
      $("learning-note").textContent = error.message;
      await this.look();
    }
  }

  take(info) {
    const before = this.info;
    this.info = info;
    this.show();
    if (before && before.learnt !== info.learnt) this.page.changed();
    else if (before?.running && !info.running && info.learnt) this.page.changed(); // learnt once more
    if (before?.running && !info.running) this.page.say(info.said);
  }

  show() {
    const { learnt, collections, wanted, photos, running, share, said } = this.info;
    const enough = collections >= wanted;
    $("learn").disabled = running || !enough;
    $("learn").textContent = words.learn(learnt);
    $("unlearn").hidden = !learnt;
    $("unlearn").disabled = running;
    $("learning-share").hidden = !running;
    $("learning-share").value = share;
    $("learning-state").textContent = words.learnt;
    $("learning-state").hidden = !learnt;
    $("learning-note").textContent = running
      ? words.isLearning
      : said ?? (enough
        ? words.mayLearn(collections)
        : words.tooFew(wanted, photos, collections));
  }
}
