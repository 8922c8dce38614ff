/** A device that takes part: answers one round of each epoch, and sends until it is answered.
 *
 * A report is charged and durable before it is sent. What was charged and is not known to have
 * arrived is sent first, whatever has happened in between: the same bytes, from the ledger.
 */

import { LinearModel, Preparing, Refused, readRequest } from "./client/index.js";
import { kept } from "./keeping.js";
import { featureNames } from "./data.js";
import { NotUnderstood, Unreachable, getJson, getPart, isInvited, send } from "./service.js";

/** Milliseconds between two looks at the service: at first, while nothing changes, while it is away. */
const [PERIOD, QUIET, LONGEST] = [2_000, 15_000, 60_000];
/** A round that waits longer for reports than that has too few devices. */
const OVERDUE = 20_000;

/** @typedef {object} Told what the device tells the page
 * @property {(now: any) => void} round the open round, as the service describes it
 * @property {() => Promise<void>} ledger something was charged, or has arrived
 * @property {(model: any) => void} model
 * @property {(waits: "epoch" | "last" | "turn" | "service") => void} waiting
 *
 * "invitation" is refused before anything is charged, "uninvited" afterwards.
 * @typedef {"over" | "invitation" | "uninvited" | "conflict" | "strange" | "stopped" | "sent" | import("./client/device/refusal.js").Reason} End
 */

export class Device {
  #client;
  #task;
  #token;
  #records;
  #told;
  /** Of the last model that was seen, and the model itself until it is shown. */
  #etag = "";
  /** @type {any} */
  #model = null;
  /** The round that was last seen, since when, and how often. */
  #round = -1;
  #since = 0;
  #looks = 0;
  /** The round of an epoch that is ours to answer. */
  #turn = { epoch: -1, round: -1 };
  #invited = false;

  /** @param {import("./client/index.js").Client} client
   * @param {import("./data.js").Task} task @param {string} token
   * @param {import("./data.js").Records | null} records none: only what was charged is sent
   * @param {Told} told */
  constructor(client, task, token, records, told) {
    this.#client = client;
    this.#task = task;
    this.#token = token;
    this.#records = records;
    this.#told = told;
  }

  /** Take part until the run is over, or something must be decided by the person.
   * @param {AbortSignal} signal @returns {Promise<End>} */
  async run(signal) {
    let failures = 0;
    while (!signal.aborted) {
      let least = 0;
      try {
        const end = await this.#step();
        if (end !== null) {
          this.#showModel();
          return end;
        }
        failures = 0;
      } catch (error) {
        if (error instanceof Refused) return error.reason;
        if (error instanceof NotUnderstood) return "strange";
        if (!(error instanceof Unreachable)) throw error;
        failures += 1;
        least = 1000 * error.seconds;
        this.#told.waiting("service");
      }
      // Devices that were refused together must not come back together.
      const away = Math.min(LONGEST, PERIOD * 2 ** failures);
      const period = failures ? away : Math.min(QUIET, PERIOD * 1.2 ** this.#looks);
      const length = Math.max(least, period * (0.75 + 0.5 * Math.random()));
      const paused = pause(length, failures > 0, signal);
      this.#showModel();
      await paused;
    }
    return "stopped";
  }

  /** Show a new model, while no request waits for it: how long it takes to judge it on the person's
   * records tells how many those are. */
  #showModel() {
    if (this.#model !== null) this.#told.model(this.#model);
    this.#model = null;
  }

  /** @returns {Promise<End | null>} */
  async #step() {
    this.#invited ||= await isInvited(this.#token);
    if (!this.#invited) return "invitation";
    const refused = await this.#deliver();
    if (refused) return refused;
    if (this.#records === null) return "sent";
    const now = await getJson("rounds/open");
    this.#told.round(now);
    this.#looks += 1;
    if (now.round !== this.#round) {
      [this.#round, this.#since, this.#looks] = [now.round, performance.now(), 0];
    }
    if (now.model !== this.#etag) {
      this.#model = await getJson("model.json");
      this.#etag = now.model;
    }
    if (now.finished) return "over";
    const waits = now.epoch + 1 < this.#task.epochs ? "epoch" : "last";
    if (await this.#hasAnswered(now.epoch)) {
      this.#told.waiting(waits);
      return null;
    }
    if (!this.#isOurTurn(now)) {
      this.#looks = 0;
      this.#told.waiting("turn");
      return null;
    }
    try {
      if (!(await this.#answer())) return null; // the round has just ended: nothing was spent
    } catch (error) {
      if (!(error instanceof Refused) || error.reason !== "TOO_OFTEN") throw error;
      this.#told.waiting(waits);
      return null;
    }
    await this.#told.ledger();
    const end = await this.#deliver();
    if (end === null) this.#told.waiting(waits);
    return end;
  }

  /** Whether to answer the open round: one of the epoch's, at random. If all answered the first that
   * they see, most would come too late, and later rounds would be empty.
   * @param {{ epoch: number, round: number }} now */
  #isOurTurn({ epoch, round }) {
    const { rounds_per_epoch: rounds, close_after: rule } = this.#task;
    if (this.#turn.epoch !== epoch) {
      const ahead = (epoch + 1) * rounds - round;
      this.#turn = { epoch, round: round + Math.floor(Math.max(1, ahead) * Math.random()) };
    }
    const overdue = rule.seconds ? 1000 * rule.seconds : OVERDUE;
    return round >= this.#turn.round || performance.now() - this.#since > overdue;
  }

  /** @param {number} epoch */
  async #hasAnswered(epoch) {
    const { entries } = await this.#client.history();
    return entries.some((entry) => entry.run === this.#task.run && entry.epoch === epoch);
  }

  /** Answer the open round; whether there was one. */
  async #answer() {
    const request = await getPart("open", "request");
    if (request === null) return false;
    const { run, round, dim } = readRequest(request);
    if (run !== this.#task.run) throw new Refused("CONFLICT"); // not what the person was shown
    if (dim !== featureNames(this.#task).length + 1) throw new NotUnderstood();
    const [weights, told] = [await getPart(round, "weights"), await getPart(round, "preparing")];
    if (weights === null || told === null) return false;
    await this.#client.answer(request, weights, this.#update(round, dim, told));
    return true;
  }

  /** What to tell in a round: a function of the weights, in which alone records are used.
   * @param {number} round @param {number} dim @param {Uint8Array} told how records are prepared */
  #update(round, dim, told) {
    const { preparing, model } = this.#prepared(dim, told);
    const { X, y } = /** @type {import("./data.js").Records} */ (this.#records);
    return (/** @type {Float32Array | Float64Array} */ weights) => {
      // Where no record can be used the device answers all the same, on zeros: who stays away is
      // seen.
      if (!X.length) return new Float64Array(dim);
      return preparing.records(X, y, model).update(round, preparing.preparation)(weights);
    };
  }

  /** What the service says of records, if it suits the task. @param {number} dim
   * @param {Uint8Array} told */
  #prepared(dim, told) {
    const features = featureNames(this.#task).length;
    try {
      const preparing = Preparing.parse(new TextDecoder().decode(told), features);
      const model = new LinearModel({ loss: this.#task.loss ?? undefined });
      const { scale, preparation, plan } = preparing;
      const fits = scale.low.length === features && preparation.size === dim;
      if (fits && (plan === null || plan.dim === dim)) return { preparing, model };
    } catch {
      // Told below.
    }
    throw new NotUnderstood();
  }

  /** Send what was charged and is not known to have arrived; why that cannot go on, if it cannot.
   * @returns {Promise<"uninvited" | "conflict" | null>} */
  async #deliver() {
    const { run } = this.#task;
    const { entries } = await this.#client.history();
    for (const { run: asked, round, report } of entries) {
      const { outcomes = {} } = await kept(run);
      if (asked !== run || outcomes[round]) continue;
      const outcome = await send(report, this.#token);
      if (outcome === "uninvited") return "uninvited";
      await kept(run, { outcomes: { ...outcomes, [round]: outcome } });
      await this.#told.ledger();
      if (outcome === "conflict") return "conflict"; // others would be paid for in vain, too
    }
    return null;
  }
}

/** Wait so long, or until the network is back, or until it is to end. @param {number} milliseconds
 * @param {boolean} offline @param {AbortSignal} signal */
function pause(milliseconds, offline, signal) {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      removeEventListener("online", end);
      signal.removeEventListener("abort", end);
      resolve(undefined);
    };
    const timer = setTimeout(end, milliseconds);
    if (offline) addEventListener("online", end);
    signal.addEventListener("abort", end);
  });
}
