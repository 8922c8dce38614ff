/** Linear models with an ℓ2 regulariser: logistic regression and SVM for two classes or several, least
 * squares and Huber for numbers. */

import { InvalidArgument, InvalidData, own } from "../errors.js";

export const CLASSIFYING = ["logistic", "svm"];
export const REGRESSING = ["squared", "huber"];
/** The residuals beyond which the losses of a regression grow linearly. */
const [HUBER, SQUARED] = [0.2, 2];

/** mean of loss(y, x·w) + λ/2 ‖w‖², with labels y = ±1, or targets y in [−1, 1] of a regression. */
export class LinearModel {
  /** @param {{ loss?: string, reg?: number }} [options] */
  constructor(options) {
    const { loss, reg } = checked(options, [...CLASSIFYING, ...REGRESSING]);
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
      const slope = this.slope(product(record, weights), y[i]);
      for (let j = 0; j < record.length; j++) gradient[j] += record[j] * slope;
    });
    return gradient.map((sum, j) => sum / records.length + this.reg * weights[j]);
  }
}

/** mean of loss(y, W·x) + λ/2 ‖W‖² with a row of W for each class y = 0 … C−1. "logistic" is the
 * softmax cross-entropy, "svm" is max(0, 1 + max_{c≠y} w_c·x − w_y·x). */
export class MulticlassModel {
  /** @param {{ loss?: string, reg?: number }} [options] */
  constructor(options) {
    const { loss, reg } = checked(options, CLASSIFYING);
    /** @readonly */
    this.loss = loss;
    /** @readonly */
    this.reg = reg;
    Object.freeze(this);
  }

  /** Derivative of the loss by each margin. @param {readonly number[]} margins @param {number} y */
  slopes(margins, y) {
    if (this.loss === "logistic") {
      return softmax(margins).map((share, c) => (c === y ? share - 1 : share));
    }
    const rivals = margins.map((margin, c) => (c === y ? -Infinity : margin));
    const rival = largest(rivals);
    const slope = 1 + rivals[rival] - margins[y] > 0 ? 1 : 0;
    return margins.map((_, c) => (c === y ? -slope : c === rival ? slope : 0));
  }

  /** Mean gradient, row after row, of records of d entries at weights of as many a row.
   * @param {Float32Array | Float64Array} weights @param {readonly Float32Array[]} records
   * @param {ArrayLike<number>} y */
  gradient(weights, records, y) {
    const gradient = new Float64Array(weights.length);
    records.forEach((record, i) => {
      const starts = rowStarts(weights.length, record.length);
      if (!(y[i] < starts.length)) throw new InvalidData("y: must be a class with weights");
      const margins = starts.map((start) => product(record, weights, start));
      this.slopes(margins, y[i]).forEach((slope, c) => {
        for (let j = 0; j < record.length; j++) gradient[starts[c] + j] += record[j] * slope;
      });
    });
    return gradient.map((sum, j) => sum / records.length + this.reg * weights[j]);
  }
}

/** Where each row of weights begins. @param {number} weights @param {number} size of a row */
export function rowStarts(weights, size) {
  if (weights % size) throw new InvalidArgument("weights", weights, `rows of ${size} numbers`);
  return Array.from({ length: weights / size }, (_, row) => row * size);
}

/** x·w with the row of weights that begins at a place.
 * @param {Float32Array} record @param {Float32Array | Float64Array} weights @param {number} start */
export function product(record, weights, start = 0) {
  let sum = 0;
  for (let j = 0; j < record.length; j++) sum += record[j] * weights[start + j];
  return sum;
}

/** Probabilities of margins. @param {readonly number[]} margins */
export function softmax(margins) {
  const most = margins[largest(margins)];
  const shares = margins.map((margin) => Math.exp(margin - most));
  const sum = shares.reduce((a, b) => a + b, 0);
  return shares.map((share) => share / sum);
}

/** The place of the largest number, the first of several. @param {readonly number[]} numbers */
export function largest(numbers) {
  return numbers.reduce((best, number, i) => (number > numbers[best] ? i : best), 0);
}

/** @param {{ loss?: string, reg?: number } | undefined} options @param {readonly string[]} known */
function checked(options, known) {
  const { loss = "logistic", reg = 0 } = own(options);
  if (!known.includes(loss)) {
    throw new InvalidArgument("loss", loss, `one of ${known.join(", ")}`);
  }
  if (typeof reg !== "number" || !Number.isFinite(reg) || reg < 0) {
    throw new InvalidArgument("reg", reg, "a finite number ≥ 0");
  }
  return { loss, reg };
}

/** @param {number} x */
function sigmoid(x) {
  const e = Math.exp(-Math.abs(x));
  return (x >= 0 ? 1 : e) / (1 + e);
}
