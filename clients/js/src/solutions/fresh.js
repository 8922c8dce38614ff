/** Fresh bases: every report takes public codewords of its own, so that no update bends the mean.
 *
 * @typedef {import("../exact/fraction.js").Fraction} Fraction
 */

import { expLower } from "../exact/exponential.js";
import { ONE } from "../exact/fraction.js";
import { PublicBits } from "../random/philox.js";
import { hadamard, widthFor } from "./transforms.js";

/** Below so many entries codewords are drawn one by one; from here on they are rotations. */
const SMALL = 64;
/** From the first width on two factors do where as many codewords are raised; above the last,
 * always. */
const WELL_MIXED = 256;
const MANY_RAISED = 16;
const MOST_MIXED = 2 ** 12;
const FEWEST_CODEWORDS = 64;
const MOST_CODEWORDS = 2 ** 22;
const MOST_BLOCKS = 64;
const FEW_CODEWORDS = 2 ** 13;
/** Bases times codewords: what the four bytes of a report can tell. */
const ALL_SLOTS = 2 ** 32;
/** The length with which totals count a codeword. */
const LENGTH = 2 ** 32;
/** The grid on which the best cap is looked for, and its end in deviations of a cosine. */
const CELLS = 1024;
const REACH = 8;
/** How many codewords are raised at least, as a real number: so many, or so many over d. */
const RAISED = 4;
const RAISED_OF_FEW = 32;

/** How many codewords a basis has for reports of ε, how many of them a report raises, and how many
 * factors H·D a block of them has.
 * @param {Fraction} epsilon @param {number} dim */
export function freshSizes(epsilon, dim) {
  const share = capShare(epsilon, dim);
  let codewords = Math.max(FEWEST_CODEWORDS, widthFor(dim));
  const many = Math.min(Math.max(MOST_BLOCKS * codewords, FEW_CODEWORDS), MOST_CODEWORDS);
  const most = dim < SMALL ? FEW_CODEWORDS : many;
  const least = Math.max(RAISED, RAISED_OF_FEW / dim);
  while (codewords < most && codewords * share < least) codewords *= 2;
  const raised = Math.max(1, Math.floor(codewords * share + 0.5));
  return { share, codewords, raised, factors: mixingsFor(dim, raised) };
}

/** How often a block of codewords is mixed; 0 where each is drawn by itself.
 * @param {number} dim @param {number} raised */
export function mixingsFor(dim, raised) {
  if (dim < SMALL) return 0;
  const width = widthFor(dim);
  return width > MOST_MIXED || (width >= WELL_MIXED && raised >= MANY_RAISED) ? 2 : 3;
}

/** Which share of directions in R^d, counted without sign, is worth raising for reports of ε: those
 * with |cos| ≥ γ to the update, at the γ with the largest moment/(2·total + (e^ε − 1)·mass). Sums,
 * products, quotients and square roots of doubles in a fixed order: every machine finds the same.
 * @param {Fraction} epsilon @param {number} dim */
function capShare(epsilon, dim) {
  if (dim === 1) return 1;
  const growth = expLower(epsilon).minus(ONE).toNumber();
  const end = Math.min(1, REACH / Math.sqrt(dim));
  const cosines = new Float64Array(CELLS);
  const cells = new Float64Array(CELLS);
  let total = 0;
  for (let i = 0; i < CELLS; i++) {
    const v = (i + 0.5) / CELLS;
    cosines[i] = (1 - v * v) * end;
    cells[i] = density(cosines[i], dim) * v;
    total += cells[i];
  }
  let [mass, moment, best, share] = [0, 0, 0, 0];
  for (let i = 0; i < CELLS; i++) {
    mass += cells[i];
    moment += cells[i] * cosines[i];
    const worth = moment / (2 * total + growth * mass);
    if (worth > best) [best, share] = [worth, mass / total];
  }
  return share;
}

/** (1 − t²)^((d−3)/2), by squaring and one square root. @param {number} t @param {number} dim */
function density(t, dim) {
  let base = 1 - t * t;
  const root = Math.sqrt(base);
  if (dim === 2) return 1 / root;
  let power = 1;
  for (let n = Math.floor((dim - 3) / 2); n > 0; n = Math.floor(n / 2)) {
    if (n % 2 === 1) power *= base;
    base *= base;
  }
  return dim % 2 === 0 ? power * root : power;
}

/** As many bases as a report can tell, each of so many codewords.
 * @param {number} dim @param {number} codewords a power of two @param {number} factors
 * @param {bigint} seed
 * @returns {import("./transforms.js").Transform} */
export function fresh(dim, codewords, factors, seed) {
  if (codewords > MOST_CODEWORDS) throw new RangeError("too many codewords");
  return {
    size: codewords,
    bases: ALL_SLOTS / codewords,
    entries: 0,
    scores(vector, round, basis) {
      const scores = new Float32Array(codewords);
      const state = stateOf(seed, round, basis);
      if (factors === 0) scoreDrawn(vector, state, scores);
      else scoreRotated(vector, state, factors, scores);
      return scores;
    },
    value() {
      throw new RangeError("fresh directions are reported by their sign alone");
    },
  };
}

/** Where the words of a basis begin. @param {bigint} seed @param {number} round
 * @param {number} basis */
function stateOf(seed, round, basis) {
  const bits = new PublicBits(seed, `bases of round ${round}`);
  bits.next();
  return mixed(mixed(basis ^ bits.low) ^ bits.high);
}

/** A mixing of 32 bits, one to one. @param {number} x */
function mixed(x) {
  x = Math.imul(x ^ (x >>> 16), 0x21f0aaad);
  x = Math.imul(x ^ (x >>> 15), 0xd35a2d97);
  return x ^ (x >>> 15);
}

/** 32 bits of the basis that begins with a state. @param {number} state @param {number} place */
function wordAt(state, place) {
  return mixed(state + Math.imul(place, 0x9e3779b9));
}

/** d ≥ 64. Block after block: pad with zeros, then signs and transform, once for each factor.
 * @param {Float32Array} vector @param {number} state @param {number} factors
 * @param {Float32Array} scores */
function scoreRotated(vector, state, factors, scores) {
  const width = widthFor(vector.length);
  let place = 0;
  for (let first = 0; first < scores.length; first += width) {
    let x = /** @type {Float32Array} */ (new Float32Array(width));
    x.set(vector);
    for (let factor = 0; factor < factors; factor++) {
      for (let i = 0; i < width; place++) {
        const word = wordAt(state, place);
        for (let bit = 0; bit < 32; bit++, i++) x[i] *= 1 - 2 * ((word >>> bit) & 1);
      }
      x = hadamard(x);
    }
    scores.set(x, first);
  }
}

/** d < 64. Codeword after codeword: its inner product, times the factor that gives it its length.
 *
 * An entry is twice the sum of 48 random bits, less 24, with 16 bits behind the point.
 * @param {Float32Array} vector @param {number} state @param {Float32Array} scores */
function scoreDrawn(vector, state, scores) {
  const { fround } = Math;
  let place = 0;
  for (let slot = 0; slot < scores.length; slot++) {
    let sum = 0;
    let square = 0;
    for (let i = 0; i < vector.length; i++) {
      const coarse = wordAt(state, place++);
      const fine = wordAt(state, place++);
      const set = bitsSet(coarse) + bitsSet(fine >>> 16);
      const entry = (set - 24) * 2 ** 17 + 2 * (fine & 0xffff) - 0xffff;
      square += entry * entry;
      sum = fround(sum + fround(entry * vector[i]));
    }
    scores[slot] = sum * fround(Math.floor(LENGTH / Math.sqrt(square) + 0.5));
  }
}

/** How many of 32 bits are set. @param {number} x */
function bitsSet(x) {
  x -= (x >>> 1) & 0x55555555;
  x = (x & 0x33333333) + ((x >>> 2) & 0x33333333);
  return Math.imul((x + (x >>> 4)) & 0x0f0f0f0f, 0x01010101) >>> 24;
}
