/** Step 2: the person's policy, and what it means. */

import { duration, isFarAhead, latest, loosened } from "./client/device/budget.js";
import { Fraction, InvalidArgument, Policy, SOLUTIONS } from "./client/index.js";
import { exactly, inPercent, written } from "./meaning.js";
import { runsOf } from "./question.js";
import { byId } from "./show.js";

/** @typedef {import("./client/device/ledger.js").History} History */

/** Fields of the policy: how the page calls them, and where they are. */
const NAMES = /** @type {Record<string, [string, string]>} */ ({
  lifetime: ["ε in total", "lifetime"],
  per_report: ["ε of one report", "per-report"],
  per_window: ["ε in any such time", "window"],
});
const FIELDS = Object.values(NAMES).map(([, id]) => id);

/** Longer than an update takes: else the time until a report comes tells how many records there are. */
const LEAST_SECONDS = 1;

export class Limits {
  #facts;
  #keys;
  #task;
  /** What measuring the model costs; null where no device does. @type {Fraction | null} */
  #measuring;
  /** The ledger as it was last seen; null where there is none. @type {History | null} */
  #history = null;

  /** @param {import("./client/facts.js").Facts} facts of the request, checked and computed here
   * @param {import("./keys.js").Keys} keys
   * @param {import("./client/wire/contract.js").Announcement} task */
  constructor(facts, keys, task) {
    this.#facts = facts;
    this.#keys = keys;
    this.#task = task;
    this.#measuring = task.measure && Fraction.decimal(task.measure.epsilon);
    for (const id of [...FIELDS, "window-length"]) {
      byId(id).addEventListener("input", () => this.tell());
    }
  }

  /** What the task asks of a device in all, at most: one report an epoch, or one that measures. */
  get asked() {
    return this.#most(this.#facts.charge.times(BigInt(this.#facts.epochs)));
  }

  /** The larger of an ε and what measuring costs. @param {Fraction} epsilon */
  #most(epsilon) {
    const measuring = this.#measuring;
    return measuring !== null && measuring.compare(epsilon) > 0 ? measuring : epsilon;
  }

  /** Begin with the person's own limits, else with what the task asks for.
   * @param {import("./keeping.js").Kept} kept @param {History | null} history */
  begin({ lifetime, perReport, window = "", windowLength }, history) {
    this.#history = history;
    byId("lifetime").value = lifetime ?? written(this.asked);
    byId("per-report").value = perReport ?? written(this.#most(this.#facts.charge));
    setWindow(window, windowLength);
    // What another task has lowered since is raised by the person alone, not by what was kept.
    const own = this.policy();
    if (history && (lifetime === undefined || (own && this.raises(own)))) {
      const { limits } = history;
      const renewing = limits.find((limit) => limit.seconds !== null && limit.purpose === null);
      byId("lifetime").value = history.lifetime === null ? "" : written(history.lifetime);
      if (!renewing) setWindow("");
      else setWindow(written(renewing.epsilon), duration(Number(renewing.seconds)));
    }
    byId("renewal").open = byId("window").value !== "";
    this.tell();
  }

  /** Say what the limits mean for the ledger as it is now. @param {History | null} history */
  know(history) {
    this.#history = history;
    this.tell();
  }

  /** Whether a policy allows more than the ledger, as far as this page has said.
   * @param {Policy} policy */
  raises({ limits }) {
    return this.#history !== null && loosened(limits, this.#history.limits).length > 0;
  }

  /** Whether the person must confirm the clock, before a budget that renews can be used. */
  get clockIsAhead() {
    const [policy, history] = [this.policy(), this.#history];
    if (policy === null || history === null) return false;
    const limits = [...policy.limits, ...history.limits];
    return isFarAhead(limits, policy.clockTolerance, Date.now() / 1000, history.knownTime);
  }

  /** What may be spent now under every limit. @param {Policy} policy @returns {Fraction} */
  #left({ limits }) {
    const { past, knownTime } = this.#history ?? { past: [], knownTime: null };
    const time = latest(Date.now() / 1000, knownTime);
    const lefts = limits.map((limit) => limit.standing(past, time).left);
    return lefts.reduce((least, left) => (left.compare(least) < 0 ? left : least));
  }

  get written() {
    return {
      lifetime: byId("lifetime").value.trim(),
      perReport: byId("per-report").value.trim(),
      window: byId("window").value.trim(),
      windowLength: byId("window-length").value,
    };
  }

  /** The policy, for this task as it was shown; null where a field is wrong, which is said. It allows
   * measuring the model where what is left suffices, or has. */
  policy() {
    const policy = this.#policy(false);
    const suffices = policy !== null && this.#suffices(policy);
    return suffices || this.#hasMeasured ? this.#policy(true) : policy;
  }

  /** Whether a policy leaves what measuring the model costs. @param {Policy} policy */
  #suffices(policy) {
    const measuring = this.#measuring;
    if (measuring === null || measuring.compare(policy.perReport) > 0) return false;
    return measuring.compare(this.#left(policy)) <= 0;
  }

  /** Whether this browser has measured the model of this task. */
  get #hasMeasured() {
    const { run } = this.#task;
    const runs = runsOf(this.#task);
    return (this.#history?.entries ?? []).some((e) => e.run !== run && runs.has(e.run));
  }

  /** @param {boolean} measures whether it allows measuring the model @returns {Policy | null} */
  #policy(measures) {
    const { measure, schema, solution = "" } = this.#task;
    const { recipe, purpose, recipient } = this.#facts;
    const { lifetime, perReport, window, windowLength } = this.written;
    try {
      return new Policy({
        lifetime: lifetime || !window ? lifetime : null,
        per_report: perReport,
        per_window: window ? [window, windowLength] : null,
        // The open round may measure while this device has trained, and trains again.
        solutions: listed(
          recipe.solution,
          measure && SOLUTIONS.includes(solution) && solution,
          measures && "BR",
        ),
        dimensions: listed(recipe.dim, schema?.dim, ...(measures ? (measure?.answers ?? []) : [])),
        clip: measure ? Math.max(recipe.clip, 1) : recipe.clip,
        least_seconds: LEAST_SECONDS,
        purposes: purpose ? [purpose] : null,
        recipients: recipient ? [recipient] : null,
        ...this.#keys.policy,
      });
    } catch (error) {
      if (!(error instanceof InvalidArgument)) throw error;
      const [name, id] = NAMES[error.argument] ?? [error.argument, "per-report"];
      this.#say(`${name}: must be ${error.allowed}.`, true);
      byId(id).setAttribute("aria-invalid", "true");
      byId("meaning").textContent = "";
      return null;
    }
  }

  /** Say what the limits allow, and what they mean. */
  tell() {
    for (const id of FIELDS) byId(id).removeAttribute("aria-invalid");
    const policy = this.policy();
    if (policy === null) return;
    const { charge, epochs } = this.#facts;
    const left = this.#left(policy);
    byId("meaning").textContent = meaningOf(policy, byId("meaning").dataset.sentence);
    if (charge.compare(policy.perReport) > 0) {
      this.#say(
        `Each report costs ε = ${exactly(charge)}, more than you allow: none will be made.`,
        true,
      );
      return;
    }
    const fit = left.over(charge).floor();
    const reports = Number(fit > BigInt(epochs) ? BigInt(epochs) : fit);
    const now = policy.perWindow === null ? "" : " now";
    const more = this.raises(policy) ? " This raises the limits of your ledger, on record." : "";
    const all = `Each costs ε = ${exactly(charge)}.${this.#measuringWords(policy)}${more}`;
    if (reports === 0) this.#say(`Too little is left${now} for a report. ${all}`, true);
    else if (reports < epochs)
      this.#say(`Enough${now} for ${reports} of the ${epochs} reports that are asked for. ${all}`);
    else if (epochs === 1) this.#say(`Enough for the one report that is asked for. ${all}`);
    else this.#say(`Enough for all ${epochs} reports that are asked for. ${all}`);
  }

  /** Whether these limits let this device measure the model. @param {Policy} policy */
  #measuringWords(policy) {
    if (this.#measuring === null || this.#facts.solution === "BR") return "";
    const cost = `ε = ${exactly(this.#measuring)}`;
    const same = this.#measuring.equals(this.#facts.charge) && this.#facts.epochs === 1;
    if (this.#suffices(policy))
      return same ? "" : ` If it measures, it makes one report of ${cost} instead.`;
    return ` It trains and does not measure, which would cost ${cost}.`;
  }

  /** @param {string} text @param {boolean} [bad] */
  #say(text, bad = false) {
    byId("limits-said").textContent = text;
    byId("limits-said").classList.toggle("bad", bad);
  }
}

/** What there is of some values, each once. @param {any[]} values @returns {any[]} */
function listed(...values) {
  return [...new Set(values.filter(Boolean))];
}

/** @param {string} epsilon @param {string} [length] */
function setWindow(epsilon, length) {
  byId("window").value = epsilon;
  const choice = byId("window-length");
  if (length === undefined) return;
  const known = [...choice.options].some(({ value }) => value === length);
  if (!known) choice.add(new Option(length, length));
  choice.value = length;
}

/** What limits mean for a person. @param {Policy} policy
 * @param {string} sentence about all that is ever sent, with a place for the certainty */
function meaningOf({ lifetime, perWindow }, sentence) {
  const certain = (/** @type {Fraction} */ epsilon) => inPercent(epsilon.toNumber());
  if (lifetime !== null) return sentence.replace("{certainty}", certain(lifetime));
  const [epsilon, length] = /** @type {NonNullable<typeof perWindow>} */ (perWindow);
  return `What is sent in any ${length}, by itself, makes an observer who considered two contents of your device equally likely at most ${certain(epsilon)} certain which of them is true. What is sent in many such times adds up, without a bound.`;
}
