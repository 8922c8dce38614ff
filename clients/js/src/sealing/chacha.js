/** ChaCha20-Poly1305 (RFC 8439), without further data: encryption alone, a device opens nothing. */

const CONSTANTS = [0x61707865, 0x3320646e, 0x79622d32, 0x6b206574];
const ROUNDS = [
  ...[0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15],
  ...[0, 5, 10, 15, 1, 6, 11, 12, 2, 7, 8, 13, 3, 4, 9, 14],
];

/** What is sealed, with its 16 bytes of authentication. @param {Uint8Array} key @param {Uint8Array} nonce
 * @param {Uint8Array} plain */
export function encrypted(key, nonce, plain) {
  const cipher = plain.slice();
  for (let at = 0; at < cipher.length; at += 64) {
    const stream = block(key, nonce, 1 + at / 64);
    for (let i = at; i < Math.min(at + 64, cipher.length); i++) cipher[i] ^= stream[i - at];
  }
  return Uint8Array.of(...cipher, ...authentication(block(key, nonce, 0), cipher));
}

/** @param {Uint8Array} key @param {Uint8Array} nonce @param {number} counter */
function block(key, nonce, counter) {
  const view = (/** @type {Uint8Array} */ b) => new DataView(b.buffer, b.byteOffset, b.length);
  const words = (/** @type {Uint8Array} */ b) =>
    Array.from({ length: b.length / 4 }, (_, i) => view(b).getUint32(4 * i, true));
  const begin = Int32Array.of(...CONSTANTS, ...words(key), counter, ...words(nonce));
  const x = begin.slice();
  const turn = (/** @type {number} */ i, /** @type {number} */ by) =>
    (x[i] = (x[i] << by) | (x[i] >>> (32 - by)));
  for (let round = 0; round < 10; round++) {
    for (let q = 0; q < ROUNDS.length; q += 4) {
      const [a, b, c, d] = ROUNDS.slice(q, q + 4);
      for (const [shift, then] of [
        [16, 12],
        [8, 7],
      ]) {
        x[a] += x[b];
        x[d] ^= x[a];
        turn(d, shift);
        x[c] += x[d];
        x[b] ^= x[c];
        turn(b, then);
      }
    }
  }
  const stream = new Uint8Array(64);
  begin.forEach((word, i) => view(stream).setInt32(4 * i, (word + x[i]) | 0, true));
  return stream;
}

/** Poly1305 of the cipher text, padded, and of the lengths. @param {Uint8Array} once
 * @param {Uint8Array} cipher */
function authentication(once, cipher) {
  const r = integer(once.subarray(0, 16)) & 0x0ffffffc0ffffffc0ffffffc0fffffffn;
  const s = integer(once.subarray(16, 32));
  const padded = new Uint8Array(16 * Math.ceil(cipher.length / 16) + 16);
  padded.set(cipher);
  new DataView(padded.buffer).setUint32(padded.length - 8, cipher.length, true);
  let sum = 0n;
  for (let at = 0; at < padded.length; at += 16) {
    const part = integer(padded.subarray(at, at + 16)) | (1n << 128n);
    sum = ((sum + part) * r) % ((1n << 130n) - 5n);
  }
  const tag = (sum + s) & ((1n << 128n) - 1n);
  return Uint8Array.from({ length: 16 }, (_, i) => Number((tag >> BigInt(8 * i)) & 255n));
}

/** @param {Uint8Array} littleEndian */
function integer(littleEndian) {
  return littleEndian.reduceRight((sum, byte) => (sum << 8n) | BigInt(byte), 0n);
}
