/** Transforms of an update (d,) into scores (M,): inner products with public codewords.
 *
 * Scores may be wrong in their last bits: that costs accuracy at most, never privacy, because a
 * mechanism is private whatever its scores are.
 *
 * @typedef {Float32Array | Float64Array} Vector
 *
 * @typedef {object} Transform
 * @property {number} size M, how many codewords a mechanism chooses from
 * @property {number} bases how many sets of codewords there are in a round
 * @property {number} entries numbers of a public matrix that a device holds, 0 where there is none
 * @property {(vector: Float32Array, round: number, basis: number) => Float32Array} scores
 * @property {(vector: Vector, slot: number) => number} value one inner product, in double precision
 */

import { bestTop } from "../mechanisms/best_top.js";
import { fillNormals } from "../random/normals.js";
import { PublicBits } from "../random/philox.js";

/** An update is its own scores. @param {number} dim @returns {Transform} */
export function coordinates(dim) {
  return {
    size: dim,
    bases: 1,
    entries: 0,
    scores: (vector) => vector,
    value: (vector, slot) => vector[slot],
  };
}

const MOST_CODEWORDS = 2 ** 22;
const MOST_ROTATIONS = 64;
const FEW_CODEWORDS = 2 ** 13;
const FEWEST_RAISED = 1.9;
const FINELY = 16;

/** Public random signs, then a Walsh–Hadamard transform: bases of several rotations each.
 * @param {number} dim @param {bigint} seed @param {number} rotations @param {number} bases
 * @returns {Transform} */
export function rotated(dim, seed, rotations, bases) {
  const width = widthFor(dim);
  return {
    size: rotations * width,
    bases,
    entries: 0,
    scores(vector, round, basis) {
      const scores = new Float32Array(rotations * width);
      for (let rotation = 0; rotation < rotations; rotation++) {
        const number = basis * rotations + rotation;
        const signed = signedPadded(vector, width, seed, purpose(round, number));
        scores.set(hadamard(signed), rotation * width);
      }
      return scores;
    },
    value() {
      throw new RangeError("rotated directions are reported by their sign alone");
    },
  };
}

/** What the public bits of a rotation in a round are for.
 * @param {number} round @param {number} rotation */
function purpose(round, rotation) {
  return `signs of round ${round}` + (rotation ? `, rotation ${rotation}` : "");
}

/** The power of two at d or above. @param {number} dim */
export function widthFor(dim) {
  let width = 1;
  while (width < dim) width *= 2;
  return width;
}

/** How many rotations a codebook needs for reports of ε: doubled until the best k is near 2.
 * @param {import("../exact/fraction.js").Fraction} epsilon @param {number} dim */
export function rotationsFor(epsilon, dim) {
  const width = widthFor(dim);
  const few = Math.min(Math.floor(FEW_CODEWORDS / width), 2 ** Math.min(dim, 16));
  const most = Math.min(Math.max(MOST_ROTATIONS, few), Math.floor(MOST_CODEWORDS / width));
  let rotations = 1;
  const hasRoom = () => {
    const size = rotations * width;
    return bestTop(epsilon, FINELY * size) >= FINELY * Math.min(FEWEST_RAISED, size / 2);
  };
  while (rotations < most && !hasRoom()) rotations *= 2;
  return rotations;
}

/** A vector times public signs, padded with zeros: + where the top bit of a byte is set.
 * @param {Float32Array} vector @param {number} width @param {bigint} seed
 * @param {string} purpose */
function signedPadded(vector, width, seed, purpose) {
  const bits = new PublicBits(seed, purpose);
  const signed = new Float32Array(width);
  for (let i = 0; i < vector.length; i++) {
    if (i % 8 === 0) bits.next();
    const half = i % 8 < 4 ? bits.low : bits.high;
    const top = (half >>> (8 * (i % 4) + 7)) & 1;
    signed[i] = (2 * top - 1) * vector[i];
  }
  return signed;
}

/** The Walsh–Hadamard transform of a vector, a power of two long, not normalised. Every step takes
 * neighbours to the same place of two halves; each sum is rounded to 32 bits.
 * @param {Float32Array} x */
export function hadamard(x) {
  const half = x.length / 2;
  let from = x;
  let to = /** @type {Float32Array} */ (new Float32Array(x.length));
  for (let step = 1; step < x.length; step *= 2) {
    for (let i = 0; i < half; i++) {
      to[i] = from[2 * i] + from[2 * i + 1];
      to[half + i] = from[2 * i] - from[2 * i + 1];
    }
    [from, to] = [to, from];
  }
  return from;
}

const MOST_ENTRIES = 2 ** 28;

/** M independent directions from a public seed. @param {number} dim @param {number} words
 * @param {bigint} seed
 * @returns {Transform} */
export function randomDirections(dim, words, seed) {
  if (words * dim > MOST_ENTRIES) throw new RangeError("too many codewords");
  return matrix(dim, words, `directions ${seed}`, () => {
    const bits = new PublicBits(seed, "directions");
    return rowsOf(dim, words, bits, (row) => {
      let square = 0;
      for (const entry of row) square += entry * entry;
      return Math.sqrt(square);
    });
  });
}

/** A public Gaussian projection to so many dimensions. @param {number} dim @param {number} size
 * @param {bigint} seed
 * @returns {Transform} */
export function projection(dim, size, seed) {
  return matrix(dim, size, `projection ${seed}`, () => {
    return rowsOf(dim, size, new PublicBits(seed, "projection"), () => Math.sqrt(size));
  });
}

/** Rows of normal numbers, each over its own divisor, in float32.
 * @param {number} dim @param {number} rows @param {PublicBits} bits
 * @param {(row: Float64Array) => number} divisor */
function rowsOf(dim, rows, bits, divisor) {
  const all = new Float32Array(rows * dim);
  const row = new Float64Array(dim);
  for (let at = 0; at < all.length; at += dim) {
    fillNormals(bits, row);
    const below = divisor(row);
    for (let i = 0; i < dim; i++) all[at + i] = row[i] / below;
  }
  return all;
}

/** The last matrix that was built: a device needs one at a time.
 * @type {{ name: string, rows: Float32Array } | null} */
let built = null;

/** Codewords that are rows of a public matrix, which is built when it is first used.
 * @param {number} dim @param {number} size @param {string} name @param {() => Float32Array} build
 * @returns {Transform} */
function matrix(dim, size, name, build) {
  const full = `${name} ${size}×${dim}`;
  const rows = () => {
    if (built?.name !== full) built = { name: full, rows: build() };
    return built.rows;
  };
  const product = (/** @type {Vector} */ vector, /** @type {number} */ slot) => {
    const all = rows();
    let sum = 0;
    for (let i = 0; i < dim; i++) sum += all[slot * dim + i] * vector[i];
    return sum;
  };
  return {
    size,
    bases: 1,
    entries: size * dim,
    scores: (vector) => Float32Array.from({ length: size }, (_, slot) => product(vector, slot)),
    value: product,
  };
}
