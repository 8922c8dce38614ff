/** A device that takes part in a run: polls, answers what its client allows, and sends until heard.
 *
 * A report is charged and durable before it is sent, and the same bytes are sent until the service has
 * said what became of them. So a device that was killed in between sends them again when it is started
 * again, and pays once. It is the loop of `fedsel.device.Session` in Python: the same answers of a
 * service lead to the same requests, charges and endings.
 *
 * @typedef {import("../device/client.js").Client} Client
 * @typedef {import("../device/updates.js").Update} Update
 * @typedef {import("../facts.js").Facts} Facts
 * @typedef {import("../wire/contract.js").Announcement} Announcement
 * @typedef {import("./connection.js").Ending} Ending
 * @typedef {import("./records.js").Records} Records
 * @typedef {import("../models/model_question.js").ModelQuestion} ModelQuestion
 *
 * What a service asks: its task, and the request of the open round (null: the run is over).
 * @typedef {{ task: Announcement, request: Facts | null }} Offer
 *
 * What has happened. "idle" comes when a pause has begun: work on the records belongs there, because
 * otherwise the time of the next request would show how long it takes.
 * `asked` is the question about the model that a report is to answer; null: it trains, or answers a
 * question about people.
 * @typedef {{ kind: "polled" | "idle" }
 *   | { kind: "charged", round: number, asked: ModelQuestion | null }
 *   | { kind: "waiting", for: "role", measures: boolean }
 *   | { kind: "judged", round: number, verdict: "accepted" | "duplicate" | "late" | "conflict" }
 *   | { kind: "waiting", for: "epoch" | "turn" | "service", why?: string }} Event
 *
 * `accepted` and `late` count the reports of which the service has said so.
 * @typedef {object} Outcome
 * @property {Ending} ending
 * @property {string} detail
 * @property {string | null} run
 * @property {number} accepted
 * @property {number} late
 * @property {import("../device/ledger.js").History} history
 *
 * @typedef {object} Options
 * @property {string} [token] the invitation
 * @property {number} [every] seconds between two polls, about
 * @property {number} [patience] seconds without a whole answer after which the device gives up
 * @property {number} [answered] the last round whose verdict is known from before
 * @property {AbortSignal} [signal] by which the owner stops it
 * @property {(event: Event) => unknown} [tell]
 */

import { Refused } from "../device/refusal.js";
import { InvalidArgument, checkPositive, own } from "../errors.js";
import { readRequest } from "../facts.js";
import { Fraction } from "../exact/fraction.js";
import { fromHex, sha256, toHex } from "../hash.js";
import { MOST_QUESTION_BYTES, measuredQuestion } from "../models/model_question.js";
import { readAnnouncement, readVerdict, wordOf } from "../wire/contract.js";
import { SIGNED_BYTES } from "../wire/signed.js";
import { Connection, Ended, SHORT, pause } from "./connection.js";
import { answerOf, isRecords, measuringOf, updateOf } from "./records.js";
import { checkSealed, checkSigned } from "./sealed.js";

const MOST_ANNOUNCEMENT_BYTES = 64 << 20;
/** Bytes of what a service says about how to prepare one feature, at most. */
const BYTES_OF_A_FEATURE = 256;
/** Entries of a record beyond which no matrix is taken, and the bytes of one of its numbers. */
const [LARGEST_MATRIX, BYTES_OF_A_NUMBER] = [512, 26];
/** Polls after which a round that ends by count is taken to wait for more reports. */
const OVERDUE = 20;
const FOR_NOW = ["TOO_OFTEN", "OUT_OF_ORDER"];

/** Take part in the run that a service leads, until that is over or the budget is spent.
 * @param {string} url @param {Client} client @param {Records | Update} records
 * @param {Options} [options] */
export function join(url, client, records, options) {
  return new Session(url, options).join(client, records);
}

/** A device at a service: what the service asks, and taking part. */
export class Session {
  #connection;
  #every;
  #signal;
  #tell;
  /** @type {string | undefined} */
  #token;
  /** @type {Offer | null} */
  #offer = null;
  /** The task as it came, for its signature. */
  #taskText = /** @type {Uint8Array} */ (new Uint8Array(0));
  /** The request of the offer. @type {Uint8Array | null} */
  #first = null;
  #accepted = 0;
  #late = 0;
  /** The last round whose report the service has judged. */
  #answered;
  #turn = { epoch: -1, round: -1 };
  /** Whether this device measures the model and does not train, and in which epoch. */
  #role = { measures: false, epoch: 0 };
  /** The open round, and since when we know it. */
  #seen = { round: -1, since: 0 };

  /** @param {string} url @param {Options} [options] */
  constructor(url, options) {
    const { token, every = 5, patience = 600, answered = -1 } = own(options);
    const { signal, tell = () => {} } = own(options);
    if (token !== undefined && !/^[!-~]{1,4096}$/.test(token)) {
      throw new InvalidArgument("token", "not shown", "one invitation: letters without spaces");
    }
    if (patience !== Infinity) checkPositive("patience", patience);
    this.#every = checkPositive("every", every);
    this.#signal = signal;
    this.#tell = tell;
    this.#token = token;
    this.#answered = answered;
    const waiting = (/** @type {string} */ why) => tell({ kind: "waiting", for: "service", why });
    this.#connection = new Connection(url, patience, signal, waiting);
  }

  /** What the service asks; nothing is spent. Throws `Ended` where that cannot be found out.
   * @returns {Promise<Offer>} */
  async offer() {
    if (this.#offer === null) {
      const reply = await this.#connection.ask("/v1/task", MOST_ANNOUNCEMENT_BYTES);
      if (reply.status !== 200) throw notUnderstood(reply);
      this.#taskText = reply.body;
      const task = readAnnouncement(reply.body);
      if (task === null) throw new Ended("NOT_UNDERSTOOD", "not the announcement of a task");
      this.#first = await this.#openRequest();
      this.#offer = { task, request: this.#first && understood(this.#first, task) };
    }
    return this.#offer;
  }

  /** The task, once it is known. */
  get #task() {
    return /** @type {Offer} */ (this.#offer).task;
  }

  /** Take part until the run is over, the budget is spent, or nothing more is to be done.
   *
   * `records` are the device's own; or its update, a function of the weights, where the task leaves
   * the model to its devices. No record is read outside of an update.
   * @param {Client} client @param {Records | Update} records @returns {Promise<Outcome>} */
  join(client, records) {
    return this.#outcome(client, () => this.#takePart(client, records));
  }

  /** Send reports that were charged before: `rounds` are those whose verdict is not known.
   * @param {Client} client @param {number[]} rounds @returns {Promise<Outcome>} */
  deliver(client, rounds) {
    return this.#outcome(client, async () => {
      const { task } = await this.offer();
      checkSealed(client.policy, task);
      await this.#introduce(client, task);
      const { entries, runs } = await client.history();
      for (const entry of entries) {
        if (!isOfTask(task, entry.run) || !rounds.includes(entry.round)) continue;
        const run = /** @type {import("../device/ledger.js").HistoryRun} */ (runs.get(entry.run));
        await this.#send(entry.round, await client.message(entry, run));
      }
      throw new Ended("DONE");
    });
  }

  /** @param {Client} client @param {() => Promise<void>} work @returns {Promise<Outcome>} */
  async #outcome(client, work) {
    /** @type {[Ending, string]} */
    let [ending, detail] = ["FINISHED", ""];
    try {
      await work();
    } catch (error) {
      if (!(error instanceof Ended)) throw error;
      ({ ending, detail } = error);
    }
    const [run, history] = [this.#offer?.task.run ?? null, await client.history()];
    return { ending, detail, run, accepted: this.#accepted, late: this.#late, history };
  }

  /** What devices are asked now; null when the run is over. */
  async #openRequest() {
    const reply = await this.#connection.ask("/v1/rounds/open/request", SHORT);
    if (reply.status === 410) return null;
    if (reply.status !== 200) throw notUnderstood(reply);
    return reply.body;
  }

  /** @param {Client} client @param {Records | Update} records */
  async #takePart(client, records) {
    const { task, request: asked } = await this.offer();
    if (asked === null) return;
    checkSealed(client.policy, task);
    if (task.question === null && (task.schema === null) === isRecords(records)) {
      const allowed = "records if the task has a schema, else an update";
      throw new InvalidArgument("records", "not shown", allowed);
    }
    this.#role = await roleOf(client, task, asked);
    if (measuresIn(task, asked.round) === this.#role.measures) {
      await this.#checkAllowed(client, /** @type {Uint8Array} */ (this.#first));
    }
    const forbidden = client.policy.forbidden(columnsOf(task));
    if (forbidden !== null) {
      throw new Ended("REFUSED", `the policy of this device does not allow ${forbidden}`);
    }
    await this.#introduce(client, task);
    for (;;) {
      const message = await this.#openRequest();
      if (message === null) return;
      const request = understood(message, task);
      await this.#tell({ kind: "polled" });
      if (request.round !== this.#seen.round) {
        this.#seen = { round: request.round, since: performance.now() };
      }
      const { measures } = this.#role;
      const isOurs = measuresIn(task, request.round) === measures;
      if (measures) await this.#checkMeasured(client, request.round);
      if (request.round > this.#answered && isOurs) {
        await this.#visit(client, message, request, records);
      }
      if (request.round <= this.#answered) {
        await this.#checkMoreToDo(client, request);
        await this.#tell({ kind: "waiting", for: "epoch" });
      } else if (!isOurs) await this.#tell({ kind: "waiting", for: "role", measures });
      await this.#pause();
    }
  }

  /** Send the report of a round, if it is paid for already, or may be and it is its turn.
   * @param {Client} client @param {Uint8Array} message @param {Facts} request
   * @param {Records | Update} records */
  async #visit(client, message, request, records) {
    let report;
    try {
      report = await client.earlier(message);
      if (report === null && this.#isTheTurnOf(request)) {
        report = await this.#answer(client, message, request, records);
      } else if (report === null) await this.#tell({ kind: "waiting", for: "turn" });
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      if (!FOR_NOW.includes(error.reason)) throw refusal(error);
      await this.#checkMoreToDo(client, request);
      await this.#tell({ kind: "waiting", for: "epoch" });
      return;
    }
    if (report !== null) await this.#send(request.round, report);
  }

  /** End where the policy forbids what is asked, before anything else is done for it.
   * @param {Client} client @param {Uint8Array} message */
  async #checkAllowed(client, message) {
    try {
      await client.earlier(message);
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      if (!FOR_NOW.includes(error.reason)) throw refusal(error);
    }
  }

  /** See that the service will take reports of this device, before one is paid for.
   * @param {Client} client @param {Announcement} task */
  async #introduce(client, task) {
    if (this.#token === undefined && task.invitations === "open") {
      // The same after a restart, else one report might count twice; another in every run.
      const { identity } = await client.history();
      const parts = [
        new TextEncoder().encode("fedsel guest"),
        fromHex(identity),
        fromHex(task.run),
      ];
      this.#token = toHex(sha256(.../** @type {Uint8Array[]} */ (parts)));
    }
    if (this.#token === undefined) throw new Ended("UNINVITED", "an invitation is needed");
    const reply = await this.#connection.ask("/v1/invitation", SHORT, { token: this.#token });
    if (reply.status === 401 || reply.status === 403) {
      throw new Ended("UNINVITED", "the invitation is not valid for this run");
    }
    if (reply.status !== 200) throw notUnderstood(reply);
    const kind = kindOf(reply.body);
    if (kind === "gateway") throw new Ended("UNINVITED", "the invitation is for a gateway");
    if (kind !== "device") throw notUnderstood(reply);
  }

  /** Whether this is the round to answer: one of its epoch, at random, or one that waits. If all
   * devices answered the first round of an epoch, most would have paid for nothing, and the rounds
   * after it would have none. @param {Facts} request */
  #isTheTurnOf({ round }) {
    const { rounds_per_epoch: rounds, close_after: rule, measure } = this.#task;
    const epoch = Math.floor(round / rounds);
    const { measures } = this.#role;
    if (measures && epoch < this.#role.epoch) return false;
    if (this.#turn.epoch !== epoch) {
      const last = (epoch + 1) * rounds - 1 - (measures ? 0 : (measure?.rounds ?? 0));
      this.#turn = { epoch, round: randomRound(round, Math.max(round, last)) };
    }
    const waited = (performance.now() - this.#seen.since) / 1000;
    return round >= this.#turn.round || waited > (rule.seconds ?? OVERDUE * this.#every);
  }

  /** The report; null if the round was over before it was paid for. @param {Client} client
   * @param {Uint8Array} message @param {Facts} request @param {Records | Update} records */
  async #answer(client, message, { round, dim }, records) {
    const { schema } = this.#task;
    const features = schema?.featureCount ?? 0;
    const matrix = features < LARGEST_MATRIX ? BYTES_OF_A_NUMBER * (features + 1) ** 2 : 0;
    const most = SHORT + MOST_QUESTION_BYTES + BYTES_OF_A_FEATURE * features + matrix;
    const size = measuresIn(this.#task, round) ? (schema?.dim ?? dim) : dim;
    const { signingKey } = client.policy;
    const ask = (/** @type {string} */ part, /** @type {number} */ bytes) =>
      this.#connection.ask(`/v1/rounds/${round}/${part}`, bytes);
    const replies = [await ask("weights", 8 * size), await ask("preparing", most)];
    if (signingKey !== null) replies.push(await ask("signature", SIGNED_BYTES));
    if (replies.some(({ status }) => status === 410)) return null;
    for (const reply of replies) if (reply.status !== 200) throw notUnderstood(reply);
    const [weights, preparing, signed] = replies.map(({ body }) => body);
    if (signingKey !== null) {
      const parts = { task: this.#taskText, request: message, weights, preparing };
      await checkSigned(signed, signingKey, parts);
    }
    const { update, asked } = this.#update(records, preparing, round, dim);
    const columns = columnsOf(this.#task);
    const report = await client.answer(message, weights, update, columns, signed);
    await this.#tell({ kind: "charged", round, asked });
    return report;
  }

  /** What to report in a round: a function of the weights, in which alone records are read; and the
   * question about the model that it answers.
   * @param {Records | Update} records @param {Uint8Array} body @param {number} round
   * @param {number} dim @returns {{ update: Update, asked: ModelQuestion | null }} */
  #update(records, body, round, dim) {
    const [text, task] = [new TextDecoder().decode(body), this.#task];
    const { question } = task;
    if (question !== null || !isRecords(records)) {
      if (text.trim() !== "null") {
        throw new Ended("NOT_UNDERSTOOD", "it prepares records, but its task has none");
      }
      const asks = question !== null && isRecords(records);
      return {
        update: asks ? answerOf(question, records) : /** @type {Update} */ (records),
        asked: null,
      };
    }
    if (measuresIn(task, round)) {
      const found = measuringOf(task, records, text, dim);
      if (found !== null) return { update: found.update, asked: found.question };
    } else {
      const update = updateOf(task, records, text, round, dim);
      if (update !== null) return { update, asked: null };
    }
    throw new Ended("NOT_UNDERSTOOD", "how it prepares records does not suit its task");
  }

  /** End once this device has measured the model: one report is all that it gives.
   * @param {Client} client @param {number} round that is open */
  async #checkMeasured(client, round) {
    const over = Math.max(this.#answered, round - 1);
    const { entries } = await client.history();
    const { run } = this.#task;
    const measured = entries.some((e) => e.round <= over && measuredQuestion(run, e.run) !== null);
    if (measured) throw new Ended("DONE", "it has measured the model");
  }

  /** End once this device has given all its reports. @param {Client} client @param {Facts} request */
  async #checkMoreToDo(client, request) {
    if (this.#role.measures) await this.#checkMeasured(client, request.round);
    else await checkMoreToDo(client, request);
  }

  /** Send the same bytes until the service says what became of them.
   * @param {number} round @param {Uint8Array} body */
  async #send(round, body) {
    const patience = this.#connection.patience();
    for (;;) {
      const token = this.#token;
      const reply = await this.#connection.ask("/v1/reports", SHORT, { body, token });
      const verdict = readVerdict(reply.status, reply.body);
      if (verdict === "early") {
        await patience.wait("it has gone back to an earlier round");
        continue;
      }
      if (reply.status === 401 || reply.status === 403) {
        throw new Ended("UNINVITED", "the invitation is not valid any more");
      }
      if (verdict === null || verdict === "rejected") throw notUnderstood(reply);
      await this.#tell({ kind: "judged", round, verdict });
      if (verdict === "conflict") throw new Ended("CONFLICT", "does another device use it, too?");
      if (verdict === "late") this.#late += 1;
      else this.#accepted += 1;
      this.#answered = Math.max(this.#answered, round);
      return;
    }
  }

  async #pause() {
    const paused = pause(this.#every * (0.5 + Math.random()), this.#signal);
    await this.#tell({ kind: "idle" });
    await paused;
  }
}

/** A request that belongs to the task that was announced. @param {Uint8Array} message
 * @param {Announcement} task */
function understood(message, task) {
  let request;
  try {
    request = readRequest(message);
  } catch (error) {
    if (error instanceof Refused) throw refusal(error);
    throw error;
  }
  const another = "the service leads another one now";
  if (task.measure !== null && measuresIn(task, request.round)) {
    const { answers } = task.measure;
    const number = measuredQuestion(task.run, request.run);
    if (number === null || number >= answers.length) throw new Ended("FINISHED", another);
    if (request.dim !== answers[number]) {
      const detail = `it asks for one of ${request.dim} answers, its task for one of ${answers[number]}`;
      throw new Ended("NOT_UNDERSTOOD", detail);
    }
    return request;
  }
  if (request.run !== task.run) throw new Ended("FINISHED", another);
  const theirs = task.question?.count ?? task.schema?.dim ?? request.dim;
  if (theirs !== request.dim) {
    const detail = `it asks for d = ${request.dim}, its task has ${theirs}`;
    throw new Ended("NOT_UNDERSTOOD", detail);
  }
  return request;
}

/** The columns of the owner's table that a task uses; null where it does not name them.
 * @param {Announcement} task @returns {readonly string[] | null} */
function columnsOf({ question, schema }) {
  return question?.names ?? schema?.columnsUsed ?? null;
}

/** Whether a round measures the model. @param {Announcement} task @param {number} round */
function measuresIn({ measure, rounds_per_epoch: rounds }, round) {
  return measure !== null && round % rounds >= rounds - measure.rounds;
}

/** Whether reports of a run belong to a task: they train its model, measure it, or answer its question.
 * @param {Announcement} task @param {string} run */
export function isOfTask(task, run) {
  return run === task.run || (task.measure !== null && measuredQuestion(task.run, run) !== null);
}

/** Whether a device measures the model and does not train, and in which epoch: it has, or by chance. One
 * whose policy or lifetime does not allow the questions trains. One that comes when an epoch measures
 * and has not trained yet measures, too.
 * @param {Client} client @param {Announcement} task @param {Facts} request
 * @returns {Promise<{ measures: boolean, epoch: number }>} */
async function roleOf(client, task, { round, epochs }) {
  const { measure, rounds_per_epoch: rounds } = task;
  const trains = { measures: false, epoch: 0 };
  if (measure === null) return trains;
  const { entries, left } = await client.history();
  const runs = new Set(entries.map(({ run }) => run));
  if (runs.has(task.run)) return trains;
  if ([...runs].some((run) => isOfTask(task, run))) return { measures: true, epoch: 0 };
  const { solutions, dimensions, perReport } = client.policy;
  const fits = solutions.includes("BR") && measure.answers.every((m) => dimensions.includes(m));
  const epsilon = Fraction.decimal(measure.epsilon);
  const most = left !== null && left.compare(perReport) < 0 ? left : perReport;
  if (!fits || epsilon.compare(most) > 0) return trains;
  const epoch = Math.floor(round / rounds);
  if (measuresIn(task, round)) return { measures: true, epoch };
  // A device measures once: which epoch, chance decides as well.
  const chosen = { measures: true, epoch: randomRound(epoch, epochs - 1) };
  return randomRound(1, rounds) <= measure.rounds * epochs ? chosen : trains;
}

/** A round from the first to the last, each as likely. @param {number} first @param {number} last */
function randomRound(first, last) {
  return first + Math.floor((last - first + 1) * Math.random());
}

/** End once the last epoch has all that this device gives. @param {Client} client
 * @param {Facts} request */
async function checkMoreToDo(client, { run, epoch, epochs }) {
  if (epoch < epochs - 1) return;
  const perEpoch = client.policy.reportsPerEpoch;
  const own = (await client.history()).entries.filter((entry) => entry.run === run);
  if (own.filter((entry) => entry.epoch === epoch).length >= perEpoch) {
    throw new Ended("DONE", `it has made ${own.length} of ${epochs * perEpoch}`);
  }
}

/** How a refusal ends taking part. @param {Refused} refused */
function refusal(refused) {
  if (refused.reason === "EXHAUSTED") return new Ended("SPENT");
  return new Ended("REFUSED", refused.message);
}

/** @param {import("./connection.js").Reply} reply */
function notUnderstood({ status, body }) {
  const word = wordOf(body);
  return new Ended("NOT_UNDERSTOOD", word ? `status ${status}, ${word}` : `status ${status}`);
}

/** @param {Uint8Array} body */
function kindOf(body) {
  try {
    return own(JSON.parse(new TextDecoder().decode(body))).kind;
  } catch {
    return null;
  }
}
