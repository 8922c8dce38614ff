/** A run whose reports leave sealed, by way of a relay: what that guarantees, and the keys by which.
 *
 * @typedef {import("./client/wire/shuffled.js").Shuffled} Shuffled
 * @typedef {import("./keeping.js").Kept} Kept
 */

import { publicKeyOf } from "./client/hash.js";
import { canSeal } from "./client/sealing/sealing.js";
import { canVerify } from "./client/wire/signed.js";
import { keysOfLink } from "./invitation.js";
import { byId, grouped } from "./show.js";

const NAMES = /** @type {const} */ (["serverKey", "signingKey"]);
const LACKING =
  "This browser cannot seal reports, or cannot check what the service has signed: it is too old, or this page came without https. Nothing is sent.";

/** Show both numbers and what they count on, before anything is paid.
 * @param {Shuffled} shuffle @param {import("./client/facts.js").Facts} facts */
export function showGuarantee(shuffle, { charge, epochs }) {
  byId("shuffled").hidden = false;
  const both = shuffle.said(charge.times(BigInt(epochs)));
  byId("both-numbers").textContent = `${both.replaceAll(" = ", "\u00a0=\u00a0")}.`;
  byId("condition").textContent = shuffle.condition;
}

/** How far the open round is. @param {any} now as /v1/rounds/open has it */
export function showWaiting({ n_min: least, finished, released, counts }) {
  if (!least) return;
  const [have, need] = [counts.accepted, least].map((count) => count.toLocaleString("en-US"));
  let words = `The open round has ${have} of the ${need} reports that it needs. If it never has them, it is never released, and its reports are paid for all the same.`;
  if (counts.accepted >= least)
    words = `The open round has ${have} reports, of which it needs ${need}.`;
  if (released) words = "The round is released: the service works on it.";
  if (finished) words = "";
  if (byId("reports-so-far").textContent !== words) byId("reports-so-far").textContent = words;
}

/** The keys that reports are sealed for and that rounds are signed by: those of the person's link or of
 * an earlier visit, else those that the person has compared. */
export class Keys {
  /** What the run announces. @type {{ serverKey: string, signingKey: string } | null} */
  #announced;
  /** @type {Kept} */
  #own;
  /** The link's, which goes out of the address bar once its keys are kept. */
  #link = keysOfLink();

  /** @param {Shuffled | null} shuffle @param {Kept} own what was kept at an earlier visit */
  constructor(shuffle, own) {
    this.#announced = shuffle && {
      serverKey: shuffle.serverKey,
      signingKey: shuffle.signingKey,
    };
    this.#own = own;
    byId("keys").hidden = shuffle === null;
    if (shuffle === null) return;
    byId("server-key").replaceChildren(...grouped(shuffle.serverKey));
    byId("signing-key").replaceChildren(...grouped(shuffle.signingKey));
    this.tell();
  }

  /** Say where the keys come from, and ask to compare them where nobody has vouched for them. */
  tell() {
    byId("compare").hidden = this.#announced === null || this.#isKnown;
    byId("keys-said").textContent = this.#isKnown
      ? "They are the keys of your invitation link, or of your earlier visit."
      : "Your link names no keys. Whoever gave you false ones could read your report, and see who you are.";
  }

  /** Whether link or earlier visit have named both. */
  get #isKnown() {
    return NAMES.every((name) => this.#link[name] ?? this.#own[name]);
  }

  /** Why nothing may be sent; empty if nothing is against it. */
  async objection() {
    const known = [this.#link, this.#own];
    if (this.#announced === null) {
      const named = known.some(({ serverKey }) => serverKey);
      return named
        ? "Your link names keys that reports are sealed for, but this run takes no sealed reports. Nothing is sent."
        : "";
    }
    for (const [i, keys] of known.entries()) {
      for (const name of NAMES) {
        if ([undefined, this.#announced[name]].includes(keys[name])) continue;
        const whose = i ? "of your earlier visit" : "of your invitation link";
        return `The keys of this run are not those ${whose}: somebody may want to read your report. Nothing is sent.`;
      }
    }
    const [server, signing] = Object.values(this.#announced).map(publicKeyOf);
    const able = server && signing && (await canSeal(server)) && (await canVerify(signing));
    return able ? "" : LACKING;
  }

  /** Whether the keys are known, or compared. */
  get agreed() {
    return this.#announced === null || this.#isKnown || byId("keys-yes").checked;
  }

  /** What is kept for later visits. @returns {Kept} */
  get kept() {
    return this.#announced ?? {};
  }

  /** The fields of a policy. */
  get policy() {
    const { serverKey = null, signingKey = null } = this.kept;
    return { server_key: serverKey, signing_key: signingKey };
  }
}
