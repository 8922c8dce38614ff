/** Fractions as decimals, for people. */

import { Fraction, ONE } from "./fraction.js";
import { ceilDivide } from "./integers.js";

const DIGITS = 4;
const LEAST_DECIMAL = new Fraction(1n, 1000n);
const RAISED = "⁰¹²³⁴⁵⁶⁷⁸⁹";

/** A fraction whose denominator divides a power of ten, in all its digits. @param {Fraction} amount */
export function decimalOf({ numerator, denominator }) {
  let digits = 0;
  while ((numerator * 10n ** BigInt(digits)) % denominator) digits += 1;
  const scaled = String((numerator * 10n ** BigInt(digits)) / denominator);
  const padded = scaled.padStart(digits + 1, "0");
  const whole = padded.slice(0, padded.length - digits);
  return digits ? `${whole}.${padded.slice(-digits)}` : whole;
}

/** An amount ≥ 0 with four digits: as it is where it is short, else rounded up.
 * @param {Fraction} amount */
export function upperBound(amount) {
  if (amount.numerator === 0n) return "0";
  let power = String(amount.numerator).length - String(amount.denominator).length;
  if (amount.compare(ten(power)) < 0) power -= 1; // its first digit stands for 10^power
  const step = ten(power - DIGITS + 1);
  const { numerator, denominator } = amount.over(step);
  const rounded = step.times(ceilDivide(numerator, denominator));
  if (rounded.compare(LEAST_DECIMAL) >= 0) return decimalOf(rounded);
  if (rounded.equals(ten(power + 1))) power += 1;
  const raised = String(-power).replace(/\d/g, (digit) => RAISED[Number(digit)]);
  const mantissa = rounded.over(ten(power));
  return mantissa.equals(ONE) ? `10⁻${raised}` : `${decimalOf(mantissa)}·10⁻${raised}`;
}

/** @param {number} power */
function ten(power) {
  const amount = 10n ** BigInt(Math.abs(power));
  return power < 0 ? new Fraction(1n, amount) : new Fraction(amount);
}
