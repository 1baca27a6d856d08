// The horizontal axis of slider and timeline: time, with stretches without writes folded. Pure.

/** Longest stretch without writes that is drawn in full, in milliseconds. */
export const FOLD = 2_000;
/** Width of one write on the axis, in milliseconds: writes of one instant are told apart. */
const STEP = 12;

export class Scale {
  /** Position of each write on the axis. */
  readonly positions: number[] = [];
  /** Indexes of writes before which a stretch is folded. */
  readonly folds: number[] = [];
  private last = 0;

  /** Adds the next write. */
  add(time: number): void {
    const index = this.positions.length;
    if (index === 0) {
      this.positions.push(STEP);
    } else {
      const gap = Math.max(0, time - this.last);
      if (gap > FOLD) this.folds.push(index);
      this.positions.push(this.positions[index - 1] + Math.min(gap, FOLD) + STEP);
    }
    this.last = time;
  }

  /** Length of the axis. */
  length(): number {
    return (this.positions.length ? this.positions[this.positions.length - 1] : 0) + FOLD / 20;
  }

  /** Position of the state after a number of writes. */
  of(count: number): number {
    return count <= 0 ? 0 : this.positions[Math.min(count, this.positions.length) - 1] ?? 0;
  }

  /** The number of writes up to a position. */
  countAt(position: number): number {
    let low = 0;
    let high = this.positions.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.positions[middle] <= position) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

/** Counts of writes in equal parts of a range of the axis: all, and outside writes. */
export function bins(scale: Scale, outside: (index: number) => boolean, from: number, to: number, count: number): { all: number[]; outside: number[] } {
  const result = { all: new Array<number>(count).fill(0), outside: new Array<number>(count).fill(0) };
  const width = (to - from) / count;
  if (width <= 0) return result;
  for (let index = scale.countAt(from - 1e-9); index < scale.positions.length && scale.positions[index] <= to; index++) {
    const bin = Math.min(count - 1, Math.floor((scale.positions[index] - from) / width));
    result.all[bin]++;
    if (outside(index)) result.outside[bin]++;
  }
  return result;
}
