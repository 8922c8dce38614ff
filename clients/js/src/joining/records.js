/** The records of a device as their owner has them, and what a task makes of them in a round.
 *
 * @typedef {import("../models/schema.js").Cell} Cell
 * @typedef {import("../models/schema.js").TableRecord} TableRecord
 *
 * Records by name or by position, and the label of each; a question needs none. What the task's schema
 * has encoded already stays as it is.
 * @typedef {{ X: readonly TableRecord[], y: readonly Cell[] }} Records
 * @typedef {Float32Array | Float64Array} Weights
 */

import { LinearModel, MulticlassModel, product, rowStarts } from "../models/linear.js";
import { ModelQuestion } from "../models/model_question.js";
import { RecordPipeline } from "../models/pipeline.js";
import { SYSTEM } from "../random/entropy.js";

/** @param {Records | import("../device/updates.js").Update} records
 * @returns {records is Records} */
export function isRecords(records) {
  return typeof records === "object" && "X" in records;
}

/** What to report in a round: a function of the weights, in which alone records are read. Null where
 * the way in which the service prepares records does not suit its task.
 * @param {import("../wire/contract.js").Announcement} task @param {Records} records
 * @param {string} text the pipeline @param {number} round @param {number} dim
 * @returns {((weights: Weights) => Float32Array | Float64Array) | null} */
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

/** Which answer to give to a question about people: a function, in which alone a record is read. Of
 * several one is drawn.
 * @param {import("../models/question.js").Question} question @param {Records} records
 * @returns {(weights: Weights) => number | number[]} */
export function answerOf(question, { X }) {
  return () => {
    const record = X[below(X.length)];
    if (question.kind !== "mean") return question.answer(record);
    const number = question.number(record);
    return [Number.isNaN(number) ? 0 : number]; // the middle for no answer
  };
}

/** Which answer to give in a round that measures the model: a function of the weights, in which alone
 * records are read, and the question. Null where the text does not suit the task.
 * @param {import("../wire/contract.js").Announcement} task @param {Records} records
 * @param {string} text question and pipeline @param {number} answers how many the request asks for
 * @returns {{ question: ModelQuestion, update: (weights: Weights) => number } | null} */
export function measuringOf(task, records, text, answers) {
  const { schema } = /** @type {{ schema: Schema }} */ (task);
  try {
    const parts = JSON.parse(text);
    const question = new ModelQuestion(parts.measure);
    const { scale, preparation } = RecordPipeline.of(parts.pipeline, schema.featureCount);
    const fits = preparation.size * schema.rows === schema.dim;
    const asks = question.count === answers && question.classes >= schema.rows;
    if (!fits || !asks || scale.low.length !== schema.featureCount) return null;
    const update = (/** @type {Weights} */ weights) => {
      const targets = Array.from(records.y, (label) => schema.target(label));
      const known = labelled(targets);
      // One of those whose label the task knows; without any there is no answer.
      const drawn = known.length ? known[below(known.length)] : null;
      if (drawn === null) return NO_RECORD;
      const prepared = preparation.record(scale.apply(schema.encode(records.X[drawn])));
      const starts = rowStarts(weights.length, prepared.length);
      const margins = starts.map((start) => product(prepared, weights, start));
      return question.answer(margins, targets[drawn]);
    };
    return { question, update };
  } catch {
    return null;
  }
}

const NO_RECORD = -1;

/** One of so many, each as likely. @param {number} count */
function below(count) {
  return Number(SYSTEM.below(BigInt(count)));
}

/** The places of the records whose label the task knows. @param {readonly number[]} targets */
function labelled(targets) {
  return targets.flatMap((target, i) => (Number.isNaN(target) ? [] : [i]));
}

/** @typedef {import("../models/schema.js").Schema} Schema
 *
 * The encoded records whose label the schema knows, and what a model learns from: class numbers, −1
 * and +1 where there are two classes, or numbers in [−1, 1].
 * @param {Schema} schema @param {Records} records */
function arranged(schema, { X, y }) {
  const signs = schema.rows === 1 && schema.targetRange === null;
  const targets = Array.from(y, (label) => schema.target(label));
  const known = labelled(targets);
  return {
    X: known.map((i) => schema.encode(X[i])),
    y: known.map((i) => (signs ? 2 * targets[i] - 1 : targets[i])),
  };
}
