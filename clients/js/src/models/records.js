/** A device's own part of training a linear model: its records, and what it would tell of them. */

import { InvalidArgument, InvalidData, own } from "../errors.js";
import { LinearModel, MulticlassModel, REGRESSING } from "./linear.js";
import { Plan, Preparation } from "./preparation.js";

/** The records of one device, on their public scale, [−1, 1]; without an intercept.
 *
 * `update(round, preparation)` is what `Client.answer` is to be given in a round. y is −1 or +1; a
 * class number 0 … C−1 for a `MulticlassModel`; for a regression a number in [−1, 1]. */
export class LinearRecords {
  #records;
  #y;
  #model;
  #plan;

  /** @param {readonly ArrayLike<number>[]} X @param {ArrayLike<number>} y
   * @param {{ model?: LinearModel | MulticlassModel, plan?: Plan }} [options] */
  constructor(X, y, options) {
    const { model = new LinearModel(), plan } = own(options);
    this.#records = rows(X);
    this.#model = model;
    this.#y = targets(y, this.#records.length, model);
    const features = this.#records[0].length;
    if (plan && plan.features !== features) {
      throw new InvalidArgument("plan.features", plan.features, "as many as X has");
    }
    this.#plan = plan ?? null;
  }

  /** What to tell in a round: a function of the weights.
   * @param {number} round @param {Preparation} preparation
   * @returns {(weights: Float32Array | Float64Array) => Float32Array | Float64Array} */
  update(round, preparation) {
    const plan = this.#plan;
    if (plan !== null && plan.stage(round) !== "training") {
      return () => plan.vector(round, this.#records, preparation);
    }
    return (weights) => {
      const prepared = this.#records.map((record) => preparation.record(record));
      return this.#model.gradient(weights, prepared, this.#y);
    };
  }
}

/** Records within [−1, 1]; no message holds any of them. @param {readonly ArrayLike<number>[]} X */
function rows(X) {
  const listed = Array.isArray(X) && X.length > 0;
  const records = listed ? X.map((row) => Float64Array.from(row, Number)) : [];
  const width = records[0]?.length ?? 0;
  if (!width || !records.every((row) => row.length === width && row.every(Number.isFinite))) {
    throw new InvalidData("X: must be records of equally many finite numbers, at least one");
  }
  return records.map((row) => row.map((entry) => Math.max(-1, Math.min(1, entry))));
}

/** @param {ArrayLike<number>} y @param {number} records @param {LinearModel | MulticlassModel} model */
function targets(y, records, model) {
  const numbers = Float64Array.from(y, Number);
  if (model instanceof MulticlassModel) {
    const right = numbers.every((label) => Number.isSafeInteger(label) && label >= 0);
    if (numbers.length !== records || !right) {
      throw new InvalidData("y: must be a class number, 0 or more, one for each record");
    }
    return numbers;
  }
  if (REGRESSING.includes(model.loss)) {
    if (numbers.length !== records || !numbers.every(Number.isFinite)) {
      throw new InvalidData("y: must be one number for each record");
    }
    return numbers.map((target) => Math.max(-1, Math.min(1, target)));
  }
  if (numbers.length !== records || !numbers.every((label) => Math.abs(label) === 1)) {
    throw new InvalidData("y: must be −1 or +1, one for each record");
  }
  return numbers;
}
