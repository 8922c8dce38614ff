/** What enters a device: the server's weights, and the client's update.
 *
 * @typedef {Float32Array | Float64Array} Weights
 * A client's update (its gradient), or its answer to a question: a function of the weights, or that itself.
 * @typedef {readonly number[] | Float32Array | Float64Array | number | bigint} Values
 * @typedef {((weights: Weights) => Values | Promise<Values>) | Values} Update
 */

import { Refused } from "./refusal.js";

const LARGEST = 3.4028234663852886e38;

/** Entries of the weights that come with a question, at most. */
const MOST_MEASURED = 2 ** 24;

/** A copy of the server's weights: d finite numbers within ±bound, or a refusal.
 * @param {unknown} weights an array, or its little-endian bytes @param {number | null} dim null: any
 *   number of them, and bytes are those of doubles
 * @param {number} bound @returns {{ model: Weights, bytes: Uint8Array, kind: "<f4" | "<f8" }} */
export function checkedWeights(weights, dim, bound) {
  const [bytes, kind] = littleEndian(weights, dim);
  if (bytes === null) throw new Refused("WEIGHTS");
  const count = bytes.length / (kind === "<f4" ? 4 : 8);
  const view = new DataView(bytes.buffer);
  const model = kind === "<f4" ? new Float32Array(count) : new Float64Array(count);
  // The bound in the precision of the weights: what is written as 0.1 is within 0.1.
  const limit = kind === "<f4" ? Math.fround(bound) : bound;
  let within = true;
  for (let i = 0; i < count; i++) {
    model[i] = kind === "<f4" ? view.getFloat32(4 * i, true) : view.getFloat64(8 * i, true);
    within = Number.isFinite(model[i]) && Math.abs(model[i]) <= limit && within;
  }
  if (!within) throw new Refused("WEIGHTS");
  return { model, bytes, kind };
}

/** A copy of the bytes, and what they are; null for anything else.
 * @param {unknown} weights @param {number | null} dim
 * @returns {[Uint8Array | null, "<f4" | "<f8"]} */
function littleEndian(weights, dim) {
  if (weights instanceof Float32Array || weights instanceof Float64Array) {
    const narrow = weights instanceof Float32Array;
    const fits = dim === null ? weights.length <= MOST_MEASURED : weights.length === dim;
    if (!fits) return [null, "<f8"];
    const bytes = new Uint8Array(weights.byteLength);
    const view = new DataView(bytes.buffer);
    for (let i = 0; i < weights.length; i++) {
      if (narrow) view.setFloat32(4 * i, weights[i], true);
      else view.setFloat64(8 * i, weights[i], true);
    }
    return [bytes, narrow ? "<f4" : "<f8"];
  }
  const raw = weights instanceof Uint8Array || weights instanceof DataView;
  if (!raw && !(weights instanceof ArrayBuffer)) return [null, "<f8"];
  const size = weights.byteLength;
  const narrow = dim !== null && size === 4 * dim;
  const wide = dim === null ? size % 8 === 0 && size <= 8 * MOST_MEASURED : size === 8 * dim;
  if (!narrow && !wide) return [null, "<f8"];
  const bytes = raw
    ? new Uint8Array(weights.buffer, weights.byteOffset, weights.byteLength)
    : new Uint8Array(weights);
  return [bytes.slice(), narrow ? "<f4" : "<f8"];
}

/** The update as d finite float32; zeros where there is none, because silence would tell. The answer to a
 * question is an integer, of which this is the unit vector.
 * @param {Update} update @param {Weights} weights a copy that the update may change
 * @param {number} dim @param {boolean} [answers] */
export async function evaluated(update, weights, dim, answers = false) {
  let numbers = null;
  try {
    const value = typeof update === "function" ? await update(weights) : update;
    const isAnswer = answers && (Number.isInteger(value) || typeof value === "bigint");
    numbers = isAnswer ? unit(Number(value), dim) : vector(value, dim);
  } catch {
    // No error and no detail: they may hold what the update was computed from.
  }
  if (numbers === null) {
    console.warn("fedsel: the update failed or is no vector of d real numbers: zeros were used");
  }
  return saturated(numbers ?? new Float64Array(dim), 1);
}

/** @param {number} answer @param {number} dim */
function unit(answer, dim) {
  return Float64Array.from({ length: dim }, (_, i) => Number(i === answer));
}

/** @param {unknown} value @param {number} dim */
function vector(value, dim) {
  const listed =
    Array.isArray(value) && value.every((x) => typeof x === "number" || typeof x === "boolean");
  const typed = ArrayBuffer.isView(value) && !(value instanceof DataView);
  if (!listed && !typed) return null;
  const entries = /** @type {ArrayLike<unknown>} */ (/** @type {unknown} */ (value));
  if (entries.length !== dim) return null;
  return Float64Array.from(entries, Number);
}

/** Finite float32 of numbers times a factor: NaN becomes 0, what is too large the largest.
 * @param {Float64Array | Float32Array} values @param {number} factor */
export function saturated(values, factor) {
  const finite = new Float32Array(values.length);
  for (let i = 0; i < values.length; i++) {
    const scaled = values[i] * factor;
    finite[i] = scaled === scaled ? Math.max(-LARGEST, Math.min(LARGEST, scaled)) : 0;
  }
  return finite;
}
