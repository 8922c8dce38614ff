/** SHA-256 (FIPS 180-4), at once: what the platform offers in pages is asynchronous, and only over
 * secure connections. */

const ROUNDS = 64;
const [CONSTANTS, INITIAL] = constants();

/** The digest of the parts, one after another. @param {...Uint8Array} parts */
export function sha256(...parts) {
  const length = parts.reduce((sum, part) => sum + part.length, 0);
  const padded = new Uint8Array(Math.ceil((length + 9) / 64) * 64);
  let at = 0;
  for (const part of parts) {
    padded.set(part, at);
    at += part.length;
  }
  padded[length] = 0x80;
  const view = new DataView(padded.buffer);
  view.setUint32(padded.length - 8, Math.floor(length / 2 ** 29));
  view.setUint32(padded.length - 4, (length << 3) >>> 0);
  const state = INITIAL.slice();
  const schedule = new Int32Array(ROUNDS);
  for (let block = 0; block < padded.length; block += 64) {
    for (let i = 0; i < 16; i++) schedule[i] = view.getInt32(block + 4 * i);
    compress(state, schedule);
  }
  const digest = new Uint8Array(32);
  const written = new DataView(digest.buffer);
  state.forEach((word, i) => written.setInt32(4 * i, word));
  return digest;
}

/** @param {Int32Array} state @param {Int32Array} w */
function compress(state, w) {
  for (let i = 16; i < ROUNDS; i++) {
    const x = w[i - 15];
    const y = w[i - 2];
    const low = ((x >>> 7) | (x << 25)) ^ ((x >>> 18) | (x << 14)) ^ (x >>> 3);
    const high = ((y >>> 17) | (y << 15)) ^ ((y >>> 19) | (y << 13)) ^ (y >>> 10);
    w[i] = (w[i - 16] + low + w[i - 7] + high) | 0;
  }
  let a = state[0];
  let b = state[1];
  let c = state[2];
  let d = state[3];
  let e = state[4];
  let f = state[5];
  let g = state[6];
  let h = state[7];
  for (let i = 0; i < ROUNDS; i++) {
    const upper = ((e >>> 6) | (e << 26)) ^ ((e >>> 11) | (e << 21)) ^ ((e >>> 25) | (e << 7));
    const first = (h + upper + ((e & f) ^ (~e & g)) + CONSTANTS[i] + w[i]) | 0;
    const lower = ((a >>> 2) | (a << 30)) ^ ((a >>> 13) | (a << 19)) ^ ((a >>> 22) | (a << 10));
    const second = (lower + ((a & b) ^ (a & c) ^ (b & c))) | 0;
    h = g;
    g = f;
    f = e;
    e = (d + first) | 0;
    d = c;
    c = b;
    b = a;
    a = (first + second) | 0;
  }
  state[0] += a;
  state[1] += b;
  state[2] += c;
  state[3] += d;
  state[4] += e;
  state[5] += f;
  state[6] += g;
  state[7] += h;
}

/** 32 bits of the fractions of the cube and square roots of the first primes. */
function constants() {
  /** @type {number[]} */
  const primes = [];
  for (let n = 2; primes.length < ROUNDS; n++) if (primes.every((p) => n % p)) primes.push(n);
  const bits = (/** @type {number} */ prime, /** @type {bigint} */ degree) => {
    // The integer root of prime·2^(32·degree), by bisection; its low 32 bits are the fraction.
    const target = BigInt(prime) << (32n * degree);
    let root = 0n;
    for (let bit = 1n << 42n; bit; bit >>= 1n) if ((root | bit) ** degree <= target) root |= bit;
    return Number(root & 0xffffffffn) | 0;
  };
  const cubes = Int32Array.from(primes, (prime) => bits(prime, 3n));
  return [cubes, Int32Array.from(primes.slice(0, 8), (prime) => bits(prime, 2n))];
}

const DIGITS = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, "0"));

/** @param {Uint8Array} bytes */
export function toHex(bytes) {
  let text = "";
  for (let i = 0; i < bytes.length; i++) text += DIGITS[bytes[i]];
  return text;
}

/** The bytes of hexadecimal digits; null where they are none. @param {unknown} text */
export function fromHex(text) {
  if (typeof text !== "string" || text.length % 2 || /[^0-9a-f]/.test(text)) return null;
  const bytes = new Uint8Array(text.length / 2);
  for (let i = 0; i < bytes.length; i++) bytes[i] = parseInt(text.slice(2 * i, 2 * i + 2), 16);
  return bytes;
}

/** A public key as it is written down, 64 digits; null for anything else. @param {unknown} text */
export function publicKeyOf(text) {
  const key = fromHex(text);
  return key?.length === 32 ? key : null;
}

/** Texts, in UTF-8, and bytes, one after another. @param {...(string | Uint8Array)} parts */
export function joined(...parts) {
  const all = parts.map((part) =>
    typeof part === "string" ? new TextEncoder().encode(part) : part,
  );
  const bytes = new Uint8Array(all.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of all) {
    bytes.set(part, at);
    at += part.length;
  }
  return bytes;
}

/** @param {Uint8Array} a @param {Uint8Array} b */
export function sameBytes(a, b) {
  return a.length === b.length && a.every((byte, i) => byte === b[i]);
}
