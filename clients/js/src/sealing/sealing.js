/** The bytes of a sealed report: only the server can open it, whoever carries it.
 *
 * The byte 1, a tag of 32 bytes, and the report sealed by HPKE (RFC 9180): base mode,
 * DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-256-GCM, the encapsulated key first. The tag is
 * SHA-256 of a label, the server's key and the request, and the `info` of HPKE.
 *
 * Every step that handles a secret is the platform's own (Web Cryptography): a page has it in a
 * secure context alone.
 */

import { joined, sha256 } from "../hash.js";

/** What sealing adds to a report: version, tag, encapsulated key, authentication tag. */
export const ADDED_BYTES = 1 + 32 + 32 + 16;
const LABEL = "fedsel sealed report 1";
const CURVE = { name: "X25519" };
const KEM = 0x0020;
const HKDF = 0x0001;
const AES = 0x0002;
const OF_KEM = joined("KEM", short(KEM));
const OF_SUITE = joined("HPKE", short(KEM), short(HKDF), short(AES));
const NOTHING = joined();
const NO_SALT = new Uint8Array(32); // to HMAC the same as none, which cannot be imported

/** What reports must have in common to be shuffled together. @param {Uint8Array} request
 * @param {Uint8Array} serverKey */
export function tagOf(request, serverKey) {
  return joined(sha256(joined(LABEL, serverKey, request)));
}

/** The message that carries a report; each call gives other bytes of the same length. Rejects for a
 * key that is none (a point with which every secret is zero), and where the platform cannot seal.
 * @param {Uint8Array} report @param {Uint8Array} request @param {Uint8Array} serverKey */
export async function sealed(report, request, serverKey) {
  const tag = tagOf(request, serverKey);
  const { subtle } = globalThis.crypto;
  const once = /** @type {CryptoKeyPair} */ (
    await subtle.generateKey(CURVE, false, ["deriveBits"])
  );
  const theirs = await subtle.importKey("raw", joined(serverKey), CURVE, false, []);
  const shared = await subtle.deriveBits({ ...CURVE, public: theirs }, once.privateKey, 256);
  const encapsulated = new Uint8Array(await subtle.exportKey("raw", once.publicKey));
  const secret = new Uint8Array(shared);
  const { key, nonce } = await schedule(secret, encapsulated, serverKey, tag);
  const cipher = await subtle.importKey("raw", key, "AES-GCM", false, ["encrypt"]);
  const whole = { name: "AES-GCM", iv: nonce, tagLength: 128, additionalData: NOTHING };
  const content = await subtle.encrypt(whole, cipher, joined(report));
  return joined(Uint8Array.of(1), tag, encapsulated, new Uint8Array(content));
}

/** Whether reports can be sealed here, and for this key. @param {Uint8Array} serverKey */
export async function canSeal(serverKey) {
  try {
    await sealed(NOTHING, NOTHING, serverKey);
    return true;
  } catch {
    return false;
  }
}

/** The key and the nonce of one message. @param {Uint8Array} shared @param {Uint8Array} encapsulated
 * @param {Uint8Array} serverKey @param {Uint8Array} info */
export async function schedule(shared, encapsulated, serverKey, info) {
  const context = joined(encapsulated, serverKey);
  const drawn = await extract(OF_KEM, NO_SALT, "eae_prk", shared);
  const secret = await expand(OF_KEM, drawn, "shared_secret", context, 32);
  const about = joined(
    Uint8Array.of(0),
    await extract(OF_SUITE, NO_SALT, "psk_id_hash", NOTHING),
    await extract(OF_SUITE, NO_SALT, "info_hash", info),
  );
  const base = await extract(OF_SUITE, secret, "secret", NOTHING);
  return {
    key: await expand(OF_SUITE, base, "key", about, 32),
    nonce: await expand(OF_SUITE, base, "base_nonce", about, 12),
  };
}

/** @param {Uint8Array} suite @param {Uint8Array} salt @param {string} label
 * @param {Uint8Array} material */
function extract(suite, salt, label, material) {
  return hmac(salt, joined("HPKE-v1", suite, label, material));
}

/** At most 32 bytes: one step of HKDF. @param {Uint8Array} suite @param {Uint8Array} key
 * @param {string} label @param {Uint8Array} info @param {number} length */
async function expand(suite, key, label, info, length) {
  const about = joined(short(length), "HPKE-v1", suite, label, info, Uint8Array.of(1));
  return (await hmac(key, about)).slice(0, length);
}

/** @param {Uint8Array} key @param {Uint8Array<ArrayBuffer>} message */
async function hmac(key, message) {
  const { subtle } = globalThis.crypto;
  const kind = { name: "HMAC", hash: "SHA-256" };
  const secret = await subtle.importKey("raw", joined(key), kind, false, ["sign"]);
  return new Uint8Array(await subtle.sign("HMAC", secret, message));
}

/** Two bytes, big-endian. @param {number} number */
function short(number) {
  return Uint8Array.of(number >> 8, number & 255);
}
