/** One budget, one symbol: the laws of J (also RJ and RC) and UJ. */

import { WEIGHT_BUDGET, expLower } from "../exact/exponential.js";
import { exp, expm1, log } from "../exact/floats.js";
import { Fraction } from "../exact/fraction.js";
import { thresholdLaw } from "./selection.js";

/** Entries of a vector enter UJ as integers in 0 … UNIT. */
export const UNIT = 1 << 16;

/** k that aligns a report best with a vector of random direction: the alignment
 * (e^ε − 1)·U_k/(k(e^ε − 1) + 2d) has one maximum. @param {Fraction} epsilon @param {number} d */
export function bestTop(epsilon, d) {
  const growth = expm1(Math.min(epsilon.toNumber(), 500));
  const alignment = (/** @type {number} */ k) => (growth * upperSum(k, d)) / (k * growth + 2 * d);
  let low = 1;
  let high = d;
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    if (alignment(middle) < alignment(middle + 1)) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** U_k: the expected sum of the k largest of d half-normal magnitudes.
 * @param {number} k @param {number} d */
function upperSum(k, d) {
  if (k >= d) return d * Math.sqrt(2 / Math.PI);
  const cut = inverseNormal(1 - k / (2 * d));
  return 2 * d * (exp((cut * cut) / -2) / Math.sqrt(2 * Math.PI));
}

/** The law of J over the ranks of the 2d signed dimensions. @param {Fraction} epsilon @param {number} d */
export function signedLaw(epsilon, d) {
  if (d > 2 ** 31) throw new RangeError("too many signed dimensions");
  return thresholdLaw(epsilon, bestTop(epsilon, d), 2 * d);
}

/** (L, H) of UJ: the weight of an atom is UNIT·L plus (H − L) times its entry.
 * @param {Fraction} epsilon @param {number} k @param {number} d */
export function jointWeights(epsilon, k, d) {
  const growth = expLower(epsilon);
  const [top, all, unit] = [BigInt(k), BigInt(2 * d), BigInt(UNIT)];
  const whole = growth.times(top).plus(new Fraction(all)).times(unit);
  const room = new Fraction(WEIGHT_BUDGET).over(whole).floor();
  const low = room > 1n ? room : 1n;
  const wanted = growth.times(low).floor();
  const most = (WEIGHT_BUDGET / unit - all * low) / top;
  return { low, high: wanted < most ? wanted : most };
}

/** Three quotients of polynomials, constant first, from the centre of the distribution outwards. */
const CENTRE = [
  [
    3.387132872796366608, 133.14166789178437745, 1971.5909503065514427, 13731.693765509461125,
    45921.953931549871457, 67265.770927008700853, 33430.575583588128105, 2509.0809287301226727,
  ],
  [
    1.0, 42.313330701600911252, 687.1870074920579083, 5394.1960214247511077,
    21213.794301586595867, 39307.89580009271061, 28729.085735721942674, 5226.495278852854561,
  ],
];
const MIDDLE = [
  [
    1.42343711074968357734, 4.6303378461565452959, 5.7694972214606914055, 3.64784832476320460504,
    1.27045825245236838258, 0.24178072517745061177, 0.0227238449892691845833,
    7.7454501427834140764e-4,
  ],
  [
    1.0, 2.05319162663775882187, 1.6763848301838038494, 0.68976733498510000455,
    0.14810397642748007459, 0.0151986665636164571966, 5.475938084995344946e-4,
    1.05075007164441684324e-9,
  ],
];
const TAIL = [
  [
    6.6579046435011037772, 5.4637849111641143699, 1.7848265399172913358, 0.29656057182850489123,
    0.026532189526576123093, 0.0012426609473880784386, 2.71155556874348757815e-5,
    2.01033439929228813265e-7,
  ],
  [
    1.0, 0.59983220655588793769, 0.13692988092273580531, 0.0148753612908506148525,
    7.868691311456132591e-4, 1.8463183175100546818e-5, 1.4215117583164458887e-7,
    2.04426310338993978564e-15,
  ],
];

/** The quantile of the normal distribution at p in (0, 1), by Wichura's AS 241.
 * @param {number} p */
function inverseNormal(p) {
  const q = p - 0.5;
  if (Math.abs(q) <= 0.425) {
    const r = 0.180625 - q * q;
    return (value(CENTRE[0], r) * q) / value(CENTRE[1], r);
  }
  const r = Math.sqrt(-log(q <= 0 ? p : 1 - p));
  const [[above, below], x] = r <= 5 ? [MIDDLE, r - 1.6] : [TAIL, r - 5];
  const magnitude = value(above, x) / value(below, x);
  return q < 0 ? -magnitude : magnitude;
}

/** A polynomial at x, the highest power first: one order of rounding.
 * @param {number[]} terms @param {number} x */
function value(terms, x) {
  return terms.reduceRight((sum, term) => sum * x + term);
}
