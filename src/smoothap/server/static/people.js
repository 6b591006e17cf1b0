// People: groups of faces to be named, merged and put away; the album's questions; and all photos of one person.

import { ask, askJson } from "./ask.js";
import { count, make, visible } from "./column.js";

const $ = (id) => document.getElementById(id);
const PAGE = 100; // groups
const FEWEST = 2; // photos: groups in fewer come when they are asked for

// The name of a person as it is shown.
export const nameOf = (person) => (person.name === null ? "nobody named yet" : visible(person.name));

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
      $(id).title = what ? `Undo: ${what}` : "Nothing to undo";
    }
  }

  // Give a group a name; nothing to do for the name that it has.
  async name(person, name) {
    const wanted = name.trim();
    if (!wanted || wanted === person.name) return null;
    return this.say(`${person.number}/name`, { name: wanted }, "PUT");
  }

  async undo() {
    if (!(await this.say("undo", {}))) return;
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
    $("people-note").textContent = this.wanted.strangers ? "Strangers: give one a name if you know them after all." : count(total, "group");
    $("people-empty").hidden = total > 0;
    $("people-empty").textContent = this.wanted.strangers ? "Nobody is a stranger." : rarer ? "Nobody is in more than one photo." : "No face was found in these photos. Open a photo and draw a box around one.";
    $("people-more").hidden = this.people.length >= total;
    $("people-rarer").hidden = this.wanted.strangers || (!rarer && !everybody);
    $("people-rarer").textContent = everybody ? "Hide those in one photo only" : `Show ${rarer.toLocaleString("en")} more, in one photo each`;
    $("people-strangers").hidden = !strangers && !this.wanted.strangers;
    $("people-strangers").textContent = this.wanted.strangers ? "Back to all people" : `Strangers (${strangers.toLocaleString("en")})`;
    $("people-names").replaceChildren(...this.people.filter((one) => one.name).map((one) => make("option", { value: one.name })));
    this.showUndo(undo);
    this.showChosen();
  }

  card(person) {
    const who = person.name === null ? `somebody in ${count(person.photos, "photo")}` : nameOf(person);
    const open = make("button", { type: "button", className: "cover", title: `All photos of ${who}` }, make("img", { src: this.picture(person.cover), alt: "", loading: "lazy" }));
    open.setAttribute("aria-label", `All photos of ${who}`);
    open.addEventListener("click", () => this.page.go({ person: person.number }));
    const name = make("input", { type: "text", maxLength: 200, placeholder: "Who is this?", value: person.name ?? "", autocomplete: "off" });
    name.setAttribute("list", "people-names");
    name.setAttribute("aria-label", `The name of ${who}`);
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
    const button = (text, title, action) => {
      const made = make("button", { type: "button", textContent: text, title });
      made.setAttribute("aria-label", `${title}: ${who}`);
      made.addEventListener("click", action);
      return made;
    };
    const choose = button("Merge", "Choose, to merge it with others", () => {
      if (!this.chosen.delete(person.number)) this.chosen.add(person.number);
      this.showChosen();
    });
    choose.classList.add("choose");
    const away = (path, body) => async () => {
      if (await this.say(path, body)) await this.look();
    };
    const stranger = button("Stranger", "A stranger, never mind", away(`${person.number}/stranger`, {}));
    stranger.hidden = person.stranger;
    const none = button("No face", "Not a face: a poster, a shadow", away("no-face", { faces: [person.number], groups: true }));
    const item = make("li", { className: "person" }, open, make("div", { className: "facts", textContent: count(person.photos, "photo") }), form, make("div", { className: "marks" }, choose, stranger, none));
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
    $("people-merge").textContent = `Merge the ${this.chosen.size} chosen`;
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
      $(`question-${place}`).alt = person.name === null ? `somebody in ${count(person.photos, "photo")}` : nameOf(person);
      $(`question-${place}-note`).textContent = `${person.name === null ? "" : `${nameOf(person)}, `}${count(person.photos, "photo")}`;
    }
    const named = [question.one, question.other].find((person) => person.name !== null);
    $("question-title").textContent = named ? `Is this ${nameOf(named)}?` : "Are these the same person?";
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
    this.page.say(missing ? `${count(answer.total, "photo")} that may be of ${who}` : `${count(answer.total, "photo")} of ${who}`);
  }

  showPerson(person) {
    this.person = person;
    $("person").hidden = false;
    $("person-cover").src = this.picture(person.cover);
    $("person-title").replaceChildren(make("bdi", { textContent: person.name === null ? "No name yet" : nameOf(person) }));
    $("person-count").textContent = `${count(person.photos, "photo")}${person.stranger ? ", a stranger" : ""}`;
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
    const tool = (text, title, action) => {
      const button = make("button", { type: "button", textContent: text, title });
      button.addEventListener("click", action);
      return button;
    };
    const wrong = column.hits.filter((hit) => hit?.said === false);
    const tools = [];
    if (missing && column.total) tools.push(tool("The rest are not", "Mark the photos that have been on the screen as a whole and have no mark as ✗ (X)", () => this.mark(column.unmarked(), "wrong")), tool("Next photos", "Others that may be of this person (M)", () => this.showMissing()));
    if (wrong.length > 1) tools.push(tool(`Split off the ${wrong.length} ✗ as one person`, "They are another person, and all of them the same", () => this.split(wrong)));
    column.tools.replaceChildren(...tools);
    column.note.textContent = missing
      ? (column.total ? "May be the same person: which are? ✓ takes a photo in, ✗ keeps it out for ever." : "Nobody else in the album is like this person: probably nothing is missing.")
      : `${count(column.total, "photo")}, the surest first. ✗ takes one out.`;
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
