/** Integers of any length. */

/** @param {bigint} a @param {bigint} b */
export function gcd(a, b) {
  a = a < 0n ? -a : a;
  b = b < 0n ? -b : b;
  while (b) [a, b] = [b, a % b];
  return a;
}

/** The next integer at or below a/b, for b > 0. @param {bigint} a @param {bigint} b */
export function floorDivide(a, b) {
  const quotient = a / b;
  return a < 0n && quotient * b !== a ? quotient - 1n : quotient;
}

/** The next integer at or above a/b, for b > 0. @param {bigint} a @param {bigint} b */
export function ceilDivide(a, b) {
  return -floorDivide(-a, b);
}

/** How many bits a number ≥ 0 has. @param {bigint} x */
export function bitLength(x) {
  if (x === 0n) return 0;
  const digits = x.toString(16);
  return 4 * (digits.length - 1) + (32 - Math.clz32(parseInt(digits[0], 16)));
}

/** The integer nearest to a finite float, the even one of two. @param {number} x */
export function roundHalfEven(x) {
  const low = Math.floor(x);
  const rest = x - low;
  if (rest !== 0.5) return rest < 0.5 ? low : low + 1;
  return low % 2 === 0 ? low : low + 1;
}
