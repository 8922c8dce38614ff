/** Exactly uniform integers: every random decision of a device is `below(n)`.
 *
 * They come from the platform's cryptographic source, which has no seed. It is taken once, when
 * this module is loaded.
 */

const WORD = 1n << 64n;
const LOW = WORD - 1n;

export class Entropy {
  #next;

  /** @param {() => bigint} next the next 64 random bits */
  constructor(next) {
    this.#next = next;
  }

  /** A uniform integer in 0 … n−1, by multiply and shift with rejection (Lemire 2019).
   * @param {bigint} n at most 2^64 */
  below(n) {
    for (;;) {
      const product = this.#next() * n;
      const low = product & LOW;
      // Only low < n can be surplus: the costly remainder is rarely taken.
      if (low >= n || low >= WORD % n) return product >> 64n;
    }
  }
}

const fill = globalThis.crypto.getRandomValues.bind(globalThis.crypto);
const drawn = new BigUint64Array(1);

/** What a device uses. */
export const SYSTEM = new Entropy(() => {
  fill(drawn);
  const word = drawn[0];
  drawn[0] = 0n;
  return word;
});

/** So many random bytes. @param {number} count */
export function randomBytes(count) {
  return fill(new Uint8Array(count));
}
