// The faces of the photo that is looked at large: boxes with names, who they are, and a box where none was found.

import { askJson, post } from "./ask.js";
import { $, button, make, place, visible } from "./elements.js";
import { nameOf } from "./people.js";
import { words } from "./strings.js";

export class PhotoFaces {
  // people: what says things about faces. page: {go(view), failed(error), close()}, which closes the photo.
  constructor(people, page) {
    Object.assign(this, { people, page, faces: [], photo: null });
    $("viewer-faces-side").hidden = false;
  }

  clear() {
    this.photo = null;
    this.set([]);
  }

  async show(hit) {
    this.photo = hit.id;
    this.set([]);
    await this.look();
  }

  async look() {
    const { photo } = this;
    try {
      const { faces } = await askJson(`${this.people.column.base}/photos/${photo}/faces`);
      if (photo === this.photo) this.set(faces);
    } catch (error) {
      this.page.failed(error);
    }
  }

  set(faces) {
    this.faces = faces;
    $("viewer-faces").replaceChildren(...faces.map((face) => this.frame(face)));
    $("viewer-people").replaceChildren(...faces.map((face) => this.row(face)));
    $("viewer-nobody").hidden = faces.length > 0;
  }

  frame({ box, person }) {
    const name = person.name === null ? "" : visible(person.name);
    const title = words.photosOfPerson(name);
    const open = button("", { className: "face", title, "aria-label": title }, () => this.open(person));
    open.append(make("bdi", { textContent: name }));
    place(open, box);
    open.addEventListener("pointerdown", (event) => event.stopPropagation()); // the photo is not moved by it
    return open;
  }

  row(face) {
    const { person } = face;
    const [who, place] = [person.name === null ? "" : nameOf(person), this.faces.indexOf(face) + 1];
    const name = make("input", { type: "text", maxLength: 200, placeholder: words.whoIsThis, value: person.name ?? "", autocomplete: "off" });
    name.setAttribute("list", "people-names");
    name.setAttribute("aria-label", words.nameOfFace(place));
    const form = make("form", {}, name);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      name.blur();
    });
    name.addEventListener("change", async () => {
      if (await this.people.name(person, name.value)) await this.look();
    });
    const title = words.photosOfPerson(who);
    const open = button(words.photosButton, { title, "aria-label": title }, () => this.open(person));
    const none = button("✗", { title: words.noFaceTitle, "aria-label": words.noFaceIn(place) }, async () => {
      if (await this.people.say("no-face", { faces: [face.id] })) await this.look();
      $("viewer-draw").focus();
    });
    return make("li", {}, make("img", { src: this.people.picture(face.id), alt: "" }), form, open, none);
  }

  open(person) {
    this.page.close();
    this.page.go({ person: person.number });
  }

  // A face where none was found, in a box of shares; then who it is can be said.
  async draw(box) {
    try {
      this.people.told(await (await post(`${this.people.column.base}/photos/${this.photo}/faces`, { box })).json());
      await this.look();
      const [left, top] = box;
      const place = this.faces.findIndex((face) => Math.abs(face.box[0] - left) < 0.01 && Math.abs(face.box[1] - top) < 0.01);
      $("viewer-people").children[Math.max(place, 0)]?.querySelector("input").focus();
    } catch (error) {
      this.page.failed(error);
    }
  }
}
