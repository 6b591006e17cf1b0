// On a narrow screen all but one row of controls is in a sheet, which comes from below.

import { $ } from "./elements.js";

const narrow = matchMedia("(max-width: 60rem)");
// What stands elsewhere there: [what, before what].
const MOVED = [
  ["size-row", "query"], ["arrange", "size-row"], ["choose-label", "collections-open"], ["collections-open", "sheet-close"], ["keys-open", "sheet-close"],
  ["query", "people"],
];
const homes = new Map();

function arrange() {
  for (const [id] of MOVED) homes.get(id) ?? homes.set(id, [$(id).parentElement, $(id).nextSibling]);
  if (narrow.matches) for (const [id, before] of MOVED) $(before).before($(id));
  else for (const [id] of [...MOVED].reverse()) homes.get(id)[0].insertBefore($(id), homes.get(id)[1]);
  open(false);
}

function open(is) {
  document.body.classList.toggle("sheet-is-open", is);
  $("sheet-open").setAttribute("aria-expanded", is);
  if (is) $("sheet-close").focus();
}

$("sheet-open").addEventListener("click", () => open(true));
$("sheet-close").addEventListener("click", () => {
  open(false);
  $("sheet-open").focus({ preventScroll: true }); // where one was stays on the screen
});
document.addEventListener("click", (event) => {
  const leads = "#collection-next, #collection-show, #collection-wrong, #again, #review, #person-next, #person-show, #person-all";
  if (event.target.closest(leads) || !event.target.closest("#sheet, #sheet-open, dialog")) open(false); // to the photos
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && document.body.classList.contains("sheet-is-open")) $("sheet-close").click();
});
$("jump").addEventListener("change", () => open(false));
narrow.addEventListener("change", arrange);
arrange();
