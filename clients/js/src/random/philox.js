/** Public random bits that both ends draw alike: Philox4x64-10 (Salmon et al. 2011), with its key
 * from a seed and a purpose as numpy's SeedSequence makes it. Nothing private comes from here. */

import { sha256 } from "../hash.js";

const POOL = 4;
const INIT_A = 0x43b0d7e5;
const MULTIPLY_A = 0x931e8875;
const INIT_B = 0x8b51f9dd;
const MULTIPLY_B = 0x58f38ded;
const MIX_LEFT = 0xca01f9dd;
const MIX_RIGHT = 0x4973f715;

/** The first words of the state that a seed and a spawn key stand for.
 * @param {bigint} seed @param {readonly number[]} key @param {number} count */
export function seedSequence(seed, key, count) {
  /** @type {number[]} */
  const entropy = [];
  for (let rest = seed; rest > 0n || !entropy.length; rest >>= 32n) {
    entropy.push(Number(rest & 0xffffffffn));
  }
  while (key.length && entropy.length < POOL) entropy.push(0);
  entropy.push(...key);
  let constant = INIT_A;
  const hashed = (/** @type {number} */ value) => {
    value ^= constant;
    constant = Math.imul(constant, MULTIPLY_A);
    value = Math.imul(value, constant);
    return value ^ (value >>> 16);
  };
  const mixed = (/** @type {number} */ x, /** @type {number} */ y) => {
    const result = (Math.imul(MIX_LEFT, x) - Math.imul(MIX_RIGHT, y)) | 0;
    return result ^ (result >>> 16);
  };
  const pool = Array.from({ length: POOL }, (_, i) => hashed(entropy[i] ?? 0));
  for (let from = 0; from < POOL; from++) {
    for (let to = 0; to < POOL; to++) {
      if (from !== to) pool[to] = mixed(pool[to], hashed(pool[from]));
    }
  }
  for (const word of entropy.slice(POOL)) {
    for (let to = 0; to < POOL; to++) pool[to] = mixed(pool[to], hashed(word));
  }
  constant = INIT_B;
  return Array.from({ length: count }, (_, i) => {
    let value = pool[i % POOL] ^ constant;
    constant = Math.imul(constant, MULTIPLY_B);
    value = Math.imul(value, constant);
    return (value ^ (value >>> 16)) >>> 0;
  });
}

/** Products of 64 bits are taken in four pieces: high and low halves as unsigned 32-bit numbers. */
const MULTIPLIERS = [0xd2e7470e, 0xe14c6c93, 0xca5a8263, 0x95121157];
const WEYL = [0x9e3779b9, 0x7f4a7c15, 0xbb67ae85, 0x84caa73b];

/** 64-bit words, each as its low and its high half, from a seed for a purpose. */
export class PublicBits {
  /** @param {bigint} seed @param {string} purpose */
  constructor(seed, purpose) {
    const digest = new DataView(sha256(new TextEncoder().encode(purpose)).buffer);
    const spawn = [0, 4, 8, 12].map((at) => digest.getUint32(at, true));
    /** Two words of key, low half first. */
    this.key = seedSequence(seed, spawn, 4);
    this.counter = 0;
    /** The block that is being read: four words, low half first. */
    this.block = new Uint32Array(8);
    this.position = 4;
    this.low = 0;
    this.high = 0;
  }

  /** Read the next word into `low` and `high`. */
  next() {
    if (this.position === 4) {
      this.counter += 1;
      this.#fill();
      this.position = 0;
    }
    this.low = this.block[2 * this.position];
    this.high = this.block[2 * this.position + 1];
    this.position += 1;
  }

  #fill() {
    let [k0, h0, k1, h1] = this.key;
    let a = this.counter >>> 0;
    let aHigh = Math.floor(this.counter / 2 ** 32) >>> 0;
    let [b, bHigh, c, cHigh, d, dHigh] = [0, 0, 0, 0, 0, 0];
    const product = PRODUCT;
    for (let round = 0; round < 10; round++) {
      multiply(MULTIPLIERS[0], MULTIPLIERS[1], aHigh, a);
      const [low0, low0High, high0, high0High] = [product[0], product[1], product[2], product[3]];
      multiply(MULTIPLIERS[2], MULTIPLIERS[3], cHigh, c);
      a = (product[2] ^ b ^ k0) >>> 0;
      aHigh = (product[3] ^ bHigh ^ h0) >>> 0;
      b = product[0];
      bHigh = product[1];
      c = (high0 ^ d ^ k1) >>> 0;
      cHigh = (high0High ^ dHigh ^ h1) >>> 0;
      d = low0;
      dHigh = low0High;
      const first = k0 + WEYL[1];
      k0 = first >>> 0;
      h0 = (h0 + WEYL[0] + (first > 0xffffffff ? 1 : 0)) >>> 0;
      const second = k1 + WEYL[3];
      k1 = second >>> 0;
      h1 = (h1 + WEYL[2] + (second > 0xffffffff ? 1 : 0)) >>> 0;
    }
    this.block.set([a, aHigh, b, bHigh, c, cHigh, d, dHigh]);
  }
}

/** The last product of `multiply`: 128 bits, the lowest 32 first. */
const PRODUCT = new Uint32Array(4);
const HALVES = new Uint32Array(8);

/** The product of two 64-bit numbers, given as halves, into PRODUCT.
 * @param {number} aHigh @param {number} aLow @param {number} bHigh @param {number} bLow */
function multiply(aHigh, aLow, bHigh, bLow) {
  wide(aLow, bLow, 0);
  wide(aHigh, bLow, 2);
  wide(aLow, bHigh, 4);
  wide(aHigh, bHigh, 6);
  PRODUCT[0] = HALVES[0];
  const second = HALVES[1] + HALVES[2] + HALVES[4];
  PRODUCT[1] = second;
  const third = HALVES[3] + HALVES[5] + HALVES[6] + Math.floor(second / 2 ** 32);
  PRODUCT[2] = third;
  PRODUCT[3] = HALVES[7] + Math.floor(third / 2 ** 32);
}

/** The 64 bits of a product of two 32-bit numbers, low half first, into HALVES.
 * @param {number} a @param {number} b @param {number} at */
function wide(a, b, at) {
  const [aLow, aHigh, bLow, bHigh] = [a & 0xffff, a >>> 16, b & 0xffff, b >>> 16];
  const low = aLow * bLow;
  const middle = aHigh * bLow + (low >>> 16);
  const other = aLow * bHigh + (middle % 65536);
  HALVES[at] = (other % 65536) * 65536 + (low & 0xffff);
  HALVES[at + 1] = aHigh * bHigh + Math.floor(middle / 65536) + Math.floor(other / 65536);
}
