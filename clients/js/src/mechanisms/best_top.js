/** The best k of a one-symbol report, the same on every machine: in floating point as long as that
 * can tell, and in 160 bits where it cannot.
 */

import { BigFloat, ONE } from "../exact/bigfloat.js";

/** @typedef {import("../exact/fraction.js").Fraction} Fraction */

/** k that aligns a report best with a vector of random direction: the alignment
 * (e^ε − 1)·U_k/(k(e^ε − 1) + 2d), with U_k the expected sum of the k largest of d half-normal
 * magnitudes, about 2d·φ(c) where c cuts off a share k/d of them. It has one maximum.
 * @param {Fraction} epsilon @param {number} d */
export function bestTop(epsilon, d) {
  let low = 1;
  let high = d;
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    if (rises(epsilon, middle, d)) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Whether k + 1 aligns better than k.
 * @param {Fraction} epsilon @param {number} k @param {number} d */
function rises(epsilon, k, d) {
  const growth = Math.expm1(Math.min(epsilon.toNumber(), 500));
  const [here, there] = [k, k + 1].map((n) => (growth * upperSum(n, d)) / (n * growth + 2 * d));
  // The share of a tail is known to 2^−53 of 1, so that U_k is off by some 2^−52·d/k.
  if (Math.abs(there - here) > (1e-13 + (1e-15 * d) / k) * here) return there > here;
  return risesExactly(epsilon, k, d);
}

/** U_k. @param {number} k @param {number} d */
function upperSum(k, d) {
  if (k >= d) return d * Math.sqrt(2 / Math.PI);
  const cut = inverseNormal(1 - k / (2 * d));
  return 2 * d * (Math.exp((cut * cut) / -2) / Math.sqrt(2 * Math.PI));
}

/** Whether k + 1 aligns better than k, in 160 bits.
 * @param {Fraction} epsilon @param {number} k @param {number} d */
export function risesExactly(epsilon, k, d) {
  const growth = BigFloat.ratio(epsilon.numerator, epsilon.denominator).exp().minus(ONE);
  const all = BigFloat.of(BigInt(2 * d));
  const [here, there] = [k, k + 1].map((n) => {
    const density = densityAbove(BigFloat.of(BigInt(n)).over(all));
    return { density, weight: growth.times(BigFloat.of(BigInt(n))).plus(all) };
  });
  return there.density.times(here.weight).compare(here.density.times(there.weight)) > 0;
}

const HALF = new BigFloat(1n, -1);
const SMALL = new BigFloat(1n, -140);
const MOST_STEPS = 100;

/** φ(c)·√(2π) at the c above which a normal number lies with this probability, at most ½.
 * @param {BigFloat} share */
function densityAbove(share) {
  let c = BigFloat.of(-inverseNormal(share.toNumber()));
  for (let number = 0; number < MOST_STEPS; number++) {
    const { density, tail } = normal(c);
    const step = tail.minus(share).over(density).times(ROOT);
    c = c.plus(step);
    if (step.abs().compare(SMALL) < 0) break;
  }
  return normal(c).density;
}

/** φ(c)·√(2π), and the probability of more than c: ½ − φ(c)·(c + c³/3 + c⁵/15 + …).
 * @param {BigFloat} c */
function normal(c) {
  const square = c.times(c);
  const density = square.times(HALF).negated().exp();
  let [term, total] = [c, c];
  for (let n = 3n; term.abs().compare(SMALL) > 0; n += 2n) {
    term = term.times(square).over(BigFloat.of(n));
    total = total.plus(term);
  }
  return { density, tail: HALF.minus(density.times(total).over(ROOT)) };
}

/** √(2π), from Machin's formula for π. */
const ROOT = (() => {
  const unit = 1n << 200n;
  const arctangent = (/** @type {bigint} */ n) => {
    let [power, total] = [unit / n, 0n];
    for (let i = 1n, sign = 1n; power; i += 2n, sign = -sign, power /= n * n)
      total += (sign * power) / i;
    return total;
  };
  return new BigFloat(8n * (4n * arctangent(5n) - arctangent(239n)), -200).sqrt();
})();

/** Three quotients of polynomials, constant first, from the centre of the distribution outwards. */
const CENTRE = [
  [
    3.387132872796366608, 133.14166789178437745, 1971.5909503065514427, 13731.693765509461125,
    45921.953931549871457, 67265.770927008700853, 33430.575583588128105, 2509.0809287301226727,
  ],
  [
    1.0, 42.313330701600911252, 687.1870074920579083, 5394.1960214247511077, 21213.794301586595867,
    39307.89580009271061, 28729.085735721942674, 5226.495278852854561,
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
  const r = Math.sqrt(-Math.log(q <= 0 ? p : 1 - p));
  const [[above, below], x] = r <= 5 ? [MIDDLE, r - 1.6] : [TAIL, r - 5];
  const magnitude = value(above, x) / value(below, x);
  return q < 0 ? -magnitude : magnitude;
}

/** A polynomial at x, the highest power first: one order of rounding.
 * @param {number[]} terms @param {number} x */
function value(terms, x) {
  return terms.reduceRight((sum, term) => sum * x + term);
}
