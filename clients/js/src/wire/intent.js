/** Why a server asks and who gets what it learns: two short texts, claims of the server.
 *
 * @typedef {{ readonly purpose: string, readonly recipient: string }} Intent
 */

import { InvalidArgument } from "../errors.js";
import { canBeSeen, isMark } from "./unicode.js";

/** Bytes of UTF-8 of the two texts, at most. */
export const MOST_BYTES = { purpose: 200, recipient: 100 };
export const FIELDS = /** @type {const} */ (["purpose", "recipient"]);
export const MOST_INTENT_BYTES = 302;
const MOST_MARKS = 4;

/** @type {Intent} */
export const NOTHING_STATED = Object.freeze({ purpose: "", recipient: "" });

/** @param {Intent} intent */
export function isStated(intent) {
  return intent.purpose !== "" || intent.recipient !== "";
}

/** Both texts, each after its length. @param {Intent} intent */
export function encodeIntent(intent) {
  const texts = FIELDS.map((field) => new TextEncoder().encode(intent[field]));
  return Uint8Array.from(texts.flatMap((text) => [text.length, ...text]));
}

/** The intent that bytes begin with, and what follows; null where there is none.
 * @param {Uint8Array} data
 * @returns {{ intent: Intent, rest: Uint8Array } | null} */
export function readIntent(data) {
  const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  const texts = [];
  for (const field of FIELDS) {
    if (data.length === 0 || 1 + data[0] > data.length) return null;
    let text;
    try {
      text = decoder.decode(data.subarray(1, 1 + data[0]));
    } catch {
      return null;
    }
    if (objection(text, field) !== null) return null;
    texts.push(text);
    data = data.subarray(1 + data[0]);
  }
  const [purpose, recipient] = texts;
  return { intent: { purpose, recipient }, rest: data };
}

/** A text that a person may be shown as it is. @param {string} name @param {unknown} value
 * @param {"purpose" | "recipient"} field which limit it has */
export function checkText(name, value, field) {
  if (typeof value !== "string") throw new InvalidArgument(name, value, "a text");
  const wrong = objection(value, field);
  if (wrong !== null) throw new InvalidArgument(name, value, wrong);
  return value;
}

/** What a text must be, if it is not.
 * @param {string} text @param {"purpose" | "recipient"} field */
function objection(text, field) {
  const most = MOST_BYTES[field];
  const codes = Array.from(text, (character) => /** @type {number} */ (character.codePointAt(0)));
  if (new TextEncoder().encode(text).length > most) return `at most ${most} bytes of UTF-8`;
  if (!codes.every(canBeSeen)) return "letters, digits, punctuation, symbols and spaces";
  if (/^ | $| {2}/.test(text)) return "without spaces at its ends and without two in a row";
  if (text.normalize("NFC") !== text) return "in normal form: text.normalize('NFC')";
  if (!hasFewMarks(codes)) return `with at most ${MOST_MARKS} marks on a letter`;
  return null;
}

/** Whether each mark stands on something, and no more than a few on the same.
 * @param {number[]} codes */
function hasFewMarks(codes) {
  let room = 0;
  for (const code of codes) {
    if (!isMark(code)) room = code === 0x20 ? 0 : MOST_MARKS;
    else if (room === 0) return false;
    else room -= 1;
  }
  return true;
}
