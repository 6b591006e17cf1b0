// Where each photo of a long list is, in pixels from its top: rows of tiles, below headings where the list has sections.

export class Layout {
  // sections: [{start, photos}] in order, or [] for a list without headings. wide: photos beside each other. high and
  // heading: from one row, or one heading, to the next.
  constructor(total, sections, { wide, high, heading }) {
    Object.assign(this, { total, wide, high, heading: sections.length ? heading : 0 });
    let row = 0;
    this.parts = (sections.length ? sections : [{ start: 0, photos: total }]).map(({ start, photos }, number) => {
      const part = { number, start, end: start + photos, row, top: row * high + (number + 1) * this.heading };
      row += Math.ceil(photos / wide);
      return part;
    });
    this.height = row * high + this.parts.length * this.heading;
  }

  // The last part of which this holds; it does of the first ones.
  last(holds) {
    let [low, high] = [0, this.parts.length - 1];
    while (low < high) {
      const middle = Math.ceil((low + high) / 2);
      if (holds(this.parts[middle])) low = middle;
      else high = middle - 1;
    }
    return this.parts[low];
  }

  partOf(place) {
    return this.last((part) => part.start <= place);
  }

  // The upper edge of the row that a place is in; of its heading, where the row is the first of its section.
  topOf(place) {
    const part = this.partOf(place);
    const row = Math.floor((place - part.start) / this.wide);
    return part.top + row * this.high - (row ? 0 : this.heading);
  }

  bottomOf(place) {
    const part = this.partOf(place);
    return part.top + (Math.floor((place - part.start) / this.wide) + 1) * this.high;
  }

  // The first place of the row at a height; of the nearest one beyond both ends.
  placeAt(height) {
    const part = this.last(({ top }) => top - this.heading <= height);
    const rows = Math.ceil((part.end - part.start) / this.wide);
    const row = Math.min(Math.max(Math.floor((height - part.top) / this.high), 0), Math.max(rows - 1, 0));
    return part.start + row * this.wide;
  }

  // The places from the row at one height to the end of the row at another.
  between(from, to) {
    const last = this.placeAt(to);
    return [this.placeAt(from), Math.min(last + this.wide, this.partOf(last).end)];
  }

  // The place that many rows further down, in the same column or the last one before it.
  step(place, rows) {
    const part = this.partOf(place);
    const inside = place - part.start;
    const row = part.row + Math.floor(inside / this.wide) + rows;
    const to = this.last((each) => each.row <= row);
    const first = to.start + Math.max(row - to.row, 0) * this.wide;
    return Math.min(first + (inside % this.wide), Math.max(to.end, to.start + 1) - 1);
  }
}
