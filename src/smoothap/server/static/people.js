// People: groups of faces to be named, merged and put away; the album's questions; and all photos of one person.

import { ask, askJson } from "./ask.js";
import { $, button, make, visible } from "./elements.js";
import { withKey, words } from "./strings.js";

const PAGE = 100; // groups
const FEWEST = 2; // photos: groups in fewer come when they are asked for

// The name of a person as it is shown.
export const nameOf = (person) => (person.name === null ? words.nobody : visible(person.name));

// What keys that are typed into a field for a name leave alone.
export const isTyping = (event) => event.target.matches?.("input[type=text]") ?? false;

export class People {
  // page: {say(text, shown), failed(error), go(view), changed()}; changed() is called when something was said.
  constructor(column, page) {
    Object.assign(this, { column, page, chosen: new Set(), wanted: { strangers: false, everybody: false }, skipped: new Set(), person: null, seen: new Set(), version: null });
    $("people-merge").addEventListener("click", () => this.merge());
    $("people-undo").addEventListener("click", () => this.undo());
    $("person-undo").addEventListener("click", () => this.undo());
    $("people-rarer").addEventListener("click", () => this.want({ everybody: !this.wanted.everybody }));
    $("people-strangers").addEventListener("click", () => this.want({ strangers: !this.wanted.strangers }));
    $("people-more").addEventListener("click", () => this.more());
    $("question-yes").addEventListener("click", () => this.answer("merge"));
    $("question-no").addEventListener("click", () => this.answer("different"));
    $("question-later").addEventListener("click", () => this.answer(null));
    $("person-naming").addEventListener("submit", (event) => {
      event.preventDefault();
      this.name(this.person, $("person-name").value).then((said) => said && this.displayPerson(said.person.number));
    });
    $("person-next").addEventListener("click", () => this.showMissing());
    $("person-show").addEventListener("click", () => this.page.go({ person: this.person.number }));
    $("person-stranger").addEventListener("click", async () => {
      if (await this.say(`${this.person.number}/stranger`, {})) this.page.go({ people: true });
    });
    $("person-all").addEventListener("click", () => this.page.go({ people: true }));
  }

  get base() {
    return `${this.column.base}/people`;
  }

  picture(face) {
    return `${this.column.base}/faces/${face}/picture`;
  }

  // ---- what is said

  // Tell the server something; its answer, or null where that failed.
  async say(path, body, method = "POST") {
    try {
      const options = { method, headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
      const said = await (await ask(`${this.base}/${path}`, options)).json();
      this.told(said);
      return said;
    } catch (error) {
      this.page.failed(error);
      return null;
    }
  }

  told({ said, undo, version }) {
    this.version = version;
    this.showUndo(undo);
    this.page.say(said, true);
  }

  showUndo(what) {
    for (const id of ["people-undo", "person-undo"]) {
      $(id).disabled = !what;
      $(id).title = what ? words.undo(what) : words.nothingToUndo;
    }
  }

  // Give a group a name; nothing to do for the name that it has.
  async name(person, name) {
    const wanted = name.trim();
    if (!wanted || wanted === person.name) return null;
    return this.say(`${person.number}/name`, { name: wanted }, "PUT");
  }

  async undo() {
    // Only what this page shows as the last step: what others said since is not taken back unseen.
    if (!(await this.say("undo", { version: this.version }))) this.showUndo(null);
    if (this.isShown) await this.look();
    else if (this.person) await this.displayPerson(this.person.number, this.column.question?.missing ?? false);
  }

  // ---- the tab

  get isShown() {
    return !$("people").hidden;
  }

  async display() {
    this.person = null;
    this.chosen.clear();
    await this.look();
  }

  want(changes) {
    Object.assign(this.wanted, changes);
    return this.look();
  }

  request(offset) {
    const { strangers, everybody } = this.wanted;
    return askJson(`${this.base}?offset=${offset}&limit=${PAGE}&strangers=${strangers}&min_photos=${everybody || strangers ? 1 : FEWEST}`);
  }

  async look() {
    try {
      const [list, questions] = await Promise.all([this.request(0), askJson(`${this.base}/questions`)]);
      this.questions = questions;
      this.version = list.version;
      this.people = list.people;
      this.showList(list);
      this.showQuestion();
    } catch (error) {
      this.page.failed(error);
    }
  }

  async more() {
    try {
      const list = await this.request(this.people.length);
      if (list.version !== this.version) return await this.look();
      this.people.push(...list.people);
      this.showList(list);
    } catch (error) {
      this.page.failed(error);
    }
  }

  showList({ total, rarer, strangers, undo }) {
    const { everybody } = this.wanted;
    $("people-list").replaceChildren(...this.people.map((person) => this.card(person)));
    $("people-note").textContent = this.wanted.strangers ? words.strangersNote : words.groups(total);
    $("people-empty").hidden = total > 0;
    $("people-empty").textContent = this.wanted.strangers ? words.noStranger : rarer ? words.onlyOnce : words.noFaces;
    $("people-more").hidden = this.people.length >= total;
    $("people-rarer").hidden = this.wanted.strangers || (!rarer && !everybody);
    $("people-rarer").textContent = everybody ? words.hideRarer : words.rarer(rarer);
    $("people-strangers").hidden = !strangers && !this.wanted.strangers;
    $("people-strangers").textContent = this.wanted.strangers ? words.backToPeople : words.strangers(strangers);
    $("people-names").replaceChildren(...this.people.filter((one) => one.name).map((one) => make("option", { value: one.name })));
    this.showUndo(undo);
    this.showChosen();
  }

  card(person) {
    const who = person.name === null ? words.somebody(person.photos) : nameOf(person);
    const title = words.photosOfPerson(who);
    const open = button("", { className: "cover", title, "aria-label": title }, () => this.page.go({ person: person.number }));
    open.append(make("img", { src: this.picture(person.cover), alt: "", loading: "lazy" }));
    const name = make("input", { type: "text", maxLength: 200, placeholder: words.whoIsThis, value: person.name ?? "", autocomplete: "off" });
    name.setAttribute("list", "people-names");
    name.setAttribute("aria-label", words.nameOfPerson(who));
    const form = make("form", {}, name);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      name.blur();
    });
    name.addEventListener("change", async () => {
      await this.name(person, name.value);
      await this.look();
      this.focus(person.number);
    });
    const act = (text, title, action) => button(text, { title, "aria-label": words.of(title, who) }, action);
    const choose = act(words.merge, words.mergeTitle, () => {
      if (!this.chosen.delete(person.number)) this.chosen.add(person.number);
      this.showChosen();
    });
    choose.classList.add("choose");
    const away = (path, body) => async () => {
      if (await this.say(path, body)) await this.look();
    };
    const stranger = act(words.stranger, words.strangerTitle, away(`${person.number}/stranger`, {}));
    stranger.hidden = person.stranger;
    const none = act(words.noFace, words.noFaceReason, away("no-face", { faces: [person.number], groups: true }));
    const item = make("li", { className: "person" }, open, make("div", { className: "facts", textContent: words.photos(person.photos) }), form, make("div", { className: "marks" }, choose, stranger, none));
    item.dataset.number = person.number;
    return item;
  }

  // Whoever named a group by keyboard goes on from there.
  focus(number) {
    const item = $("people-list").querySelector(`[data-number="${number}"]`);
    if (document.activeElement === document.body) (item?.querySelector("input") ?? $("people")).focus();
  }

  showChosen() {
    for (const item of $("people-list").children) {
      item.querySelector(".choose").setAttribute("aria-pressed", this.chosen.has(Number(item.dataset.number)));
    }
    $("people-merge").hidden = this.chosen.size < 2;
    $("people-merge").textContent = words.mergeChosen(this.chosen.size);
  }

  async merge() {
    if (!(await this.say("merge", { faces: [...this.chosen] }))) return;
    this.chosen.clear();
    await this.look();
  }

  // ---- questions

  get question() {
    return this.questions.find(({ one, other }) => !this.skipped.has(`${one.number} ${other.number}`));
  }

  showQuestion() {
    const { question } = this;
    $("people-question").hidden = !question || this.wanted.strangers;
    if (!question) return;
    for (const [place, person] of [["one", question.one], ["other", question.other]]) {
      $(`question-${place}`).src = this.picture(person.cover);
      $(`question-${place}`).alt = person.name === null ? words.somebody(person.photos) : nameOf(person);
      $(`question-${place}-note`).textContent = person.name === null ? words.photos(person.photos) : words.ofPerson(person.photos, nameOf(person));
    }
    const named = [question.one, question.other].find((person) => person.name !== null);
    $("question-title").textContent = named ? words.isThis(nameOf(named)) : words.samePerson;
  }

  async answer(path) {
    const { one, other } = this.question;
    this.skipped.add(`${one.number} ${other.number}`);
    if (path !== null && !(await this.say(path, { faces: [one.number, other.number] }))) return;
    if (path === null) this.showQuestion();
    else await this.look();
    if ($("people-question").hidden) $("people").focus();
  }

  // ---- one person

  async displayPerson(number, missing = false, place = 0) {
    if (missing && this.column.question?.missing && this.person) for (const hit of this.column.unmarked()) this.seen.add(hit.face);
    else this.seen.clear();
    const question = missing ? { person: number, missing, seen: [...this.seen] } : { person: number };
    const answer = await this.column.show(question, place);
    if (answer === null) return;
    this.showPerson(answer.person);
    const who = nameOf(answer.person);
    this.page.say(missing ? words.mayBe(answer.total, who) : words.ofPerson(answer.total, who));
  }

  showPerson(person) {
    this.person = person;
    $("person").hidden = false;
    $("person-cover").src = this.picture(person.cover);
    $("person-title").replaceChildren(make("bdi", { textContent: person.name === null ? words.noNameYet : nameOf(person) }));
    $("person-count").textContent = words.personCount(person);
    $("person-name").value = person.name ?? "";
    $("person-stranger").hidden = person.stranger;
  }

  showMissing() {
    if (this.column.question?.missing) return this.displayPerson(this.person.number, true);
    return this.page.go({ person: this.person.number, missing: true });
  }

  keys() {
    return {
      a: () => this.mark(this.column.unmarked(), "right"), x: () => this.mark(this.column.unmarked(), "wrong"),
      z: () => !$("person-undo").disabled && this.undo(), m: () => this.showMissing(), c: () => this.page.go({ person: this.person.number }),
    };
  }

  markOf(hit) {
    return { true: "right", false: "wrong" }[hit.said];
  }

  // Say of the faces in photos that they are this person, or not; the list stays as it is.
  async mark(hits, kind) {
    if (!hits.length) return;
    const said = await this.say(`${this.person.number}/marks`, { [kind]: hits.map((hit) => hit.face) });
    if (!said) return;
    for (const hit of hits) hit.said = { right: true, wrong: false, neither: null }[kind];
    if (said.person) this.showPerson(said.person);
    this.column.question.person = this.person.number;
    this.column.markTiles();
    this.shown(this.column);
    this.page.changed();
  }

  // The column shows photos of a person: say what can be done with them.
  shown(column) {
    const { missing } = column.question;
    const wrong = column.hits.filter((hit) => hit?.said === false);
    const tools = [];
    if (missing && column.total) {
      tools.push(
        button(words.restIsNot, { title: withKey(words.restIsWrongTitle, "X") }, () => this.mark(column.unmarked(), "wrong")),
        button(words.nextPhotos, { title: withKey(words.othersOfPerson, "M") }, () => this.showMissing()),
      );
    }
    if (wrong.length > 1) tools.push(button(words.splitOff(wrong.length), { title: words.splitOffTitle }, () => this.split(wrong)));
    column.tools.replaceChildren(...tools);
    column.note.textContent = missing
      ? (column.total ? words.whichAre : words.nobodyElse)
      : words.surestFirst(column.total);
    column.message.hidden = true;
  }

  async split(wrong) {
    const said = await this.say("merge", { faces: wrong.map((hit) => hit.face) });
    if (said) this.page.go({ person: said.person.number });
  }

  // Something was said elsewhere, or photos came: look again, unless a name is being typed.
  follow(version) {
    const isOther = version !== null && !this.version?.endsWith(`-${version}`);
    if (isOther && this.isShown && !$("people").contains(document.activeElement?.closest("input"))) this.look();
  }
}
