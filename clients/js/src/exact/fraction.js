/** Exact rational numbers: what an ε, a charge and a bound of e^ε are. */

import { bitLength, floorDivide, gcd } from "./integers.js";

const DECIMAL = /^([+-]?)(\d*)(?:\.(\d*))?(?:[eE]([+-]?\d{1,4}))?$/;
const RATIO = /^([+-]?\d+)\/(\d+)$/;

export class Fraction {
  /** In lowest terms, the denominator > 0.
   * @param {bigint} numerator @param {bigint} [denominator] */
  constructor(numerator, denominator = 1n) {
    if (denominator === 0n) throw new RangeError("a fraction has no denominator of zero");
    const common = gcd(numerator, denominator) * (denominator < 0n ? -1n : 1n);
    /** @readonly */
    this.numerator = numerator / common;
    /** @readonly */
    this.denominator = denominator / common;
    Object.freeze(this);
  }

  /** The decimal or ratio of a text, "0.25", "1e-3" or "1/4"; null where it is none.
   * @param {string} text
   * @returns {Fraction | null} */
  static parse(text) {
    const ratio = RATIO.exec(text);
    if (ratio) {
      const below = BigInt(ratio[2]);
      return below === 0n ? null : new Fraction(BigInt(ratio[1]), below);
    }
    const parts = DECIMAL.exec(text);
    if (!parts || !(parts[2] || parts[3])) return null;
    const digits = BigInt((parts[2] ?? "") + (parts[3] ?? ""));
    const exponent = Number(parts[4] ?? 0) - (parts[3]?.length ?? 0);
    const value = parts[1] === "-" ? -digits : digits;
    const power = 10n ** BigInt(Math.abs(exponent));
    return exponent < 0 ? new Fraction(value, power) : new Fraction(value * power);
  }

  /** The decimal that a float is written as: 0.1 is one tenth. @param {number} x */
  static decimal(x) {
    const fraction = Number.isFinite(x) ? Fraction.parse(String(x)) : null;
    if (fraction === null) throw new RangeError("not a finite number");
    return fraction;
  }

  /** The binary fraction that a finite float is. @param {number} x */
  static exactly(x) {
    if (!Number.isFinite(x)) throw new RangeError("not a finite number");
    let exponent = 0;
    // Scaling by powers of two is exact, also from and to the smallest floats.
    while (!Number.isInteger(x)) {
      x *= 2;
      exponent += 1;
    }
    return new Fraction(BigInt(x), 1n << BigInt(exponent));
  }

  /** @param {Fraction} other */
  plus(other) {
    return new Fraction(
      this.numerator * other.denominator + other.numerator * this.denominator,
      this.denominator * other.denominator,
    );
  }

  /** @param {Fraction} other */
  minus(other) {
    return new Fraction(
      this.numerator * other.denominator - other.numerator * this.denominator,
      this.denominator * other.denominator,
    );
  }

  /** @param {Fraction | bigint} other */
  times(other) {
    if (typeof other === "bigint") return new Fraction(this.numerator * other, this.denominator);
    return new Fraction(this.numerator * other.numerator, this.denominator * other.denominator);
  }

  /** @param {Fraction | bigint} other */
  over(other) {
    if (typeof other === "bigint") return new Fraction(this.numerator, this.denominator * other);
    return new Fraction(this.numerator * other.denominator, this.denominator * other.numerator);
  }

  /** @param {number} exponent an integer ≥ 0 */
  power(exponent) {
    return new Fraction(this.numerator ** BigInt(exponent), this.denominator ** BigInt(exponent));
  }

  /** −1, 0 or 1 as this is less than, equal to or more than the other. @param {Fraction} other */
  compare(other) {
    const difference = this.numerator * other.denominator - other.numerator * this.denominator;
    return difference < 0n ? -1 : difference > 0n ? 1 : 0;
  }

  /** @param {Fraction} other */
  equals(other) {
    return this.numerator === other.numerator && this.denominator === other.denominator;
  }

  floor() {
    return floorDivide(this.numerator, this.denominator);
  }

  /** The nearest float, the even one of two; infinite where it overflows. */
  toNumber() {
    const { numerator, denominator } = this;
    if (numerator === 0n) return 0;
    const magnitude = numerator < 0n ? -numerator : numerator;
    // 66 bits of the quotient, the last of which says whether anything follows: rounding once more
    // to 53 bits is then right, and subnormal numbers are far from every ε.
    const shift = 66 - (bitLength(magnitude) - bitLength(denominator));
    const scaled = shift >= 0 ? magnitude << BigInt(shift) : magnitude;
    const divisor = shift >= 0 ? denominator : denominator << BigInt(-shift);
    const quotient = scaled / divisor;
    const sticky = quotient * divisor === scaled ? quotient : quotient | 1n;
    const number = Number(sticky) * 2 ** -shift;
    return numerator < 0n ? -number : number;
  }

  /** "3/5", or "2" for a whole number. */
  toString() {
    const whole = this.denominator === 1n;
    return whole ? `${this.numerator}` : `${this.numerator}/${this.denominator}`;
  }
}

export const ZERO = new Fraction(0n);
export const ONE = new Fraction(1n);
