/** How the reports of a run are shuffled by a relay, and what that guarantees. */

import { checkCount, own } from "../errors.js";
import { upperBound } from "../exact/decimals.js";
import { Fraction } from "../exact/fraction.js";
import { publicKeyOf } from "../hash.js";

const MOST_REPORTS = 2 ** 32 - 1;

/** A relay releases a round with `least` reports at least, or never. Up to the share `dishonest` of
 * them may come from clients who work for the service; the central ε counts the others. It is for a
 * client that reports once in each epoch, if relay and service do not work together. */
export class Shuffled {
  /** The values of a service's JSON; throws for anything else. @param {any} values */
  constructor(values) {
    const { n_min, dishonest, delta, epsilon, server_key, signing_key } = own(values);
    /** @readonly */
    this.least = checkCount("n_min", n_min, { least: 2, most: MOST_REPORTS });
    /** @readonly */
    this.dishonest = within(dishonest, 0, 1);
    /** @readonly */
    this.delta = within(delta, 1e-100, 1);
    /** @readonly */
    this.epsilon = within(epsilon, 0, Infinity);
    /** @readonly */
    this.serverKey = publicKey(server_key);
    /** @readonly */
    this.signingKey = publicKey(signing_key);
    const others = Fraction.decimal(this.dishonest).times(BigInt(this.least)).floor();
    /** How many of the reports are honest, if no more than the allowed share is not. @readonly */
    this.honest = Math.max(1, this.least - Number(others));
    Object.freeze(this);
  }

  /** Both numbers for people, rounded up. @param {Fraction} local the ε of all reports of a client */
  said(local) {
    const [epsilon, delta] = [this.epsilon, this.delta].map((x) => upperBound(Fraction.decimal(x)));
    return (
      `ε = ${upperBound(local)} against everybody; ε = ${epsilon}, δ = ${delta} if relay and service` +
      ` do not work together, among at least ${counted(this.honest)} honest` +
      ` report${this.honest > 1 ? "s" : ""}`
    );
  }

  /** What the central number counts on, for people. */
  get condition() {
    const others = counted(this.least - this.honest);
    return (
      `The relay releases a round with at least ${counted(this.least)} reports, or never;` +
      ` at most ${others} of them may come from clients who work for the service.`
    );
  }
}

/** @param {number} count */
function counted(count) {
  return count.toLocaleString("en-US");
}

/** @param {unknown} value @param {number} least @param {number} below */
function within(value, least, below) {
  if (typeof value === "number" && value >= least && value < below) return value;
  throw new RangeError("not a number, or beyond its bounds");
}

/** @param {unknown} value */
function publicKey(value) {
  if (publicKeyOf(value) === null) throw new RangeError("not a public key");
  return /** @type {string} */ (value);
}
