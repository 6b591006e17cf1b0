// The collections of an album as the server has them: what this page marks is sent at once, what others mark is seen.

import { ask, askJson, back, isAway, Lost } from "./ask.js";
import { Outbox } from "./outbox.js";
import { words } from "./strings.js";

function send(address, method, content) {
  const options = { method, headers: { "content-type": "application/json" } };
  if (content !== undefined) options.body = JSON.stringify(content);
  return ask(address, options).then((answer) => answer.json());
}

export class Collections {
  // changed() is called whenever anything is different, failed(error) with what went wrong, unsent(number) with how many
  // photos are marked here and not on the server.
  constructor(album, base, { changed, failed, unsent }) {
    Object.assign(this, { album, base: `${base}/collections`, changed, failed, list: [], chosen: null, marks: new Map(), undo: null });
    this.outbox = new Outbox(album.name, unsent);
    this.version = this.marksOf = null; // of the list, and of the marks
    this.queue = Promise.resolve(); // writes go out one after the other
    this.waiting = 0;
  }

  get current() {
    return this.list.find((one) => one.key === this.chosen) ?? null;
  }

  counts() {
    const kinds = [...this.marks.values()];
    return { right: kinds.filter((kind) => kind === "right").length, wrong: kinds.filter((kind) => kind === "wrong").length };
  }

  async begin() {
    await this.take(await askJson(this.base));
    for (const entry of this.outbox.left()) this.sendMarks(entry, true);
  }

  // What the server says of all collections; the marks of the chosen one are asked for when anything is new.
  async take(answer) {
    Object.assign(this, { list: answer.collections, undo: answer.undo, version: answer.version });
    if (this.current === null && this.chosen !== null) this.forget(); // deleted, perhaps by somebody else
    if (this.marksOf !== this.version && this.chosen !== null && !this.waiting) await this.readMarks();
    this.changed();
  }

  // Ask for what is new, where the server has told of a version that is.
  async look(version) {
    const stale = this.chosen !== null && this.marksOf !== version; // such as what could not be read before
    if (this.waiting || (version === this.version && !stale)) return;
    try {
      const answer = await askJson(this.base);
      if (!this.waiting) await this.take(answer);
    } catch (error) {
      this.failed(error);
    }
  }

  async readMarks() {
    const key = this.chosen;
    const { right, wrong, version } = await askJson(`${this.base}/${key}`);
    if (key !== this.chosen || this.waiting) return; // what was marked meanwhile is newer
    this.marksOf = version;
    this.marks = new Map([...right.map((id) => [id, "right"]), ...wrong.map((id) => [id, "wrong"])]);
  }

  forget() {
    this.chosen = null;
    this.marks = new Map();
  }

  async choose(key) {
    if (key === this.chosen) return;
    this.forget();
    if (key !== null && this.list.some((one) => one.key === key)) {
      this.chosen = key;
      await this.readMarks().catch(this.failed);
    }
    this.changed();
  }

  // A change: sent when those before it are through; content may be a function of what is known then. Answers null
  // where it was not taken.
  write(address, method, content) {
    if (isAway()) {
      this.failed(new Error(words.notDone));
      return Promise.resolve(null);
    }
    return this.inTurn(() => send(`${this.base}${address}`, method, typeof content === "function" ? content() : content));
  }

  // Marks wait for a server that is away, and those after them wait too. Said twice they say no more than once, so that
  // it does no harm where only the answer was lost.
  sendMarks(entry, again = false) {
    this.outbox.add(entry);
    return this.inTurn(async () => {
      for (let known = !again; ; known = false) {
        try {
          if (!known) await this.checkCollection(entry);
          const answer = await send(`${this.base}/${entry.key}/marks`, "POST", entry.marks);
          this.outbox.remove(entry);
          return answer;
        } catch (error) {
          if (error.status && error.status !== 401) this.outbox.remove(entry); // refused; with a token it may be taken
          if (!(error instanceof Lost)) throw error;
          await back();
        }
      }
    });
  }

  // What is back may be the server of another album, whose collections have the same keys.
  async checkCollection({ key, name, marks }) {
    const [{ albums }, { collections }] = await Promise.all([askJson("api/v1/albums"), askJson(this.base)]);
    const number = Object.values(marks).flat().length;
    if (albums.length !== 1 || albums[0].name !== this.album.name) throw new Error(words.otherAlbum(number));
    if (collections.some((one) => one.key === key && one.name === name)) return;
    throw Object.assign(new Error(words.noCollection(number, name)), { status: 404 });
  }

  // Do one thing after the other, and take what the server answers.
  inTurn(action) {
    this.waiting += 1;
    this.queue = this.queue.then(async () => {
      let answer = null;
      try {
        answer = await action();
      } catch (error) {
        this.failed(error instanceof Lost ? new Error(words.notDone) : error);
      }
      this.waiting -= 1;
      if (answer !== null) await this.take(answer).catch(this.failed);
      else await this.takeOff();
      return answer;
    });
    return this.queue;
  }

  // What was not kept is not shown either.
  async takeOff() {
    this.marksOf = null;
    if (this.chosen !== null && !this.waiting) await this.readMarks().catch(this.failed);
    this.changed();
  }

  // Make a collection with its first photos, in one step.
  async create(name, marks = {}) {
    const answer = await this.write("", "POST", { name, ...marks });
    if (answer !== null) await this.choose(answer.chosen);
    return answer;
  }

  // A name that is free: the one wished for, or with a number.
  freeName(wish) {
    const taken = new Set(this.list.map((one) => one.name));
    let [name, number] = [wish, 1];
    while (taken.has(name)) name = `${wish} (${(number += 1)})`;
    return name;
  }

  // Mark photos at once and send it; kind is right, wrong or neither.
  mark(ids, kind) {
    for (const id of ids) {
      if (kind === "neither") this.marks.delete(id);
      else this.marks.set(id, kind);
    }
    this.changed();
    return this.sendMarks({ key: this.chosen, name: this.current.name, marks: { [kind]: ids } });
  }

  keep(question) {
    return this.write(`/${this.chosen}/keep`, "POST", question);
  }

  rename(name) {
    return this.write(`/${this.chosen}`, "PATCH", { name });
  }

  delete() {
    return this.write(`/${this.chosen}`, "DELETE");
  }

  // Take back the last step that this page knows, also one that is still on its way. Says what it was.
  async takeBack() {
    let step = null;
    const answer = await this.write("/undo", "POST", () => {
      step = this.undo;
      if (step === null) throw new Error(words.nothingToUndo); // another page's step, of which this one was not told
      return { step: step.number };
    });
    return answer && step.what;
  }

  // Take in a list; answers with what came of it, or null.
  async import(file) {
    if (isAway()) {
      this.failed(new Error(words.notDone));
      return null;
    }
    let taken = null;
    await this.inTurn(async () => {
      taken = await (await ask(`${this.base}/import`, { method: "POST", headers: { "content-type": "text/csv" }, body: file })).json();
      return taken.collections;
    });
    return taken;
  }

  address(kind) {
    return `${this.base}/${this.chosen}/${kind}`;
  }
}
