/** What an ε means for a person, as the statements of fedsel say it. */

import { decimalOf } from "./client/exact/decimals.js";

const NEARLY_ALL = 20;

/** How certain an even guess can become: e^ε/(1 + e^ε), with as many decimals as it takes not to be
 * 100 %. @param {number} epsilon */
export function inPercent(epsilon) {
  if (epsilon > NEARLY_ALL) return "practically 100\u00a0%";
  const against = Math.exp(-epsilon);
  const doubt = (100 * against) / (1 + against);
  const decimals = doubt > 10 ? 0 : Math.max(1, Math.ceil(-Math.log10(doubt)));
  return `${(100 - doubt).toFixed(decimals)}\u00a0%`;
}

/** A fraction as a decimal, with the fraction itself where the decimal is not all of it.
 * @param {import("./client/exact/fraction.js").Fraction} amount */
export function exactly(amount) {
  const decimal = String(Number(amount.toNumber().toPrecision(6)));
  return isDecimal(amount) ? decimalOf(amount) : `${decimal} (${amount})`;
}

/** What to write into a field: a decimal if that is exact, else the fraction.
 * @param {import("./client/exact/fraction.js").Fraction} amount */
export function written(amount) {
  return isDecimal(amount) ? decimalOf(amount) : String(amount);
}

/** @param {import("./client/exact/fraction.js").Fraction} amount */
function isDecimal({ denominator }) {
  let rest = denominator;
  for (const prime of [2n, 5n]) while (rest % prime === 0n) rest /= prime;
  return rest === 1n && denominator <= 10n ** 9n;
}
