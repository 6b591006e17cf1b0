// Making elements, and texts as elements show them.

import { KEYS, PAGE, withKey } from "./strings.js";

export const $ = (id) => document.getElementById(id);

export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in element) element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

export function button(text, properties, action) {
  const made = make("button", { type: "button", textContent: text, ...properties });
  made.addEventListener("click", action);
  return made;
}

// A picture of a magnifier: fonts draw the sign for it too small to be seen, or not at all.
export function magnifier() {
  const part = (tag, attributes) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    return element;
  };
  const sign = part("svg", { class: "sign", viewBox: "0 0 20 20", "aria-hidden": "true" });
  sign.append(part("circle", { cx: 8.5, cy: 8.5, r: 5.5 }), part("path", { d: "m13 13 5 5" }));
  return sign;
}

// A text of `strings.js` with what is marked in it.
function rich(text) {
  return text.split(/(\*\*.+?\*\*|`.+?`|\[.+?\]|\(magnifier\))/).map((part) => {
    if (part === "(magnifier)") return magnifier();
    if (part.startsWith("**")) return make("b", { textContent: part.slice(2, -2) });
    if (part.startsWith("`")) return make("code", { textContent: part.slice(1, -1) });
    if (part.startsWith("[")) return make("kbd", { textContent: part.slice(1, -1) });
    return part;
  });
}

// Put the words of the page where they belong.
for (const [id, words] of Object.entries(PAGE)) {
  const { text, title, key, label, hint, alt } = typeof words === "string" ? { text: words } : words;
  const element = $(id);
  if (text) element.prepend(...rich(text));
  if (title) element.title = withKey(title, key);
  if (label) element.setAttribute("aria-label", label);
  if (hint) element.placeholder = hint;
  if (alt) element.alt = alt;
}
$("keys-list").append(...KEYS.flatMap(([keys, what]) => [make("dt", {}, ...rich(keys)), make("dd", {}, ...rich(what))]));

// Characters that turn the direction of the text around them, break its line or control what shows it.
const UNSAFE = /[\0-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;

// Text from elsewhere with all that would steer what shows it spelled out.
export function visible(text) {
  return text.replace(UNSAFE, (letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

// A photo as the server tells of it, with a name and a label to show.
export function named(photo) {
  return { ...photo, name: visible(photo.path), label: photo.label === null ? null : visible(photo.label) };
}

// What cameras and copying call files and folders, and numbers: nothing of what is on a photo.
const SAYS_NOTHING = /(?<!\p{L})(img|dsc[fn]?|pxl|mvimg|vid|dji|gopr|wa|p|dcim|camera|image|photo|picture|whatsapp|screenshot|copy|\d+[a-z]+)(?!\p{L})|[^\p{L}]/giu;

// A name for what is on a photo, by its path: that of the file, or of its folder where that says more.
export function titleOf(path) {
  const [file, folder = ""] = path.split("/").reverse();
  const stem = file.replace(/(.)\.\w+$/, "$1");
  const says = (text) => text.replace(SAYS_NOTHING, "").length;
  return says(stem) < 3 && says(folder) > says(stem) ? folder : stem;
}

// Put an element where a box is: left, top, width, height as shares of what it is in.
export function place(element, box) {
  ["left", "top", "width", "height"].forEach((name, side) => { element.style[name] = `${100 * box[side]}%`; });
}

export function save(blob, name) {
  const address = URL.createObjectURL(blob);
  make("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}
