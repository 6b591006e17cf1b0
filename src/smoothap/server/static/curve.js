// Precision by recall as SVG: steps whose area is the AP, before in blue and dashed, after in green.

import { words } from "./strings.js";

const SPACE = "http://www.w3.org/2000/svg";
const LEFT = 50, TOP = 8, WIDTH = 250, HEIGHT = 140;

function make(tag, attributes, text) {
  const element = document.createElementNS(SPACE, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

const across = (recall) => (LEFT + recall * WIDTH).toFixed(1);
const down = (precision) => (TOP + (1 - precision) * HEIGHT).toFixed(1);

// curves: [{name, before, curve}], where curve is what the server answered.
export function drawCurves(curves) {
  const description = words.curves(curves.map(({ name, curve }) => [name, curve.average_precision]));
  const drawing = make("svg", { viewBox: "0 0 320 184", role: "img", "aria-label": description });
  for (const share of [0, 0.5, 1]) {
    drawing.append(
      make("path", { class: "axis", d: `M${across(0)} ${down(share)}H${across(1)}` }),
      make("path", { class: "axis", d: `M${across(share)} ${down(0)}V${down(1)}` }),
      make("text", { x: LEFT - 6, y: +down(share) + 4, "text-anchor": "end" }, `${100 * share}%`),
      make("text", { x: across(share), y: TOP + HEIGHT + 15, "text-anchor": "middle" }, `${100 * share}%`),
    );
  }
  drawing.append(
    make("text", { x: LEFT + WIDTH / 2, y: TOP + HEIGHT + 31, "text-anchor": "middle" }, words.recallAxis),
    make("text", { x: 9, y: TOP + HEIGHT / 2, "text-anchor": "middle", transform: `rotate(-90 9 ${TOP + HEIGHT / 2})` }, words.precisionAxis),
  );
  for (const { before, curve } of curves) {
    let path = `M${across(0)} ${down(curve.precision[0])}`;
    for (let point = 1; point < curve.recall.length; point += 1) {
      path += `V${down(curve.precision[point])}H${across(curve.recall[point])}`;
    }
    drawing.append(make("path", { class: before ? "curve before" : "curve", d: path }));
  }
  return drawing;
}
