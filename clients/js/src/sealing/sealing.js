/** The bytes of a sealed report: only the server can open it, whoever carries it.
 *
 * The byte 1, a tag of 32 bytes, and the report sealed by HPKE (RFC 9180): base mode,
 * DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, ChaCha20-Poly1305, the encapsulated key first. The tag is
 * SHA-256 of a label, the server's key and the request, and the `info` of HPKE.
 */

import { fromHex, sha256 } from "../hash.js";
import { randomBytes } from "../random/entropy.js";
import { encrypted } from "./chacha.js";
import { BASE, x25519 } from "./x25519.js";

const LABEL = "fedsel sealed report 1";
const KEM = 0x0020;
const HKDF = 0x0001;
const CHACHA = 0x0003;
const OF_KEM = joined("KEM", short(KEM));
const OF_SUITE = joined("HPKE", short(KEM), short(HKDF), short(CHACHA));
const NOTHING = new Uint8Array(0);

/** What reports must have in common to be shuffled together. @param {Uint8Array} request
 * @param {Uint8Array} serverKey */
export function tagOf(request, serverKey) {
  return sha256(joined(LABEL, serverKey, request));
}

/** The message that carries a report; each call gives other bytes of the same length. Null for a key
 * that is none: a point with which every secret is zero.
 * @param {Uint8Array} report @param {Uint8Array} request @param {Uint8Array} serverKey */
export function sealed(report, request, serverKey) {
  const tag = tagOf(request, serverKey);
  const secret = randomBytes(32);
  const encapsulated = x25519(secret, BASE);
  const shared = x25519(secret, serverKey);
  if (shared.every((byte) => byte === 0)) return null;
  const { key, nonce } = schedule(shared, encapsulated, serverKey, tag);
  return joined(Uint8Array.of(1), tag, encapsulated, encrypted(key, nonce, report));
}

/** The key and the nonce of one message. @param {Uint8Array} shared @param {Uint8Array} encapsulated
 * @param {Uint8Array} serverKey @param {Uint8Array} info */
export function schedule(shared, encapsulated, serverKey, info) {
  const context = joined(encapsulated, serverKey);
  const drawn = extract(OF_KEM, NOTHING, "eae_prk", shared);
  const secret = expand(OF_KEM, drawn, "shared_secret", context, 32);
  const about = joined(
    Uint8Array.of(0),
    extract(OF_SUITE, NOTHING, "psk_id_hash", NOTHING),
    extract(OF_SUITE, NOTHING, "info_hash", info),
  );
  const base = extract(OF_SUITE, secret, "secret", NOTHING);
  return {
    key: expand(OF_SUITE, base, "key", about, 32),
    nonce: expand(OF_SUITE, base, "base_nonce", about, 12),
  };
}

/** A public key as it is written down, 64 digits; null for anything else. @param {unknown} text */
export function serverKeyOf(text) {
  const key = fromHex(text);
  return key?.length === 32 ? key : null;
}

/** @param {Uint8Array} suite @param {Uint8Array} salt @param {string} label
 * @param {Uint8Array} material */
function extract(suite, salt, label, material) {
  return hmac(salt, joined("HPKE-v1", suite, label, material));
}

/** At most 32 bytes: one step of HKDF. @param {Uint8Array} suite @param {Uint8Array} key
 * @param {string} label @param {Uint8Array} info @param {number} length */
function expand(suite, key, label, info, length) {
  const about = joined(short(length), "HPKE-v1", suite, label, info, Uint8Array.of(1));
  return hmac(key, about).slice(0, length);
}

/** HMAC-SHA256, of a key of at most 64 bytes. @param {Uint8Array} key @param {Uint8Array} message */
function hmac(key, message) {
  const padded = new Uint8Array(64);
  padded.set(key);
  const inner = sha256(
    padded.map((byte) => byte ^ 0x36),
    message,
  );
  return sha256(
    padded.map((byte) => byte ^ 0x5c),
    inner,
  );
}

/** @param {...(string | Uint8Array)} parts */
function joined(...parts) {
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

/** Two bytes, big-endian. @param {number} number */
function short(number) {
  return Uint8Array.of(number >> 8, number & 255);
}
