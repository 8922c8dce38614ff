/** Step 2: the person's policy, and what it means. */

import { Fraction, InvalidArgument, Policy } from "./client/index.js";
import { exactly, inPercent, written } from "./meaning.js";
import { byId } from "./show.js";

const NAMES = /** @type {Record<string, string>} */ ({
  lifetime: "ε in total",
  per_report: "ε of one report",
});

/** Longer than an update takes: else the time until a report comes tells how many records there are. */
const LEAST_SECONDS = 1;

export class Limits {
  #facts;
  #keys;
  #spent = new Fraction(0n);
  /** The total that the ledger allows; null where there is none. @type {Fraction | null} */
  #allowed = null;

  /** @param {import("./client/facts.js").Facts} facts of the request, checked and computed here
   * @param {import("./keys.js").Keys} keys */
  constructor(facts, keys) {
    this.#facts = facts;
    this.#keys = keys;
    for (const id of ["lifetime", "per-report"]) {
      byId(id).addEventListener("input", () => this.tell());
    }
  }

  /** What the task asks of a device in all: one report an epoch. */
  get asked() {
    return this.#facts.charge.times(BigInt(this.#facts.epochs));
  }

  /** Begin with the person's own limits, else with what the task asks for.
   * @param {{ lifetime?: string, perReport?: string }} kept @param {any} history or null */
  begin({ lifetime, perReport }, history) {
    this.#allowed = history?.lifetime ?? null;
    byId("lifetime").value = lifetime ?? written(this.#allowed ?? this.asked);
    byId("per-report").value = perReport ?? written(this.#facts.charge);
    // What another task has lowered since is raised by the person alone, not by what was kept.
    const own = this.policy();
    if (own && this.raises(own)) byId("lifetime").value = written(history.lifetime);
    this.know(history);
  }

  /** Say what the limits mean for the ledger as it is now. @param {any} history or null */
  know(history) {
    this.#spent = history?.spent ?? new Fraction(0n);
    this.#allowed = history?.lifetime ?? null;
    this.tell();
  }

  /** Whether a policy allows more in total than the ledger, as far as this page has said.
   * @param {Policy} policy */
  raises({ lifetime }) {
    return this.#allowed !== null && lifetime.compare(this.#allowed) > 0;
  }

  get written() {
    return {
      lifetime: byId("lifetime").value.trim(),
      perReport: byId("per-report").value.trim(),
    };
  }

  /** The policy, for this task as it was shown; null where a field is wrong, which is said. */
  policy() {
    const { recipe, purpose, recipient } = this.#facts;
    const { lifetime, perReport } = this.written;
    try {
      return new Policy({
        lifetime,
        per_report: perReport,
        solutions: [recipe.solution],
        dimensions: [recipe.dim],
        clip: recipe.clip,
        least_seconds: LEAST_SECONDS,
        purposes: purpose ? [purpose] : null,
        recipients: recipient ? [recipient] : null,
        ...this.#keys.policy,
      });
    } catch (error) {
      if (!(error instanceof InvalidArgument)) throw error;
      this.#say(`${NAMES[error.argument] ?? error.argument}: must be ${error.allowed}.`, true);
      byId(error.argument === "lifetime" ? "lifetime" : "per-report").setAttribute(
        "aria-invalid",
        "true",
      );
      byId("meaning").textContent = "";
      return null;
    }
  }

  /** Say what the limits allow, and what they mean. */
  tell() {
    for (const id of ["lifetime", "per-report"]) byId(id).removeAttribute("aria-invalid");
    const policy = this.policy();
    if (policy === null) return;
    const { charge, epochs } = this.#facts;
    const left = policy.lifetime.minus(this.#spent);
    const certainty = inPercent(policy.lifetime.toNumber());
    byId("meaning").textContent = byId("meaning").dataset.sentence.replace(
      "{certainty}",
      certainty,
    );
    if (charge.compare(policy.perReport) > 0) {
      this.#say(
        `Each report costs ε = ${exactly(charge)}, more than you allow: none will be made.`,
        true,
      );
      return;
    }
    const fit = left.over(charge).floor();
    const reports = Number(fit < 0n ? 0n : fit > BigInt(epochs) ? BigInt(epochs) : fit);
    const more = this.raises(policy) ? " This raises the total of your ledger, on record." : "";
    const all = `Each costs ε = ${exactly(charge)}.${more}`;
    if (reports === 0) this.#say(`Too little is left for a report. ${all}`, true);
    else if (reports < epochs)
      this.#say(`Enough for ${reports} of the ${epochs} reports that are asked for. ${all}`);
    else if (epochs === 1) this.#say(`Enough for the one report that is asked for. ${all}`);
    else this.#say(`Enough for all ${epochs} reports that are asked for. ${all}`);
  }

  /** @param {string} text @param {boolean} [bad] */
  #say(text, bad = false) {
    byId("limits-said").textContent = text;
    byId("limits-said").classList.toggle("bad", bad);
  }
}
