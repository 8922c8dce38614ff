/** Public bounds of features, and the scale on which clients compute. */

import { InvalidArgument, InvalidData } from "../errors.js";

/** What each client does with a record x: clip to [low, high], then (x − centre)·factor. The result
 * lies in [−1, 1]; where zero lies within the bounds it stays zero. */
export class FeatureScale {
  /** @param {ArrayLike<number>} low @param {ArrayLike<number>} high */
  constructor(low, high) {
    /** @readonly */
    this.low = Float64Array.from(low);
    /** @readonly */
    this.high = Float64Array.from(high);
    const fits = this.low.length > 0 && this.low.length === this.high.length;
    const bounds = this.low.every(
      (end, i) => Number.isFinite(end) && Number.isFinite(this.high[i]) && end <= this.high[i],
    );
    if (!fits || !bounds) {
      throw new InvalidArgument(
        "feature_range",
        "the bounds",
        "low ≤ high, a number a feature each",
      );
    }
    /** The middle of the bounds where zero lies outside of them, else zero. @readonly */
    this.centre = this.low.map((end, i) => {
      return end > 0 || this.high[i] < 0 ? (end + this.high[i]) / 2 : 0;
    });
    /** 1 over the largest distance from the centre; 0 for a feature that cannot vary. @readonly */
    this.factor = this.centre.map((middle, i) => {
      const reach = Math.max(this.high[i] - middle, middle - this.low[i]);
      return reach > 0 ? 1 / reach : 0;
    });
  }

  /** A record on the scale that all know. @param {ArrayLike<number>} record */
  apply(record) {
    if (record.length !== this.low.length) {
      throw new InvalidData(`record: must have ${this.low.length} entries`);
    }
    return Float32Array.from(this.low, (low, i) => {
      const clipped = Math.max(low, Math.min(this.high[i], record[i]));
      return (clipped - this.centre[i]) * this.factor[i];
    });
  }
}
