/** The ledger inside one transaction: what it says, whether it is whole, and what is added to it.
 *
 * A ledger is one text: JSON in a line and the SHA-256 of that line in the next. Each entry and each
 * decision of the owner is linked to what came before it by SHA-256, and the witness, a second text,
 * holds the number of entries and the last link. So a ledger that was put back from a copy is noticed
 * as long as the witness was not put back with it.
 */

import { fromHex, sameBytes, sha256, toHex } from "../hash.js";
import { NOTHING_STATED, checkText } from "../wire/intent.js";
import { decodeRecipe } from "../wire/recipe.js";
import { Limit, fits, loosened, sameLimits } from "./budget.js";
import { LedgerError } from "./refusal.js";
import { added, total, written } from "./spending.js";

/** @typedef {import("./budget.js").LimitRow} LimitRow */
/** @typedef {import("./budget.js").Past} Past */
/** @typedef {import("../exact/fraction.js").Fraction} Fraction */

const FORMAT = "fedsel ledger";
const WITNESS = "fedsel witness";
const VERSION = 3;
/** The first version kept the present lifetime alone, outside of the chain. The second kept all
 * lifetimes, linked as they are today, and nothing else was a limit. */
const [FIRST_VERSION, LIFETIMES_VERSION] = [1, 2];
const GENESIS = "0".repeat(64);
const SEAL_BYTES = 32;

/** One report: its place in the run, when (seconds since 1970), its ε, and its bytes, as text.
 * @typedef {object} Entry
 * @property {number} number
 * @property {string} run
 * @property {number} epoch
 * @property {number} round
 * @property {number} time
 * @property {string} charge
 * @property {string} digest SHA-256 of the request and the weights that it answers
 * @property {string} report
 * @property {string} link
 *
 * What the owner has decided: the limits (null: that the clock is right), when (null: before changes
 * were recorded), after how many reports, and who answers for it; empty where nobody had to.
 * @typedef {object} Decision
 * @property {readonly LimitRow[] | null} limits
 * @property {number | null} time
 * @property {number} reports
 * @property {string} by
 * @property {string} link
 *
 * A run: its recipe, what its server says of it, whether it is open, and what it has kept.
 * @typedef {object} Run
 * @property {string} run
 * @property {string} task
 * @property {string} purpose
 * @property {string} recipient
 * @property {boolean} open
 * @property {string | null} residual
 *
 * @typedef {object} State
 * @property {string} identity
 * @property {readonly Decision[]} decisions the first has limits, the present ones are the last
 * @property {number} reports
 * @property {string} spent
 * @property {string} head
 * @property {readonly Run[]} runs
 * @property {readonly Entry[]} entries
 *
 * What a store keeps: two texts.
 * @typedef {{ readonly ledger: string, readonly witness: string }} Held
 *
 * What takes its place, and the witness of what was there before: it is written first where it is
 * not what is held, so that a witness is never more than one link behind.
 * @typedef {Held & { readonly before: string }} Change
 */

/** The texts of a ledger that begins. @param {readonly Limit[]} limits @param {string} identity
 * @param {number} time @returns {Held} */
export function beginning(limits, identity, time) {
  const empty = { identity, reports: 0, spent: "0", head: GENESIS, runs: [], entries: [] };
  const state = decided({ ...empty, decisions: [] }, rowsOf(limits), time, "");
  return { ledger: sealed(FORMAT, state), witness: witnessOf(state) };
}

export class Books {
  /** @type {State} */
  #state;
  /** @type {State} */
  #before;

  /** The ledger of two texts; what our own code never wrote is refused.
   * @param {Held} held @param {{ held: Held, state: State } | null} known checked before */
  constructor(held, known = null) {
    const same = known?.held.ledger === held.ledger && known.held.witness === held.witness;
    this.#state = same ? known.state : read(held);
    this.#before = this.#state;
  }

  get state() {
    return this.#state;
  }

  get spent() {
    return written(this.#state.spent);
  }

  /** The present limits. */
  get limits() {
    const rows = this.#state.decisions.flatMap(({ limits }) => (limits === null ? [] : [limits]));
    return rows[rows.length - 1].map(Limit.of);
  }

  /** The latest time that the ledger knows: of its creation, a report, or a confirmation. */
  get knownTime() {
    return knownTimeOf(this.#state);
  }

  /** The reports as limits see them. */
  get past() {
    return pastOf(this.#state);
  }

  get reports() {
    return this.#state.reports;
  }

  /** What a store is to write; null where nothing has changed. @returns {Change | null} */
  change() {
    if (this.#state === this.#before) return null;
    const [ledger, witness] = [sealed(FORMAT, this.#state), witnessOf(this.#state)];
    return { ledger, witness, before: witnessOf(this.#before) };
  }

  /** @param {Partial<State>} changes */
  #put(changes) {
    this.#state = { ...this.#state, ...changes };
  }

  /** Make the limits stricter, or looser in the name of somebody who allows that.
   * @param {readonly Limit[]} limits @param {number} time @param {string} by */
  setLimits(limits, time, by) {
    if (sameLimits(limits, this.limits)) return;
    const looser = loosened(limits, this.limits);
    if (looser.length && !by) {
      const ever = limits.some((limit) => limit.isLifetime);
      if (ever && looser.every((limit) => limit.isLifetime)) throw new LedgerError("LIFETIME");
      throw new LedgerError("LIMITS", `“${looser[0]}”`);
    }
    this.#state = decided(this.#state, rowsOf(limits), time, looser.length ? by : "");
  }

  /** Note the time that the owner has confirmed. @param {number} time @param {string} by */
  confirm(time, by) {
    this.#state = decided(this.#state, null, time, by);
  }

  /** Whether all of these limits allow a report at a time. @param {readonly Limit[]} limits
   * @param {import("../wire/intent.js").Intent} stated @param {Fraction} charge @param {number} time */
  allows(limits, stated, charge, time) {
    const past = this.past;
    // The lifetime counts the sum that was checked already.
    return fits(limits, stated, charge, (limit) => {
      return limit.isLifetime ? this.spent : limit.held(past, time);
    });
  }

  /** The report of a round, if there is one. @param {string} run @param {number} round */
  answered(run, round) {
    return this.#state.entries.find((e) => e.run === run && e.round === round) ?? null;
  }

  /** The largest round and epoch that a run was answered in; −1 if none. @param {string} run */
  latest(run) {
    const own = this.#state.entries.filter((entry) => entry.run === run);
    return {
      round: own.reduce((most, entry) => Math.max(most, entry.round), -1),
      epoch: own.reduce((most, entry) => Math.max(most, entry.epoch), -1),
    };
  }

  /** @param {string} run @param {number} epoch */
  reportsIn(run, epoch) {
    return this.#state.entries.filter((e) => e.run === run && e.epoch === epoch).length;
  }

  /** How many reports are younger; those of a clock that ran ahead count as well.
   * @param {number} time */
  reportsSince(time) {
    return this.#state.entries.filter((entry) => entry.time > time).length;
  }

  /** What a run is; null for a new one. @param {string} run */
  taskOf(run) {
    return this.#state.runs.find((known) => known.run === run) ?? null;
  }

  /** Begin a run; the oldest ones beyond the limit are closed, their residuals erased.
   * @param {Pick<Run, "run" | "task" | "purpose" | "recipient">} task @param {number} atATime */
  openRun(task, atATime) {
    const runs = [...this.#state.runs, { ...task, open: true, residual: null }];
    const open = runs.filter((run) => run.open);
    const closed = new Set(open.slice(0, Math.max(0, open.length - atATime)));
    this.#put({
      runs: runs.map((run) => (closed.has(run) ? { ...run, open: false, residual: null } : run)),
    });
  }

  /** What a run has kept of earlier updates: zeros at first.
   * @param {string} run @param {number} dim */
  residual(run, dim) {
    const kept = this.taskOf(run)?.residual ?? null;
    const residual = new Float32Array(dim);
    if (kept === null) return residual;
    const bytes = fromHex(kept);
    if (bytes === null || bytes.length !== 4 * dim + SEAL_BYTES) throw new LedgerError("DAMAGED");
    const content = bytes.subarray(0, 4 * dim);
    if (!sameBytes(sealOf(run, content), bytes.subarray(4 * dim))) throw new LedgerError("DAMAGED");
    const view = new DataView(bytes.buffer);
    return residual.map((_, i) => view.getFloat32(4 * i, true));
  }

  /** Charge a report and keep the residual (null: erase it).
   * @param {Omit<Entry, "number" | "link">} report @param {Float32Array | null} residual */
  record(report, residual) {
    const { runs, entries, head, reports } = this.#state;
    const entry = { number: reports + 1, ...report, link: "" };
    entry.link = linkOf(head, entry, this.taskOf(entry.run));
    const kept = residual === null ? null : packed(entry.run, residual);
    this.#put({
      reports: entry.number,
      spent: String(added(this.spent, written(entry.charge))),
      head: entry.link,
      entries: [...entries, entry],
      runs: runs.map((run) => (run.run === entry.run ? { ...run, residual: kept } : run)),
    });
  }
}

/** SHA-256 of the link before and of an entry, written as a list of JSON; what was stated of the
 * run is at the end of the list, if anything. @param {string} before @param {Entry} entry
 * @param {Pick<Run, "purpose" | "recipient"> | null} stated */
export function linkOf(before, entry, stated) {
  const texts =
    stated && (stated.purpose || stated.recipient) ? [stated.purpose, stated.recipient] : [];
  const content =
    `[${entry.number}, ${entry.epoch}, ${entry.round}, ${entry.time}, "${entry.charge}", ` +
    `"${entry.run}", "${entry.digest}", "${entry.report}"${texts.map((t) => `, ${ascii(t)}`).join("")}]`;
  return linked(before, content);
}

/** @param {string} before @param {string} content */
function linked(before, content) {
  const link = fromHex(before);
  if (link === null) throw new LedgerError("DAMAGED");
  return toHex(sha256(link, new TextEncoder().encode(content)));
}

/** The link of a decision, written as a list of JSON: as in the second version where it is a lifetime
 * and nothing else. @param {string} before @param {Omit<Decision, "link">} decision */
function decisionLinkOf(before, { limits, time, reports, by }) {
  if (limits === null) return linked(before, ascii(["clock", time, reports, by]));
  const [[epsilon, ...rest], ...others] = limits;
  if (others.length || rest.some((value) => value !== null)) {
    return linked(before, ascii(["limits", limits, time, reports, by]));
  }
  return linked(before, `["lifetime", "${epsilon}", ${time}, ${reports}, ${ascii(by)}]`);
}

/** The state with a further decision. @param {State} state @param {readonly LimitRow[] | null} limits
 * @param {number | null} time @param {string} by @returns {State} */
function decided(state, limits, time, by) {
  const decision = { limits, time, reports: state.reports, by };
  const link = decisionLinkOf(state.head, decision);
  return { ...state, head: link, decisions: [...state.decisions, { ...decision, link }] };
}

/** @param {readonly Limit[]} limits */
function rowsOf(limits) {
  return limits.map(({ row }) => row);
}

/** @param {State} state */
export function knownTimeOf({ decisions, entries }) {
  const [{ time: begun }] = decisions;
  const confirmed = decisions.flatMap((one) => (one.limits === null ? [one.time] : []));
  const times = [begun, ...confirmed, ...entries.map(({ time }) => time)];
  return times.reduce((most, time) => (most === null || (time ?? most) > most ? time : most), null);
}

/** @param {State} state @returns {Past[]} */
export function pastOf({ runs, entries }) {
  const stated = new Map(runs.map((run) => [run.run, run]));
  return entries.map(({ run, time, charge }) => {
    const { purpose, recipient } = stated.get(run) ?? NOTHING_STATED;
    return { time, charge, purpose, recipient };
  });
}

/** JSON in ASCII. @param {unknown} value */
function ascii(value) {
  return JSON.stringify(value).replace(/[\u007f-\uffff]/g, (unit) => {
    return `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`;
  });
}

/** @param {string} format @param {object} content */
function sealed(format, content) {
  const line = JSON.stringify({ format, version: VERSION, ...content });
  return `${line}\n${toHex(sha256(new TextEncoder().encode(line)))}\n`;
}

/** @param {State} state */
function witnessOf({ identity, reports, head }) {
  return sealed(WITNESS, { identity, reports, head });
}

/** @param {string} format @param {string} text @returns {Record<string, unknown>} */
function unsealed(format, text) {
  const [line, digest, end, ...more] = text.split("\n");
  let content;
  try {
    content = JSON.parse(line);
  } catch {
    throw new LedgerError(text.startsWith(`{"format":"${format}"`) ? "DAMAGED" : "FOREIGN");
  }
  const known = [FIRST_VERSION, LIFETIMES_VERSION, VERSION].includes(content?.version);
  if (typeof content !== "object" || content?.format !== format || !known) {
    throw new LedgerError("FOREIGN");
  }
  const right = toHex(sha256(new TextEncoder().encode(line)));
  if (digest !== right || end !== "" || more.length) throw new LedgerError("DAMAGED");
  return content;
}

/** The state of two texts, every link, sum and type of it checked. @param {Held} held */
function read(held) {
  const content = unsealed(FORMAT, held.ledger);
  const seen = unsealed(WITNESS, held.witness);
  let state;
  let places;
  try {
    state = broughtUpToDate(content);
    places = check(state);
  } catch {
    throw new LedgerError("DAMAGED");
  }
  // Where a commit was cut off between its two parts, the witness is one link behind. What was
  // added counts, and the next commit brings the witness up to date. The lifetime of the first
  // version was no link yet: beside it the witness may be one older.
  const late = state.decisions.find(({ time }) => time === null)?.link;
  const newest = places.slice(places.slice(-2).some(({ link }) => link === late) ? -3 : -2);
  const agrees = newest.some(({ reports, link }) => seen.reports === reports && seen.head === link);
  if (seen.identity !== state.identity || !agrees) throw new LedgerError("DISAGREES");
  return state;
}

/** The state of a ledger of any version. @param {Record<string, unknown>} content @returns {State} */
function broughtUpToDate({ format: _, version, ...content }) {
  const state = /** @type {any} */ (content);
  if (version === VERSION) return state;
  const { lifetime, lifetimes = [], ...rest } = state;
  const decisions = lifetimes.map((/** @type {any} */ { lifetime: epsilon, ...one }) => {
    return { limits: [[epsilon, null, null, null]], ...one };
  });
  const found = { ...rest, decisions };
  if (version === LIFETIMES_VERSION) return found;
  return decided(found, [[String(lifetime), null, null, null]], null, "");
}

/** The number of reports and the link at each place of the chain. It throws unless the state is one
 * that our own code wrote. @param {State} state */
function check(state) {
  const { identity, decisions, spent, reports, head, runs, entries } = state;
  const known = new Map(runs.map((run) => [run.run, run]));
  const ours = runs.every(isRun) && known.size === runs.length;
  const chain = [{ reports: 0, link: GENESIS }];
  const waiting = [...decisions];
  const places = new Set();
  for (const [i, entry] of [...entries, null].entries()) {
    while (waiting.length && waiting[0].reports === i) {
      const next = /** @type {Decision} */ (waiting.shift());
      const link = decisionLinkOf(chain[chain.length - 1].link, next);
      if (!isDecision(next) || link !== next.link) throw new RangeError("damaged");
      chain.push({ reports: i, link });
    }
    if (entry === null) break;
    const run = known.get(entry.run);
    const { number, epoch, round, time } = entry;
    const whole = [number, epoch, round, time].every(Number.isSafeInteger) && number === i + 1;
    const link = linkOf(chain[chain.length - 1].link, entry, run ?? null);
    if (!run || !whole || link !== entry.link) throw new RangeError("damaged");
    chain.push({ reports: number, link });
    places.add(`${entry.run} ${round}`);
  }
  const right =
    typeof identity === "string" &&
    decisions.length > 0 &&
    decisions[0].limits !== null &&
    waiting.length === 0 &&
    ours &&
    places.size === entries.length &&
    reports === entries.length &&
    head === chain[chain.length - 1].link &&
    spent === String(total(entries.map(({ charge }) => charge)));
  if (!right) throw new RangeError("damaged");
  return chain;
}

/** @param {Decision} one */
function isDecision({ limits, time, by }) {
  checkText("by", by, "recipient");
  // Limits that are there are read, which throws for what our own code never wrote.
  const known = limits === null ? time !== null : limits.map(Limit.of).length > 0;
  return known && (time === null || Number.isSafeInteger(time));
}

/** @param {Run} run */
function isRun(run) {
  const task = fromHex(run.task);
  const texts = [run.run, run.purpose, run.recipient].every((text) => typeof text === "string");
  const residual = run.residual === null || typeof run.residual === "string";
  return texts && residual && typeof run.open === "boolean" && task && decodeRecipe(task) !== null;
}

/** @param {string} run @param {Float32Array} residual */
function packed(run, residual) {
  const content = new Uint8Array(4 * residual.length);
  const view = new DataView(content.buffer);
  residual.forEach((entry, i) => view.setFloat32(4 * i, entry, true));
  return toHex(content) + toHex(sealOf(run, content));
}

/** @param {string} run @param {Uint8Array} content */
function sealOf(run, content) {
  return sha256(/** @type {Uint8Array} */ (fromHex(run)), content);
}
