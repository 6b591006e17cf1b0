// How well a query does where labels are known: precision by recall of each column, and AP.

import { drawCurves } from "./curve.js";
import { $, make } from "./elements.js";
import { words } from "./strings.js";

// isLabelled: whether all albums are; isForeign: whether the query is no photo of theirs.
export function showQuality(columns, answers, { isLabelled, isForeign }) {
  const drawn = answers.map((answer, place) => ({
    name: columns[place].album.name, before: columns[place].role === "before", curve: answer.curve,
  })).filter(({ curve }) => curve !== null);
  $("quality").hidden = !isLabelled;
  $("curves").replaceChildren(...(drawn.length ? [drawCurves(drawn)] : []));
  $("legend").replaceChildren(...drawn.map(({ name, before, curve }) => make(
    "li", {}, make("span", { className: before ? "line before" : "line" }),
    make("bdi", { textContent: name }), make("b", { textContent: words.ap(curve.average_precision) }),
  )));
  $("quality-note").textContent = drawn.length
    ? words.ranking(drawn[0].curve.positives, answers[0].ranked)
    : isForeign
      ? words.foreign
      : words.alone;
}
