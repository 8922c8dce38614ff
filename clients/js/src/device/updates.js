/** What enters a device: the server's weights, and the client's update.
 *
 * @typedef {Float32Array | Float64Array} Weights
 * A client's update (its gradient): a function of the weights, or the vector itself.
 * @typedef {readonly number[] | Float32Array | Float64Array} Values
 * @typedef {((weights: Weights) => Values | Promise<Values>) | Values} Update
 */

import { Refused } from "./refusal.js";

const LARGEST = 3.4028234663852886e38;

/** A copy of the server's weights: d finite numbers within ±bound, or a refusal.
 * @param {unknown} weights an array, or its little-endian bytes @param {number} dim
 * @param {number} bound @returns {{ model: Weights, bytes: Uint8Array, kind: "<f4" | "<f8" }} */
export function checkedWeights(weights, dim, bound) {
  const bytes = littleEndian(weights, dim);
  if (bytes === null) throw new Refused("WEIGHTS");
  const kind = bytes.length === 4 * dim ? "<f4" : "<f8";
  const view = new DataView(bytes.buffer);
  const model = kind === "<f4" ? new Float32Array(dim) : new Float64Array(dim);
  // The bound in the precision of the weights: what is written as 0.1 is within 0.1.
  const limit = kind === "<f4" ? Math.fround(bound) : bound;
  let within = true;
  for (let i = 0; i < dim; i++) {
    model[i] = kind === "<f4" ? view.getFloat32(4 * i, true) : view.getFloat64(8 * i, true);
    within = Number.isFinite(model[i]) && Math.abs(model[i]) <= limit && within;
  }
  if (!within) throw new Refused("WEIGHTS");
  return { model, bytes, kind };
}

/** @param {unknown} weights @param {number} dim */
function littleEndian(weights, dim) {
  if (weights instanceof Float32Array || weights instanceof Float64Array) {
    if (weights.length !== dim) return null;
    const bytes = new Uint8Array(weights.byteLength);
    const view = new DataView(bytes.buffer);
    const narrow = weights instanceof Float32Array;
    for (let i = 0; i < dim; i++) {
      if (narrow) view.setFloat32(4 * i, weights[i], true);
      else view.setFloat64(8 * i, weights[i], true);
    }
    return bytes;
  }
  const raw = weights instanceof Uint8Array || weights instanceof DataView;
  if (!raw && !(weights instanceof ArrayBuffer)) return null;
  if (weights.byteLength !== 4 * dim && weights.byteLength !== 8 * dim) return null;
  const bytes = raw
    ? new Uint8Array(weights.buffer, weights.byteOffset, weights.byteLength)
    : new Uint8Array(weights);
  return bytes.slice();
}

/** The update as d finite float32; zeros where there is none, because silence would tell.
 * @param {Update} update @param {Weights} weights a copy that the update may change
 * @param {number} dim */
export async function evaluated(update, weights, dim) {
  let numbers = null;
  try {
    numbers = vector(typeof update === "function" ? await update(weights) : update, dim);
  } catch {
    // No error and no detail: they may hold what the update was computed from.
  }
  if (numbers === null) {
    console.warn("fedsel: the update failed or is no vector of d real numbers: zeros were used");
  }
  return saturated(numbers ?? new Float64Array(dim), 1);
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
