/** How vectors are read and compared. */

import { Fraction } from "../../src/exact/fraction.js";
import { fromHex, toHex } from "../../src/hash.js";
import { Entropy } from "../../src/random/entropy.js";

export class Mismatch extends Error {}

export function same(got, wanted, what = "") {
  const [a, b] = [JSON.stringify(got), JSON.stringify(wanted)];
  if (a !== b) throw new Mismatch(`${what}: ${a?.slice(0, 300)} is not ${b?.slice(0, 300)}`);
}

export function near(got, wanted, tolerance, what) {
  const largest = Math.max(...wanted.map(Math.abs), 1e-300);
  got.forEach((x, i) => {
    if (!(Math.abs(x - wanted[i]) <= tolerance * largest)) {
      throw new Mismatch(`${what} ${i}: ${x} is not ${wanted[i]}`);
    }
  });
  same(got.length, wanted.length, what);
}

export const exact = (text) => Fraction.parse(text);
export const text = (values) => Array.from(values, String);

export function floats(digits, bytes) {
  const view = new DataView(fromHex(digits).buffer);
  const read = (_, i) =>
    bytes === 4 ? view.getFloat32(4 * i, true) : view.getFloat64(8 * i, true);
  const made = Array.from({ length: view.byteLength / bytes }, read);
  return bytes === 4 ? Float32Array.from(made) : Float64Array.from(made);
}

export function hexOf(vector) {
  const bytes = new Uint8Array(4 * vector.length);
  const view = new DataView(bytes.buffer);
  vector.forEach((x, i) => view.setFloat32(4 * i, x, true));
  return toHex(bytes);
}

/** `Entropy` from given words, which must be used up in the end. */
export class Words extends Entropy {
  constructor(words) {
    const rest = words.map((word) => BigInt(`0x${word}`));
    const take = () => {
      const word = rest.shift();
      if (word === undefined) throw new Mismatch("more words are drawn than were given");
      return word;
    };
    super(take);
    this.take = take;
    this.rest = rest;
    this.draws = [];
  }

  below(n) {
    const value = super.below(n);
    this.draws.push([String(n), String(value)]);
    return value;
  }

  end(draws) {
    if (draws !== undefined) same(this.draws, draws, "draws");
    same(this.rest.length, 0, "words left");
  }
}
