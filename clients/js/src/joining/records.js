/** The records of a device as their owner has them, and what a task makes of them in a round.
 *
 * @typedef {import("../models/schema.js").Cell} Cell
 * @typedef {import("../models/schema.js").TableRecord} TableRecord
 *
 * Records by name or by position, and the label of each. What the task's schema has encoded already
 * stays as it is.
 * @typedef {{ X: readonly TableRecord[], y: readonly Cell[] }} Records
 */

import { LinearModel, MulticlassModel } from "../models/linear.js";
import { RecordPipeline } from "../models/pipeline.js";

/** @param {Records | import("../device/updates.js").Update} records
 * @returns {records is Records} */
export function isRecords(records) {
  return typeof records === "object" && "X" in records;
}

/** What to report in a round: a function of the weights, in which alone records are read. Null where
 * the way in which the service prepares records does not suit its task.
 * @param {import("../wire/contract.js").Announcement} task @param {Records} records
 * @param {string} text the pipeline @param {number} round @param {number} dim
 * @returns {((weights: Float32Array | Float64Array) => Float32Array | Float64Array) | null} */
export function updateOf(task, records, text, round, dim) {
  const { schema, loss } = /** @type {{ schema: Schema, loss: string }} */ (task);
  try {
    const pipeline = RecordPipeline.parse(text, schema.featureCount);
    const model = schema.rows > 1 ? new MulticlassModel({ loss }) : new LinearModel({ loss });
    const update = (/** @type {Float64Array[]} */ X, /** @type {number[]} */ y) =>
      pipeline.records(X, y, model).update(round, pipeline.preparation);
    // Whether the plan makes sense is seen by a made-up record: it must not depend on the device's.
    const madeUp = update([new Float64Array(schema.featureCount)], [1])(new Float64Array(dim));
    const { plan } = pipeline;
    if (madeUp.length !== dim || (plan !== null && plan.dim !== dim)) return null;
    return (weights) => {
      const { X, y } = arranged(schema, records);
      // Where no record can be used the device answers on zeros: who stays away is seen.
      return X.length ? update(X, y)(weights) : new Float64Array(dim);
    };
  } catch {
    return null;
  }
}

/** @typedef {import("../models/schema.js").Schema} Schema
 *
 * The encoded records whose label the schema knows, and what a model learns from: class numbers, −1
 * and +1 where there are two classes, or numbers in [−1, 1].
 * @param {Schema} schema @param {Records} records */
function arranged(schema, { X, y }) {
  const signs = schema.rows === 1 && schema.targetRange === null;
  const targets = Array.from(y, (label) => schema.target(label));
  const known = targets.flatMap((target, i) => (Number.isNaN(target) ? [] : [i]));
  return {
    X: known.map((i) => schema.encode(X[i])),
    y: known.map((i) => (signs ? 2 * targets[i] - 1 : targets[i])),
  };
}
