/** What a service signs of a round, so that whoever passes it on cannot change it.
 *
 * FSSR, the byte 1, a time of 8 bytes (seconds since 1970, little-endian), SHA-256 of the task, the
 * request, the weights and the preparation, each as the bytes that the service gives, and the Ed25519
 * signature of a label and of all bytes before it. The request names run and round, so parts of two
 * rounds do not fit one signature.
 *
 * The platform verifies (Web Cryptography): a page has that in a secure context alone.
 */

import { joined, sameBytes, sha256 } from "../hash.js";

const MAGIC = [0x46, 0x53, 0x53, 0x52]; // FSSR
const VERSION = 1;
const LABEL = "fedsel signed round 1";
const CURVE = { name: "Ed25519" };
const PARTS = /** @type {const} */ (["task", "request", "weights", "preparing"]);
const [HEAD_BYTES, DIGEST_BYTES, SIGNATURE_BYTES] = [13, 32, 64];
const CONTENT_BYTES = HEAD_BYTES + DIGEST_BYTES * PARTS.length;
/** The length of every signed round. */
export const SIGNED_BYTES = CONTENT_BYTES + SIGNATURE_BYTES;

/** @typedef {(typeof PARTS)[number]} Part */

/** A service's word, at a time, on the digests of all that devices of a round work on. */
export class SignedRound {
  #content;

  /** Use `SignedRound.verify`. @param {Uint8Array} content */
  constructor(content) {
    this.#content = content;
    /** Seconds since 1970. @readonly */
    this.time = Number(new DataView(content.buffer, content.byteOffset).getBigUint64(5, true));
  }

  /** What was signed by the holder of this key, or why it is none.
   * @param {unknown} data @param {Uint8Array} key
   * @returns {Promise<SignedRound | "not a signed round" | "signed by another key">} */
  static async verify(data, key) {
    if (!(data instanceof Uint8Array) || data.length !== SIGNED_BYTES) return "not a signed round";
    const [content, signature] = [data.slice(0, CONTENT_BYTES), data.slice(CONTENT_BYTES)];
    const ours = MAGIC.every((byte, i) => content[i] === byte);
    if (!ours || content[MAGIC.length] !== VERSION) return "not a signed round";
    const right = await verifies(joined(LABEL, content), signature, key);
    return right ? new SignedRound(content) : "signed by another key";
  }

  /** Whether these are the task, request, weights or preparing that was signed.
   * @param {Partial<Record<Part, Uint8Array>>} parts */
  covers(parts) {
    return PARTS.every((name, i) => {
      const [part, at] = [parts[name], HEAD_BYTES + DIGEST_BYTES * i];
      const digest = this.#content.subarray(at, at + DIGEST_BYTES);
      return part === undefined || sameBytes(sha256(part), digest);
    });
  }
}

/** Whether signatures by this key can be verified here. @param {Uint8Array} key */
export async function canVerify(key) {
  try {
    return !(await verifies(joined(LABEL), new Uint8Array(SIGNATURE_BYTES), key));
  } catch {
    return false;
  }
}

/** @param {Uint8Array<ArrayBuffer>} message @param {Uint8Array<ArrayBuffer>} signature
 * @param {Uint8Array} key */
async function verifies(message, signature, key) {
  const { subtle } = globalThis.crypto;
  const theirs = await subtle.importKey("raw", joined(key), CURVE, false, ["verify"]);
  return subtle.verify(CURVE, theirs, signature, message);
}
