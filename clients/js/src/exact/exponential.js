/** Rational bounds of e^x, and the logarithm that a charge is. */

import { BigFloat } from "./bigfloat.js";
import { Fraction, ONE, ZERO } from "./fraction.js";
import { ceilDivide } from "./integers.js";

/** Integer laws are scaled so that their weights sum to at most this. */
export const WEIGHT_BUDGET = 1n << 59n;

/** A lower bound of e^x for x ≥ 0: Taylor terms, each rounded down to 2^−bits.
 * @param {Fraction} x @param {bigint} [bits] */
export function expLower(x, bits = 128n) {
  const { numerator, denominator } = x;
  let term = 1n << bits;
  let total = term;
  for (let i = 1n; term; i += 1n) {
    term = (term * numerator) / (denominator * i);
    total += term;
  }
  return new Fraction(total, 1n << bits);
}

/** An upper bound of e^x for x ≥ 0: Taylor terms rounded up, plus a bound of the tail.
 * @param {Fraction} x @param {bigint} [bits] */
export function expUpper(x, bits = 128n) {
  const { numerator, denominator } = x;
  if (numerator === 0n) return ONE;
  let term = 1n << bits;
  let total = term;
  // From i > 2x on each term is at most half of the one before, so the tail is at most the last.
  for (let i = 1n; term > 1n || (i - 1n) * denominator <= 2n * numerator; i += 1n) {
    term = ceilDivide(term * numerator, denominator * i);
    total += term;
  }
  return new Fraction(total + term, 1n << bits);
}

/** Whether ratio > e^ε, exactly, for ε ≥ 0: doubling the precision always ends.
 * @param {Fraction} ratio @param {Fraction} epsilon */
export function exceedsExp(ratio, epsilon) {
  if (epsilon.numerator === 0n) return ratio.compare(ONE) > 0;
  for (let bits = 128n; ; bits *= 2n) {
    if (ratio.compare(expLower(epsilon, bits)) <= 0) return false;
    if (ratio.compare(expUpper(epsilon, bits)) > 0) return true;
  }
}

const STEPS = 1n << 36n;

/** The smallest multiple of 2^−36 that is proved to be ≥ ln(ratio), for ratio ≥ 1: a guess in
 * floating point is corrected by exact comparisons. @param {Fraction} ratio */
export function logUpper(ratio) {
  if (ratio.compare(ONE) <= 0) return ZERO;
  const guess = BigFloat.ratio(ratio.numerator, ratio.denominator).ln().toNumber();
  let steps = BigInt(Math.floor(guess * Number(STEPS)));
  while (exceedsExp(ratio, new Fraction(steps, STEPS))) steps += 1n;
  while (!exceedsExp(ratio, new Fraction(steps - 1n, STEPS))) steps -= 1n;
  return new Fraction(steps, STEPS);
}

const HALF = new Fraction(1n, 2n);

/** The integer nearest to count·e^(−x), for x ≥ 0: decided exactly, as e^−x is irrational.
 * @param {bigint} count @param {Fraction} x */
export function nearestDecay(count, x) {
  if (x.numerator === 0n) return count;
  const whole = new Fraction(count);
  for (let bits = 128n; ; bits *= 2n) {
    const least = whole.over(expUpper(x, bits)).plus(HALF).floor();
    if (least === whole.over(expLower(x, bits)).plus(HALF).floor()) return least;
  }
}
