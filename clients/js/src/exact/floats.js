/** Elementary functions of floats, rounded correctly: the same on every machine. */

import { BigFloat, ONE } from "./bigfloat.js";

/** @param {number} x at most 700 */
export function exp(x) {
  if (x < -800) return 0;
  return BigFloat.of(x).exp().toNumber();
}

/** e^x − 1, precise near 0. @param {number} x at most 700 */
export function expm1(x) {
  if (x === 0) return x;
  if (x < -800) return -1;
  return BigFloat.of(x).exp().minus(ONE).toNumber();
}

/** The logarithm of a float or an exact fraction > 0.
 * @param {number | import("./fraction.js").Fraction} x */
export function log(x) {
  if (typeof x === "number") return BigFloat.of(x).ln().toNumber();
  return BigFloat.of(x.numerator).over(BigFloat.of(x.denominator)).ln().toNumber();
}
