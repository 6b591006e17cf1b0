// The slider that shortens the list: by score, or by the recall to expect where the album is calibrated.

import { $ } from "./elements.js";
import { percent, words } from "./strings.js";

export class Slider {
  // changed() is called when it came to rest.
  constructor(changed) {
    this.lowest = null; // nothing is asked for when it stands there
    this.resting = null;
    $("slider").addEventListener("input", () => {
      this.show();
      clearTimeout(this.resting);
      this.resting = setTimeout(changed, 200);
    });
    $("slider-kind").addEventListener("change", () => {
      this.reset();
      changed();
    });
  }

  get isRecall() {
    return $("slider").dataset.kind === "recall";
  }

  get value() {
    return Number($("slider").value);
  }

  get isOpen() {
    return this.isRecall ? this.value >= 1 : this.lowest === null || this.value <= this.lowest;
  }

  // What it asks for, as a part of a question.
  question() {
    if (this.isOpen) return {};
    return this.isRecall ? { recall: this.value } : { min_score: this.value };
  }

  reset() {
    this.lowest = null;
    const recall = document.querySelector('input[name="kind"]:checked').value === "recall";
    Object.assign($("slider"), recall ? { min: 0.5, max: 1, step: 0.01, value: 1 } : { min: -1, max: 1, step: 0.005, value: -1 });
    $("slider").dataset.kind = recall ? "recall" : "score";
    $("slider-label").textContent = recall ? words.expectedRecall : words.lowestScore;
    this.show();
  }

  // Its ends are those of the scores in the first answers.
  range(answers) {
    if (!this.isRecall && this.lowest === null) {
      const ends = answers.filter((answer) => answer.lowest !== null);
      this.lowest = Math.floor(200 * Math.min(0.995, ...ends.map((answer) => answer.lowest))) / 200;
      const highest = Math.ceil(200 * Math.max(this.lowest + 0.005, ...ends.map((answer) => answer.highest))) / 200;
      Object.assign($("slider"), { min: this.lowest, max: highest, value: this.lowest });
    }
    this.show();
  }

  show() {
    $("slider-value").textContent = this.isRecall ? percent(this.value) : this.isOpen ? words.noLimit : this.value.toFixed(3);
  }
}
