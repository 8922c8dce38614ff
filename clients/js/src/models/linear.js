/** Linear models with an ℓ2 regulariser: logistic regression, SVM, least squares and Huber. */

import { InvalidArgument, own } from "../errors.js";

const CLASSIFYING = ["logistic", "svm"];
export const REGRESSING = ["squared", "huber"];
/** The residuals beyond which the losses of a regression grow linearly. */
const [HUBER, SQUARED] = [0.2, 2];

/** mean of loss(y, x·w) + λ/2 ‖w‖², with labels y = ±1, or targets y in [−1, 1] of a regression. */
export class LinearModel {
  /** @param {{ loss?: string, reg?: number }} [options] */
  constructor(options) {
    const { loss = "logistic", reg = 0 } = own(options);
    if (![...CLASSIFYING, ...REGRESSING].includes(loss)) {
      throw new InvalidArgument("loss", loss, '"logistic", "svm", "squared" or "huber"');
    }
    if (typeof reg !== "number" || !Number.isFinite(reg) || reg < 0) {
      throw new InvalidArgument("reg", reg, "a finite number ≥ 0");
    }
    /** @readonly */
    this.loss = loss;
    /** @readonly */
    this.reg = reg;
    Object.freeze(this);
  }

  /** Derivative of the loss by x·w. @param {number} margin @param {number} y */
  slope(margin, y) {
    if (REGRESSING.includes(this.loss)) {
      const most = this.loss === "huber" ? HUBER : SQUARED;
      return Math.max(-most, Math.min(most, margin - y));
    }
    const product = y * margin;
    if (this.loss === "svm") return product < 1 ? -y : 0;
    return -y * sigmoid(-product);
  }

  /** Mean gradient (d,) of records, each of d entries.
   * @param {Float32Array | Float64Array} weights @param {readonly Float32Array[]} records
   * @param {ArrayLike<number>} y */
  gradient(weights, records, y) {
    const gradient = new Float64Array(weights.length);
    records.forEach((record, i) => {
      let margin = 0;
      for (let j = 0; j < record.length; j++) margin += record[j] * weights[j];
      const slope = this.slope(margin, y[i]);
      for (let j = 0; j < record.length; j++) gradient[j] += record[j] * slope;
    });
    return gradient.map((sum, j) => sum / records.length + this.reg * weights[j]);
  }
}

/** @param {number} x */
function sigmoid(x) {
  const e = Math.exp(-Math.abs(x));
  return (x >= 0 ? 1 : e) / (1 + e);
}
