// A box on the query: drawn with a pointer, or moved and sized by keys. Shares of the image: [left, top, width, height].

const SMALLEST = 0.03;
const clamp = (value, low, high) => Math.min(Math.max(value, low), high);

export class ShareBox {
  // changed(value): a box was drawn, or taken away. entered(value): Enter was pressed; the same where it is not given.
  constructor(stage, image, frame, changed, entered = changed) {
    Object.assign(this, { stage, image, frame, changed, entered, value: null, from: null, enabled: true });
    stage.addEventListener("pointerdown", (event) => this.press(event));
    stage.addEventListener("pointermove", (event) => this.drag(event));
    stage.addEventListener("pointerup", (event) => this.release(event));
    stage.addEventListener("pointercancel", () => { this.from = null; });
    stage.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.show()).observe(image);
  }

  set(value) {
    this.value = value;
    this.show();
  }

  // The picture inside its border, in pixels of the stage.
  place() {
    const edge = this.image.clientLeft;
    return {
      left: this.image.offsetLeft + edge, top: this.image.offsetTop + edge,
      width: this.image.clientWidth, height: this.image.clientHeight,
    };
  }

  show() {
    this.frame.hidden = this.value === null;
    if (this.value === null) return;
    const { left, top, width, height } = this.place();
    const [x, y, w, h] = this.value;
    this.frame.style.left = `${left + x * width}px`;
    this.frame.style.top = `${top + y * height}px`;
    this.frame.style.width = `${w * width}px`;
    this.frame.style.height = `${h * height}px`;
  }

  point(event) {
    const { left, top, width, height } = this.place();
    const stage = this.stage.getBoundingClientRect();
    return [clamp((event.clientX - stage.left - left) / width, 0, 1), clamp((event.clientY - stage.top - top) / height, 0, 1)];
  }

  press(event) {
    if (!this.enabled || this.image.hidden || event.button !== 0) return;
    event.preventDefault();
    this.stage.focus({ preventScroll: true });
    this.stage.setPointerCapture(event.pointerId);
    this.from = this.point(event);
    this.old = this.value;
  }

  drag(event) {
    if (this.from === null) return;
    const to = this.point(event);
    const low = to.map((value, axis) => Math.min(value, this.from[axis]));
    const size = to.map((value, axis) => Math.abs(value - this.from[axis]));
    this.set([...low, ...size]);
  }

  release(event) {
    if (this.from === null) return;
    this.drag(event);
    this.from = null;
    const [, , width, height] = this.value;
    if (width < SMALLEST || height < SMALLEST) {
      this.set(this.old); // a click, not a box
    } else {
      this.changed(this.value);
    }
  }

  key(event) {
    const steps = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    if (!this.enabled || this.image.hidden) return;
    if (event.key in steps) {
      const [x, y, w, h] = this.value ?? [0.25, 0.25, 0.5, 0.5];
      const [right, down] = steps[event.key].map((step) => step * 0.04);
      this.set(event.shiftKey
        ? [x, y, clamp(w + right, SMALLEST, 1 - x), clamp(h + down, SMALLEST, 1 - y)]
        : [clamp(x + right, 0, 1 - w), clamp(y + down, 0, 1 - h), w, h]);
    } else if (event.key === "Enter" && this.value !== null) {
      this.entered(this.value);
    } else if (event.key === "Escape" && this.value !== null) {
      this.set(null);
      this.changed(null);
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  }
}
