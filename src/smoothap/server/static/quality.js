// How well a query does where labels are known: precision by recall of each column, and AP.

import { count, make } from "./column.js";
import { drawCurves, percent } from "./curve.js";

const $ = (id) => document.getElementById(id);

// isLabelled: whether all albums are; isForeign: whether the query is no photo of theirs.
export function showQuality(columns, answers, { isLabelled, isForeign }) {
  const drawn = answers.map((answer, place) => ({
    name: columns[place].album.name, before: columns[place].role === "before", curve: answer.curve,
  })).filter(({ curve }) => curve !== null);
  $("quality").hidden = !isLabelled;
  $("curves").replaceChildren(...(drawn.length ? [drawCurves(drawn)] : []));
  $("legend").replaceChildren(...drawn.map(({ name, before, curve }) => make(
    "li", {}, make("span", { className: before ? "line before" : "line" }),
    make("bdi", { textContent: name }), make("b", { textContent: `AP ${percent(curve.average_precision)}` }),
  )));
  $("quality-note").textContent = drawn.length
    ? `${count(drawn[0].curve.positives, "right photo")} among ${count(answers[0].ranked, "other")}; AP is exact, over the whole ranking.`
    : isForeign
      ? "A photo from outside has no label, so there is nothing to count."
      : "No other photo has this label, so there is nothing to find.";
}
