/** The client: answers a server's requests as far as the owner's policy and the ledger allow.
 *
 * @typedef {import("./ledger.js").Store} Store
 * @typedef {import("./updates.js").Update} Update
 * @typedef {import("../wire/request.js").Request} Request
 * @typedef {import("../solutions/solution.js").Solution} Solution
 * @typedef {import("./books.js").Books} Books
 */

import { InvalidArgument, own } from "../errors.js";
import { fromHex, publicKeyOf, sha256, toHex } from "../hash.js";
import { SYSTEM } from "../random/entropy.js";
import { isQuestion } from "../solutions/names.js";
import { solutionOf } from "../solutions/solution.js";
import { canSeal, sealed } from "../sealing/sealing.js";
import { checkText } from "../wire/intent.js";
import { bytesOf, decodeRequest, encodeReport, encodeRequest } from "../wire/request.js";
import { SignedRound, canVerify } from "../wire/signed.js";
import { distinct, isFarAhead, latest, longestWindow, sameLimits } from "./budget.js";
import { Ledger } from "./ledger.js";
import { Policy } from "./policy.js";
import { Refused } from "./refusal.js";
import { checkedWeights, evaluated, saturated } from "./updates.js";

const DAY = 86_400;

/** One device: its owner's policy and the ledger in a store. Randomness comes from the platform's
 * cryptographic source; there is no seed. */
export class Client {
  #policy;
  #ledger;

  /** Use `Client.open`. @param {Policy} policy @param {Ledger} ledger */
  constructor(policy, ledger) {
    this.#policy = policy;
    this.#ledger = ledger;
  }

  /** The client of a device.
   *
   * `create` makes the ledger where there is none; without it a missing ledger is refused, so that
   * a wiped one does not begin anew unnoticed. The ledger keeps the strictest limits that a policy
   * has had. A policy that allows more is refused, unless `raisedBy` names who allows it: the ledger
   * shows that for ever.
   * @param {Policy | import("./policy.js").PolicyFields} policy @param {Store} store
   * @param {{ create?: boolean, raisedBy?: string }} [options] */
  static async open(policy, store, options) {
    const { create = false, raisedBy } = own(options);
    const checked = policy instanceof Policy ? policy : new Policy(policy);
    await checkKeys(checked);
    const by = raisedBy === undefined ? "" : checkText("raisedBy", raisedBy, "recipient");
    const ledger = new Ledger(store);
    if (create) await ledger.create(checked.limits, seconds());
    if (!sameLimits((await ledger.history()).limits, checked.limits)) {
      await ledger.change((books) => books.setLimits(checked.limits, seconds(), by));
    }
    return new Client(checked, ledger);
  }

  get policy() {
    return this.#policy;
  }

  /** What this device has reported and spent; the whole ledger is checked.
   * @returns {Promise<import("./ledger.js").History>} */
  history() {
    return this.#ledger.history();
  }

  /** Confirm, in the name of the owner, that the clock of this device is right now: where it is far
   * ahead of the last report, no budget that is renewed by time is used before.
   * @param {string} by */
  async confirmClock(by) {
    const name = checkText("by", by, "recipient");
    if (!name) throw new InvalidArgument("by", by, "the name of a person who answers for it");
    await this.#ledger.change((books) => books.confirm(seconds(), name));
  }

  /** The report that answered a request before; null where it may be answered now.
   *
   * Throws `Refused` where `answer` would, whatever weights came with the request. So a device knows
   * before it fetches any, and sends again what it has paid for. Nothing is spent.
   * @param {Uint8Array | ArrayBuffer} message @returns {Promise<Uint8Array | null>} */
  async earlier(message) {
    let outcome;
    try {
      const request = this.#understood(message);
      const solution = this.#affordable(request);
      const report = await this.#ledger.look((books) => {
        return this.#earlier(books, request, solution, null, seconds());
      });
      return report === null ? null : await this.#sealed(message, report);
    } catch (error) {
      outcome = error instanceof Refused ? error.afresh() : new Refused("INTERNAL");
    }
    throw outcome;
  }

  /** The bytes of a report of the history as they leave: sealed, where the owner wants that.
   * @param {import("./ledger.js").HistoryEntry} entry @param {import("./ledger.js").HistoryRun} run */
  async message({ run, epoch, round, report }, { recipeBytes, purpose, recipient }) {
    const place = { run: /** @type {Uint8Array} */ (fromHex(run)), epoch, round };
    return this.#sealed(encodeRequest(place, { purpose, recipient }, recipeBytes), report);
  }

  /** The report that answers a request, charged and durable before it is returned.
   *
   * `weights` is a Float32Array or Float64Array (d,), or its little-endian bytes; `update` is
   * called with a copy, once, and only when nothing speaks against the request. A request that was
   * answered before gets the same bytes again, and costs nothing; where the policy has a `server_key` they
   * are sealed for it, which gives other bytes each time.
   *
   * A request for answers (BR) comes with any weights, those of the model that it measures, in doubles;
   * `update` is then the answer, an integer in 0 … M − 1.
   *
   * A policy may ask for two more things: `columns`, those of the owner's table that the update is made
   * of, and `signed`, the bytes of a signed round of request and weights.
   *
   * Throws `Refused` with a fixed reason; then nothing has left the device. An update that fails
   * counts as zeros, and what is not finite in it as zero: whether a device answers must not depend
   * on its data.
   * @param {Uint8Array | ArrayBuffer} request @param {unknown} weights @param {Update} update
   * @param {readonly string[] | null} [columns] @param {Uint8Array | null} [signed]
   * @returns {Promise<Uint8Array>} */
  async answer(request, weights, update, columns = null, signed = null) {
    const begin = performance.now();
    const outcome = await this.#outcome(request, weights, update, columns, signed);
    const end = begin + 1000 * this.#policy.leastSeconds;
    for (let now = begin; now < end; now = performance.now()) {
      // Asked again: a timer drops fractions of a millisecond, and may be early.
      await new Promise((resolve) => setTimeout(resolve, Math.ceil(end - performance.now())));
    }
    if (outcome instanceof Refused) throw outcome.afresh();
    return outcome;
  }

  /** The report or the refusal; what else may have been thrown is dropped.
   * @param {unknown} request @param {unknown} weights @param {Update} update
   * @param {readonly string[] | null} columns @param {Uint8Array | null} signed */
  async #outcome(request, weights, update, columns, signed) {
    try {
      const report = await this.#answer(request, weights, update, columns, signed);
      return await this.#sealed(request, report);
    } catch (error) {
      return error instanceof Refused ? error : new Refused("INTERNAL");
    }
  }

  /** The report as it leaves: sealed, where the owner wants that.
   * @param {unknown} request @param {Uint8Array} report */
  async #sealed(request, report) {
    const key = publicKeyOf(this.#policy.serverKey);
    if (key === null) return report;
    return sealed(report, /** @type {Uint8Array} */ (bytesOf(request)), key);
  }

  /** @param {unknown} message @param {unknown} weights @param {Update} update
   * @param {readonly string[] | null} columns @param {Uint8Array | null} signed */
  async #answer(message, weights, update, columns, signed) {
    const request = this.#understood(message);
    if (this.#policy.forbidden(columns) !== null) throw new Refused("NOT_ALLOWED");
    const { recipe } = request;
    // The weights first: whoever wants something of size d to be built must have sent as much.
    const answers = isQuestion(recipe.solution);
    const size = answers ? null : recipe.dim;
    const { model, bytes, kind } = checkedWeights(weights, size, this.#policy.weightBound);
    await this.#checkSigned(signed, request.bytes, bytes);
    const solution = this.#affordable(request);
    const asked = toHex(sha256(request.bytes, new TextEncoder().encode(kind), bytes));
    const earlier = await this.#ledger.look((books) => {
      return this.#earlier(books, request, solution, asked, seconds());
    });
    if (earlier !== null) return earlier;
    let gradient = await evaluated(update, model, recipe.dim, answers);
    if (solution.rateInside) gradient = saturated(gradient, recipe.learningRate);
    return this.#ledger.change((books) => {
      // Asked again: another tab or process may have answered in the meantime. The clock is read
      // once, because it might be set back between the check and the entry.
      const now = seconds();
      const known = this.#earlier(books, request, solution, asked, now);
      return known ?? this.#report(books, request, solution, asked, gradient, now);
    });
  }

  /** The request, if it is one and the policy allows it; nothing of size d is built.
   * @param {unknown} message */
  #understood(message) {
    const request = decodeRequest(message);
    if (request === "version") throw new Refused("VERSION");
    if (request === "malformed") throw new Refused("MALFORMED");
    const objection = this.#policy.objection(request.recipe, request.intent);
    if (objection !== null) throw new Refused(objection);
    return request;
  }

  /** Refuse what was not signed, request and weights together, by the key of the policy.
   * @param {unknown} signed @param {Uint8Array} request @param {Uint8Array} weights */
  async #checkSigned(signed, request, weights) {
    const key = publicKeyOf(this.#policy.signingKey);
    if (key === null) return;
    const round = await SignedRound.verify(signed, key);
    if (typeof round === "string" || !round.covers({ request, weights })) {
      throw new Refused("SIGNATURE");
    }
  }

  /** The solution of a request, unless it costs more than the policy allows: compared exactly.
   * @param {Request} request */
  #affordable(request) {
    let solution;
    try {
      solution = solutionOf(request.recipe, toHex(request.recipeBytes));
    } catch (error) {
      // Parameters that do not go together; any other failure stays unexplained.
      throw new Refused(error instanceof RangeError ? "MALFORMED" : "INTERNAL");
    }
    const most = this.#policy.mostPerReport(request.intent);
    if (solution.charge.compare(most) > 0) throw new Refused("TOO_MUCH");
    return solution;
  }

  /** The bytes that answered this request before; null if it may be answered now. With another digest
   * than then it is another request; null asks for no such comparison.
   * @param {Books} books @param {Request} request @param {Solution} solution
   * @param {string | null} asked @param {number} now */
  #earlier(books, request, solution, asked, now) {
    const policy = this.#policy;
    const [run, { round, epoch, intent }] = [toHex(request.run), request];
    const known = books.taskOf(run);
    const same =
      known === null ||
      (known.task === toHex(request.recipeBytes) &&
        known.purpose === intent.purpose &&
        known.recipient === intent.recipient);
    if (!same) throw new Refused("CONFLICT");
    const answered = books.answered(run, round);
    if (answered !== null) {
      if (asked !== null && answered.digest !== asked) throw new Refused("CONFLICT");
      return /** @type {Uint8Array} */ (fromHex(answered.report));
    }
    const latest = books.latest(run);
    if (round < latest.round || epoch < latest.epoch) throw new Refused("OUT_OF_ORDER");
    if (known !== null && !known.open) throw new Refused("OUT_OF_ORDER"); // a later run closed it
    if (books.reportsIn(run, epoch) >= policy.reportsPerEpoch) throw new Refused("TOO_OFTEN");
    const perDay = policy.reportsPerDay;
    if (perDay !== null && books.reportsSince(now - DAY) >= perDay) {
      throw new Refused("TOO_OFTEN");
    }
    const time = this.#time(books, now);
    if (!books.allows(this.#limits(books), intent, solution.charge, time)) {
      throw new Refused("EXHAUSTED");
    }
    return null;
  }

  /** All limits in force: another tab or process may have made the ledger's stricter since.
   * @param {Books} books */
  #limits(books) {
    return distinct([...this.#policy.limits, ...books.limits]);
  }

  /** The whole second of a report; refused where windows rely on a clock that is far ahead.
   * @param {Books} books @param {number} now */
  #time(books, now) {
    const limits = this.#limits(books);
    const known = books.knownTime;
    if (isFarAhead(limits, this.#policy.clockTolerance, now, known)) throw new Refused("CLOCK");
    return longestWindow(limits) === null ? now : latest(now, known);
  }

  /** Draw the report and write it down; it may leave once the change is durable.
   * @param {Books} books @param {Request} request @param {Solution} solution @param {string} asked
   * @param {Float32Array} gradient @param {number} now */
  #report(books, request, solution, asked, gradient, now) {
    const [run, { round, epoch, recipe, intent }] = [toHex(request.run), request];
    if (books.taskOf(run) === null) {
      books.openRun({ run, task: toHex(request.recipeBytes), ...intent }, this.#policy.runs);
    }
    const before = books.residual(run, solution.dim);
    const { slots, symbols, kept } = solution.encode(gradient.slice(), before, round, SYSTEM);
    const report = encodeReport(request.run, round, slots, symbols);
    const made = books.reportsIn(run, epoch) + 1;
    const last = epoch === recipe.epochs - 1 && made >= this.#policy.reportsPerEpoch;
    const entry = {
      run,
      epoch,
      round,
      time: this.#time(books, now),
      charge: String(solution.charge),
      digest: asked,
      report: toHex(report),
    };
    books.record(entry, solution.accumulates && !last ? kept : null);
    return report;
  }
}

/** Since 1970. */
function seconds() {
  return Math.floor(Date.now() / 1000);
}

/** Keys that can be used here: tried before anything is spent. @param {Policy} policy */
async function checkKeys({ serverKey, signingKey }) {
  for (const [name, text, works, curve] of /** @type {const} */ ([
    ["server_key", serverKey, canSeal, "X25519"],
    ["signing_key", signingKey, canVerify, "Ed25519"],
  ])) {
    const key = publicKeyOf(text);
    if (key === null || (await works(key))) continue;
    const allowed = `a public key, in a secure context with Web Cryptography and ${curve}`;
    throw new InvalidArgument(name, text, allowed);
  }
}
