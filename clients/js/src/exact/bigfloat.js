/** Floating point of 160 bits, for laws that follow from logarithms and integrals.
 *
 * Exponentials of JavaScript engines and C libraries differ in their last bits. What a law depends
 * on is computed here with far more bits than a float has, and made a float last.
 */

import { bitLength } from "./integers.js";

const PRECISION = 160;
const GUARD = 256n;
const UNIT = 1n << GUARD;

/** ln 2 in units of 2^−256: 2·artanh(1/3). */
const LN_2 = 2n * artanh(UNIT / 3n);

export class BigFloat {
  /** mantissa·2^exponent, rounded to 160 bits. @param {bigint} mantissa @param {number} exponent */
  constructor(mantissa, exponent) {
    const magnitude = mantissa < 0n ? -mantissa : mantissa;
    const surplus = bitLength(magnitude) - PRECISION;
    if (surplus > 0) {
      const half = 1n << BigInt(surplus - 1);
      const rounded = (magnitude + half) >> BigInt(surplus);
      /** @readonly */
      this.mantissa = mantissa < 0n ? -rounded : rounded;
      /** @readonly */
      this.exponent = exponent + surplus;
    } else {
      this.mantissa = mantissa;
      this.exponent = mantissa === 0n ? 0 : exponent;
    }
  }

  /** @param {number | bigint} x a finite float, exactly, or an integer */
  static of(x) {
    if (typeof x === "bigint") return new BigFloat(x, 0);
    let exponent = 0;
    while (!Number.isInteger(x)) {
      x *= 2;
      exponent -= 1;
    }
    return new BigFloat(BigInt(x), exponent);
  }

  /** @param {bigint} numerator @param {bigint} denominator */
  static ratio(numerator, denominator) {
    return BigFloat.of(numerator).over(BigFloat.of(denominator));
  }

  /** @param {BigFloat} other */
  plus(other) {
    if (this.mantissa === 0n) return other;
    if (other.mantissa === 0n) return this;
    const [high, low] = this.exponent >= other.exponent ? [this, other] : [other, this];
    const shift = high.exponent - low.exponent;
    // What lies below all bits of the larger one cannot be seen in the sum.
    if (shift > 2 * PRECISION && bitLength(abs(low.mantissa)) < shift - PRECISION) return high;
    return new BigFloat((high.mantissa << BigInt(shift)) + low.mantissa, low.exponent);
  }

  negated() {
    return new BigFloat(-this.mantissa, this.exponent);
  }

  /** @param {BigFloat} other */
  minus(other) {
    return this.plus(other.negated());
  }

  /** @param {BigFloat} other */
  times(other) {
    return new BigFloat(this.mantissa * other.mantissa, this.exponent + other.exponent);
  }

  /** @param {BigFloat} other */
  over(other) {
    const shift = 2 * PRECISION + 2;
    const quotient = (this.mantissa << BigInt(shift)) / other.mantissa;
    return new BigFloat(quotient, this.exponent - shift - other.exponent);
  }

  /** @param {number} exponent an integer ≥ 0 */
  power(exponent) {
    let result = ONE;
    /** @type {BigFloat} */
    let square = this;
    for (let rest = exponent; rest > 0; rest = Math.floor(rest / 2)) {
      if (rest % 2) result = result.times(square);
      if (rest > 1) square = square.times(square);
    }
    return result;
  }

  sign() {
    return this.mantissa < 0n ? -1 : this.mantissa > 0n ? 1 : 0;
  }

  abs() {
    return this.mantissa < 0n ? this.negated() : this;
  }

  /** @param {BigFloat} other */
  compare(other) {
    return this.minus(other).sign();
  }

  /** e^x; what is too small for any float may be 0. */
  exp() {
    const fixed = this.fixed();
    const whole = fixed >= 0n ? fixed / LN_2 : (fixed - LN_2 + 1n) / LN_2;
    const rest = fixed - whole * LN_2;
    let term = UNIT;
    let total = UNIT;
    for (let i = 1n; term; i += 1n) {
      term = ((term * rest) >> GUARD) / i;
      total += term;
    }
    return new BigFloat(total, Number(whole) - Number(GUARD));
  }

  /** ln x for x > 0. */
  ln() {
    const bits = bitLength(this.mantissa);
    // x = scaled·2^whole with scaled in [1, 2), or below 1 where x is: near 1 nothing cancels.
    const whole = this.exponent + bits - 1 === -1 ? 0 : this.exponent + bits - 1;
    const shift = Number(GUARD) + this.exponent - whole;
    const scaled = shift >= 0 ? this.mantissa << BigInt(shift) : this.mantissa >> BigInt(-shift);
    const log = 2n * artanh(((scaled - UNIT) << GUARD) / (scaled + UNIT));
    return new BigFloat(log + BigInt(whole) * LN_2, -Number(GUARD));
  }

  /** √x for x ≥ 0. */
  sqrt() {
    const shift = 2 * PRECISION + (this.exponent % 2 === 0 ? 0 : 1);
    const square = this.mantissa << BigInt(shift);
    let root = 1n << BigInt(Math.ceil(bitLength(square) / 2));
    for (let next = (root + square / root) / 2n; next < root;) {
      root = next;
      next = (root + square / root) / 2n;
    }
    return new BigFloat(root, (this.exponent - shift) / 2);
  }

  /** In units of 2^−256. */
  fixed() {
    const shift = this.exponent + Number(GUARD);
    return shift >= 0 ? this.mantissa << BigInt(shift) : this.mantissa >> BigInt(-shift);
  }

  /** The nearest float. */
  toNumber() {
    // In two steps: 2^exponent itself may be beyond the floats where the product is not.
    const surplus = Math.max(0, bitLength(abs(this.mantissa)) - 66);
    const kept = this.mantissa >> BigInt(surplus);
    const sticky = kept << BigInt(surplus) === this.mantissa ? kept : kept | 1n;
    const exponent = this.exponent + surplus;
    const half = Math.trunc(exponent / 2);
    return Number(sticky) * 2 ** half * 2 ** (exponent - half);
  }
}

export const ZERO = BigFloat.of(0n);
export const ONE = BigFloat.of(1n);

/** artanh in units of 2^−256. @param {bigint} x */
function artanh(x) {
  const square = (x * x) >> GUARD;
  let power = x;
  let total = x;
  for (let i = 3n; ; i += 2n) {
    power = (power * square) >> GUARD;
    const term = power / i;
    if (term === 0n || term === -1n) return total;
    total += term;
  }
}

/** @param {bigint} x */
function abs(x) {
  return x < 0n ? -x : x;
}
