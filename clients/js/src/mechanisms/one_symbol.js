/** One budget, one symbol: the laws of J (also RJ, RC and FJ) and UJ. */

import { WEIGHT_BUDGET, expLower } from "../exact/exponential.js";
import { Fraction } from "../exact/fraction.js";
import { bestTop } from "./best_top.js";
import { thresholdLaw } from "./selection.js";

/** Entries of a vector enter UJ as integers in 0 … UNIT. */
export const UNIT = 1 << 16;

/** The law of J over the ranks of the 2d signed dimensions.
 * @param {Fraction} epsilon @param {number} d @param {number} [k] the best one where not given */
export function signedLaw(epsilon, d, k) {
  if (d > 2 ** 31) throw new RangeError("too many signed dimensions");
  return thresholdLaw(epsilon, k ?? bestTop(epsilon, d), 2 * d);
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
