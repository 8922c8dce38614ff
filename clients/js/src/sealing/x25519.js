/** X25519 (RFC 7748). Its secrets are used once, for one report that is differentially private anyway:
 * the time that a product takes tells nothing of worth. */

const P = (1n << 255n) - 19n;
const BYTES = 32;
export const BASE = Uint8Array.of(9, ...new Array(BYTES - 1).fill(0));

/** The product of a scalar and a point; zeros for a point with which every product is zero.
 * @param {Uint8Array} scalar @param {Uint8Array} point */
export function x25519(scalar, point) {
  const clamped = scalar.slice();
  clamped[0] &= 248;
  clamped[31] = (clamped[31] & 127) | 64;
  const k = integer(clamped);
  const x1 = integer(point) & ((1n << 255n) - 1n);
  let [x2, z2, x3, z3] = [1n, 0n, x1, 1n];
  for (let bit = 254n; bit >= 0n; bit--) {
    const swap = (k >> bit) & 1n;
    if (swap) [x2, z2, x3, z3] = [x3, z3, x2, z2];
    const [a, b] = [x2 + z2, x2 - z2];
    const [aa, bb] = [(a * a) % P, (b * b) % P];
    const e = aa - bb;
    const [da, cb] = [(x3 - z3) * a, (x3 + z3) * b];
    x3 = (da + cb) ** 2n % P;
    z3 = (x1 * ((da - cb) ** 2n % P)) % P;
    x2 = (aa * bb) % P;
    z2 = (e * (aa + 121665n * e)) % P;
    if (swap) [x2, z2, x3, z3] = [x3, z3, x2, z2];
  }
  return bytes((((x2 * power(((z2 % P) + P) % P, P - 2n)) % P) + P) % P);
}

/** @param {bigint} base @param {bigint} exponent */
function power(base, exponent) {
  let result = 1n;
  for (let rest = exponent; rest; rest >>= 1n) {
    if (rest & 1n) result = (result * base) % P;
    base = (base * base) % P;
  }
  return result;
}

/** @param {Uint8Array} littleEndian */
function integer(littleEndian) {
  return littleEndian.reduceRight((sum, byte) => (sum << 8n) | BigInt(byte), 0n);
}

/** @param {bigint} number */
function bytes(number) {
  return Uint8Array.from({ length: BYTES }, (_, i) => Number((number >> BigInt(8 * i)) & 255n));
}
