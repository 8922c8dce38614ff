/** What a device checks of a run whose reports leave sealed: the keys, and what was signed.
 *
 * @typedef {import("../wire/contract.js").Announcement} Announcement
 * @typedef {import("../wire/signed.js").Part} Part
 */

import { publicKeyOf } from "../hash.js";
import { SignedRound } from "../wire/signed.js";
import { Ended } from "./connection.js";

/** How old the signature of a round may be: a relay must not hold devices at an earlier round. */
const FRESH_SECONDS = 3600;

/** End where reports would leave in another way than the policy says, before one is paid for.
 * @param {import("../device/policy.js").Policy} policy @param {Announcement} task */
export function checkSealed({ serverKey, signingKey }, { shuffle }) {
  if (shuffle === null) {
    if (serverKey === null) return;
    throw new Ended("REFUSED", "its policy has a server_key, and this run takes no sealed reports");
  }
  const missing = [];
  for (const [name, own, theirs] of /** @type {const} */ ([
    ["server_key", serverKey, shuffle.serverKey],
    ["signing_key", signingKey, shuffle.signingKey],
  ])) {
    if (own === null) missing.push(`${name} = "${theirs}"`);
    else if (own !== theirs) {
      throw new Ended("REFUSED", `the run has another ${name} than its policy`);
    }
  }
  if (!missing.length) return;
  const whose = missing.length > 1 ? "these are" : "that is";
  const needs = `its policy needs ${missing.join(" and ")}, if ${whose} the service's`;
  throw new Ended("REFUSED", `reports of this run leave sealed: ${needs}`);
}

/** End unless the service has signed these parts together, and not long ago.
 * @param {Uint8Array} data @param {string} key @param {Record<Part, Uint8Array>} parts */
export async function checkSigned(data, key, parts) {
  const signed = await SignedRound.verify(data, /** @type {Uint8Array} */ (publicKeyOf(key)));
  if (typeof signed === "string") {
    throw new Ended("REFUSED", `the signature of the round is not right: ${signed}`);
  }
  for (const [name, part] of Object.entries(parts)) {
    if (signed.covers({ [name]: part })) continue;
    throw new Ended("REFUSED", `the service has not signed the ${name} that came with it`);
  }
  const age = Date.now() / 1000 - signed.time;
  if (Math.abs(age) <= FRESH_SECONDS) return;
  const hours = `${(Math.abs(age) / 3600).toFixed(0)} hours ${age > 0 ? "old" : "ahead"}`;
  const detail = `its signature is ${hours}: is the clock of this device right?`;
  throw new Ended("UNREACHABLE", detail);
}
