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

/** What is spent after a further report. @param {Fraction} spent @param {Fraction} charge */
export function added(spent, charge) {
  const fits = (GRID * charge.denominator) % spent.denominator === 0n;
  return (fits ? spent : roundedUp(spent)).plus(charge);
}

/** @param {Fraction} amount */
function roundedUp(amount) {
  return new Fraction(ceilDivide(amount.numerator * GRID, amount.denominator), GRID);
}

/** What reports of these charges have spent. @param {Iterable<Fraction>} charges */
export function total(charges) {
  let spent = ZERO;
  for (const charge of charges) spent = added(spent, charge);
  return spent;
}
