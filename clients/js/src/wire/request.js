/** A request: what a server asks of a device in one round. The weights travel beside it.
 *
 * @typedef {import("./recipe.js").Recipe} Recipe
 * @typedef {import("./intent.js").Intent} Intent
 */

import { joined, sha256 } from "../hash.js";
import { BOTTOM } from "../mechanisms/drawing.js";
import { MOST_INTENT_BYTES, NOTHING_STATED, encodeIntent, isStated, readIntent } from "./intent.js";
import { LONG_RECIPE_BYTES, RECIPE_BYTES, decodeRecipe } from "./recipe.js";

const MAGIC = [0x46, 0x53, 0x52, 0x51]; // FSRQ
const HEAD_BYTES = 29;
const RUN_BYTES = 16;
const LEAST_REQUEST_BYTES = HEAD_BYTES + RECIPE_BYTES;
const MOST_REQUEST_BYTES = HEAD_BYTES + MOST_INTENT_BYTES + LONG_RECIPE_BYTES;
const [PLAIN, WITH_BASES, WITH_INTENT] = [1, 2, 3];

/** @typedef {object} Request
 * @property {Uint8Array} bytes the request as it came
 * @property {number} version
 * @property {Uint8Array} run 16 bytes that name the run
 * @property {number} epoch
 * @property {number} round rounds count through all epochs
 * @property {Intent} intent
 * @property {Recipe} recipe
 * @property {Uint8Array} recipeBytes
 */

/** The request of these bytes; "version" for one of another version, "malformed" for all else.
 * @param {unknown} data
 * @returns {Request | "version" | "malformed"} */
export function decodeRequest(data) {
  const bytes = bytesOf(data);
  if (bytes === null || bytes.length > MOST_REQUEST_BYTES) return "malformed";
  const ours = MAGIC.every((byte, i) => bytes[i] === byte);
  const version = bytes[MAGIC.length];
  if (ours && version !== undefined && (version < PLAIN || version > WITH_INTENT)) return "version";
  if (!ours || bytes.length < LEAST_REQUEST_BYTES) return "malformed";
  return parts(bytes, version) ?? "malformed";
}

/** The bytes of a request that was decoded once. @param {{ run: Uint8Array, epoch: number, round: number }} place
 * @param {Intent} intent @param {Uint8Array} recipeBytes */
export function encodeRequest({ run, epoch, round }, intent, recipeBytes) {
  const stated = isStated(intent);
  const version = lowestVersion(stated, recipeBytes.length === LONG_RECIPE_BYTES);
  const place = new DataView(new ArrayBuffer(8));
  place.setUint32(0, epoch, true);
  place.setUint32(4, round, true);
  const texts = stated ? encodeIntent(intent) : new Uint8Array(0);
  const head = Uint8Array.of(...MAGIC, version);
  return joined(head, run, new Uint8Array(place.buffer), texts, recipeBytes);
}

/** The lowest version that can say it: one request, one encoding. @param {boolean} stated
 * @param {boolean} withBases */
function lowestVersion(stated, withBases) {
  return stated ? WITH_INTENT : withBases ? WITH_BASES : PLAIN;
}

/** @param {Uint8Array} bytes @param {number} version @returns {Request | null} */
function parts(bytes, version) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  let recipeBytes = bytes.subarray(HEAD_BYTES);
  let intent = NOTHING_STATED;
  if (version === WITH_INTENT) {
    const read = readIntent(recipeBytes);
    if (read === null) return null;
    ({ intent, rest: recipeBytes } = read);
  }
  const recipe = decodeRecipe(recipeBytes);
  if (recipe === null) return null;
  const epoch = view.getUint32(21, true);
  if (lowestVersion(isStated(intent), recipe.bases !== null) !== version) return null;
  if (epoch >= recipe.epochs) return null;
  const run = bytes.slice(5, 5 + RUN_BYTES);
  return {
    bytes,
    version,
    run,
    epoch,
    round: view.getUint32(25, true),
    intent,
    recipe,
    recipeBytes,
  };
}

/** A copy of bytes in whatever form; null for anything else. @param {unknown} data */
export function bytesOf(data) {
  if (data instanceof ArrayBuffer) return new Uint8Array(data).slice();
  if (!ArrayBuffer.isView(data)) return null;
  return new Uint8Array(data.buffer, data.byteOffset, data.byteLength).slice();
}

const NOTHING = 0xffffffff;

/** The report of one client: its length depends on public parameters alone.
 * @param {Uint8Array} run @param {number} round @param {number[]} slots
 * @param {number[]} symbols */
export function encodeReport(run, round, slots, symbols) {
  const report = new Uint8Array(8 + 8 * slots.length);
  const view = new DataView(report.buffer);
  view.setUint8(0, 1);
  report.set(sha256(run).subarray(0, 3), 1);
  view.setUint32(4, round, true);
  slots.forEach((slot, i) => {
    view.setUint32(8 + 8 * i, slot === BOTTOM ? 0 : slot, true);
    view.setUint32(12 + 8 * i, slot === BOTTOM ? NOTHING : symbols[i], true);
  });
  return report;
}
