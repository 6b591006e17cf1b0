// The collections of an album as the server has them: what this page marks is sent at once, what others mark is seen.

import { ask, askJson } from "./ask.js";

const EVERY = 3000; // milliseconds between two looks at what others did

// Which collection was chosen last is this browser's affair, and no harm is done where it may not remember.
function remember(name, value) {
  try {
    if (value === undefined) return localStorage.getItem(name);
    if (value === null) localStorage.removeItem(name);
    else localStorage.setItem(name, value);
  } catch { /* storage is forbidden */ }
  return null;
}

function send(address, method, content) {
  const options = { method, headers: { "content-type": "application/json" } };
  if (content !== undefined) options.body = JSON.stringify(content);
  return ask(address, options).then((answer) => answer.json());
}

export class Collections {
  // changed() is called whenever anything is different, failed(error) with what went wrong.
  constructor(album, base, { changed, failed }) {
    Object.assign(this, { base: `${base}/collections`, changed, failed, list: [], chosen: null, marks: new Map(), undo: null });
    this.memory = `smoothap collection of ${album.name}`;
    this.version = this.marksOf = null; // of the list, and of the marks
    this.queue = Promise.resolve(); // writes go out one after the other
    this.waiting = 0;
    setInterval(() => document.visibilityState === "visible" && this.look(), EVERY);
    document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && this.look());
  }

  get current() {
    return this.list.find((one) => one.key === this.chosen) ?? null;
  }

  counts() {
    const kinds = [...this.marks.values()];
    return { right: kinds.filter((kind) => kind === "right").length, wrong: kinds.filter((kind) => kind === "wrong").length };
  }

  async begin() {
    const key = Number(remember(this.memory));
    await this.take(await askJson(this.base));
    if (this.list.some((one) => one.key === key)) await this.choose(key);
  }

  // What the server says of all collections; the marks of the chosen one are asked for when anything is new.
  async take(answer) {
    Object.assign(this, { list: answer.collections, undo: answer.undo, version: answer.version });
    if (this.current === null && this.chosen !== null) this.forget(); // deleted, perhaps by somebody else
    if (this.marksOf !== this.version && this.chosen !== null && !this.waiting) await this.readMarks();
    this.changed();
  }

  async look() {
    if (this.waiting) return;
    try {
      const answer = await askJson(this.base);
      if (answer.version !== this.version && !this.waiting) await this.take(answer);
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
    remember(this.memory, null);
  }

  async choose(key) {
    this.forget();
    if (key !== null) {
      this.chosen = key;
      remember(this.memory, key);
      await this.readMarks().catch(this.failed);
    }
    this.changed();
  }

  // A change: sent when those before it are through; content may be a function of what is known then. Answers null
  // where it was not taken.
  write(address, method, content) {
    this.waiting += 1;
    this.queue = this.queue.then(async () => {
      let answer = null;
      try {
        answer = await send(`${this.base}${address}`, method, typeof content === "function" ? content() : content);
      } catch (error) {
        this.failed(error);
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

  async create(name) {
    const answer = await this.write("", "POST", { name });
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
    return this.write(`/${this.chosen}/marks`, "POST", { [kind]: ids });
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

  // Take back the last step, also one that is still on its way. Says what it was.
  async takeBack() {
    let step = null;
    const answer = await this.write("/undo", "POST", () => ({ step: (step = this.undo)?.number ?? null }));
    return answer && step ? step.what : null;
  }

  async import(file) {
    this.waiting += 1;
    try {
      const answer = await (await ask(`${this.base}/import`, { method: "POST", headers: { "content-type": "text/csv" }, body: file })).json();
      this.waiting -= 1;
      await this.take(answer.collections);
      return answer;
    } catch (error) {
      this.waiting -= 1;
      this.failed(error);
      return null;
    }
  }

  address(kind) {
    return `${this.base}/${this.chosen}/${kind}`;
  }
}
