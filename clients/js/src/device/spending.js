/** How the ε of reports is added up: never less than was spent, in a number of bounded size.
 *
 * The sum is rounded up to the multiples of 1/GRID before a charge is added whose denominator it
 * does not fit: s + c where the denominator of s divides GRID·den(c), else ⌈s⌉ + c.
 */

import { Fraction, ZERO } from "../exact/fraction.js";
import { ceilDivide, gcd } from "../exact/integers.js";

const GRID = [...Array(100).keys()]
  .map((n) => BigInt(n + 1))
  .concat(1n << 40n, 10n ** 17n)
  .reduce((all, n) => (all / gcd(all, n)) * n);

/** What is spent after further reports of one price. @param {Fraction} spent
 * @param {Fraction} charge @param {bigint} [reports] */
export function added(spent, charge, reports = 1n) {
  const fits = (GRID * charge.denominator) % spent.denominator === 0n;
  return (fits ? spent : roundedUp(spent)).plus(charge.times(reports));
}

/** @param {Fraction} amount */
function roundedUp(amount) {
  return new Fraction(ceilDivide(amount.numerator * GRID, amount.denominator), GRID);
}

/** What reports of these charges have spent, which are written as fractions.
 * @param {readonly string[]} charges */
export function total(charges) {
  let [spent, begin] = [ZERO, 0];
  // The sum fits a price once one of it was added: those in a row are added at once.
  for (const [i, charge] of charges.entries()) {
    if (charge === charges[i + 1]) continue;
    spent = added(spent, written(charge), BigInt(i + 1 - begin));
    begin = i + 1;
  }
  return spent;
}

/** Parse a fraction in the form that ledgers write. @param {unknown} text */
export function written(text) {
  const value = typeof text === "string" ? Fraction.parse(text) : null;
  if (value === null || String(value) !== text) throw new RangeError("not a fraction of a ledger");
  return value;
}
