// What the page tells: in the banner what went wrong, and to screen readers what was done.

import { Lost } from "./ask.js";
import { $ } from "./elements.js";

const SHOWN = 6000; // milliseconds
let hiding = null;
let stays = false; // whether the banner waits for somebody to close it

// Said to screen readers, and shown for a while where `shown`.
export function say(text, shown = false) {
  $("status").textContent = text;
  clearTimeout(hiding);
  $("status").classList.toggle("hidden-text", !shown);
  if (shown) hiding = setTimeout(() => $("status").classList.add("hidden-text"), SHOWN);
}

// What went wrong with a question is told until the next one is answered. Of a lost server another banner tells.
export function failed(error) {
  if (error instanceof Lost) return;
  stays = false;
  place();
  $("mistake-text").textContent = error.message;
  $("mistake").hidden = false;
}

// What was to be kept and was not is told until somebody closes it.
export function notKept(error) {
  if (error instanceof Lost) return;
  failed(error);
  stays = true;
}

export function well() {
  if (!stays) $("mistake").hidden = true;
}

// What lies behind an open dialog is dim, and not read out: the banner goes to where one looks.
function place() {
  const dialog = document.querySelector("dialog[open]");
  if (dialog) (dialog.id === "viewer" ? $("viewer-side") : dialog).prepend($("mistake"));
  else $("lost").after($("mistake"));
}

$("mistake-close").addEventListener("click", () => {
  $("mistake").hidden = true;
});
for (const dialog of document.querySelectorAll("dialog")) dialog.addEventListener("close", place);
