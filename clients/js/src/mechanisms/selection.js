/** Private choice of a dimension: the laws of EXP, PE and PS. */

import { WEIGHT_BUDGET, expLower } from "../exact/exponential.js";
import { Fraction } from "../exact/fraction.js";
import { ceilDivide, roundHalfEven } from "../exact/integers.js";
import { bottomProbability, calibratedEpsilon, trueEpsilon } from "./encoding.js";
import { RankLaw } from "./laws.js";

/** k: so many dimensions, or a share of them in (0, 1].
 * @typedef {{ readonly count: number } | { readonly share: number }} Top */

/** Whether k is a count, by its own fields. @param {Top} k
 * @returns {k is { readonly count: number }} */
export function isCount(k) {
  return Object.hasOwn(k, "count");
}

/** k as a count: a share of d is rounded down, but never below 1.
 * @param {Top} k @param {number} d */
export function countTop(k, d) {
  if (isCount(k)) {
    if (k.count > d) throw new RangeError("k is more than d");
    return k.count;
  }
  // The decimal that was written, not its binary neighbour: 0.29 · 100 is 29.
  return Math.max(1, Number(Fraction.decimal(k.share).times(BigInt(d)).floor()));
}

/** Weight H for each of the top k ranks, L for the others, H/L ≤ e^ε, and P[⊥] = bottom.
 * @param {Fraction} epsilon @param {number} k @param {number} d @param {number} [bottom] */
export function thresholdLaw(epsilon, k, d, bottom = 0) {
  const growth = expLower(epsilon);
  const top = BigInt(k);
  const others = BigInt(d - k);
  const room = new Fraction(WEIGHT_BUDGET).over(growth.times(top).plus(new Fraction(others)));
  const low = larger(1n, room.floor());
  // Where e^ε does not fit into the budget the ratio stays below it: less loss than claimed.
  const high = smaller(growth.times(low).floor(), (WEIGHT_BUDGET - others * low) / top);
  const total = k < d ? high * top + low * others : low * top;
  const nothing = BigInt(roundHalfEven((Number(total) * bottom) / (1 - bottom)));
  return k < d ? new RankLaw([high, low], [k, d - k], nothing) : new RankLaw([low], [d], nothing);
}

/** PS: the top k with weight e^ε. @param {Fraction} epsilon @param {Top} k @param {number} d */
export function perturbedSampling(epsilon, k, d) {
  return thresholdLaw(epsilon, countTop(k, d), d);
}

/** PE, calibrated so that its true loss is ε.
 * @param {Fraction} epsilon @param {Top} k @param {number} d */
export function perturbedEncoding(epsilon, k, d) {
  const top = countTop(k, d);
  const flip = calibratedEpsilon(epsilon.toNumber(), top, d);
  return thresholdLaw(epsilon, top, d, bottomProbability(flip, top, d));
}

/** PE as the paper prints it: its true loss exceeds ε.
 * @param {Fraction} epsilon @param {Top} k @param {number} d */
export function publishedPerturbedEncoding(epsilon, k, d) {
  const top = countTop(k, d);
  const flip = epsilon.toNumber();
  const loss = Fraction.exactly(trueEpsilon(flip, top, d));
  return thresholdLaw(loss, top, d, bottomProbability(flip, top, d));
}

const WORD = 63n;

/** EXP: rank s from the top with probability ∝ exp(−ε s/(d−1)), never below max/e^ε.
 *
 * exp(−ε s/(d−1)) is the product of two small tables, s = a·block + b, in 63-bit integers.
 * @param {Fraction} epsilon @param {Top} _ @param {number} d */
export function exponential(epsilon, _, d) {
  if (d === 1 || epsilon.numerator === 0n) return new RankLaw([1n], [d]);
  const maximum = WEIGHT_BUDGET / BigInt(d);
  const growth = expLower(epsilon);
  const minimum = ceilDivide(maximum * growth.denominator, growth.numerator);
  const block = integerRoot(d) + 1;
  const decay = epsilon.over(BigInt(d - 1));
  const power = (/** @type {number} */ s) =>
    new Fraction(1n << WORD).over(expLower(decay.times(BigInt(s)))).floor();
  const fine = Array.from({ length: block }, (_unused, s) => power(s));
  const weights = new BigInt64Array(d);
  let least = maximum;
  for (let start = 0; start < d; start += block) {
    const row = power(start);
    for (let s = start; s < Math.min(start + block, d); s++) {
      // The high words of two products of 64 bits.
      const product = (row * fine[s - start]) >> 64n;
      const weight = ((product << 1n) * (2n * maximum)) >> 64n;
      least = smaller(least, larger(minimum, smaller(weight, maximum)));
      weights[s] = least;
    }
  }
  return new RankLaw(weights);
}

/** @param {number} d */
function integerRoot(d) {
  let root = Math.floor(Math.sqrt(d));
  while (root * root > d) root -= 1;
  while ((root + 1) * (root + 1) <= d) root += 1;
  return root;
}

/** @param {bigint} a @param {bigint} b */
function larger(a, b) {
  return a > b ? a : b;
}

/** @param {bigint} a @param {bigint} b */
function smaller(a, b) {
  return a < b ? a : b;
}
