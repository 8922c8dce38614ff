/** The ledger inside one transaction: what it says, whether it is whole, and what is added to it.
 *
 * A ledger is one text: JSON in a line and the SHA-256 of that line in the next. Each entry and each
 * lifetime is linked to what came before it by SHA-256, and the witness, a second text, holds the
 * number of entries and the last link. So a ledger that was put back from a
 * copy is noticed as long as the witness was not put back with it.
 */

import { Fraction, ZERO } from "../exact/fraction.js";
import { fromHex, sameBytes, sha256, toHex } from "../hash.js";
import { checkText } from "../wire/intent.js";
import { decodeRecipe } from "../wire/recipe.js";
import { LedgerError } from "./refusal.js";
import { added, total } from "./spending.js";

const FORMAT = "fedsel ledger";
const WITNESS = "fedsel witness";
const VERSION = 2;
const FIRST_VERSION = 1; // which kept the present lifetime alone, outside of the chain
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
 * A lifetime ε: since when (null: before changes were recorded), after how many reports, and who
 * raised it; empty where nobody had to.
 * @typedef {object} Lifetime
 * @property {string} lifetime
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
 * @property {readonly Lifetime[]} lifetimes the present one is the last
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

/** The texts of a ledger that begins. @param {Fraction} lifetime @param {string} identity
 * @param {number} time @returns {Held} */
export function beginning(lifetime, identity, time) {
  const empty = { identity, reports: 0, spent: "0", head: GENESIS, runs: [], entries: [] };
  const state = withLifetime({ ...empty, lifetimes: [] }, String(lifetime), time, "");
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
    return fraction(this.#state.spent);
  }

  get lifetime() {
    return fraction(this.#state.lifetimes[this.#state.lifetimes.length - 1].lifetime);
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

  /** Lower the lifetime; raise it only in the name of somebody who allows that.
   * @param {Fraction} lifetime @param {number} time @param {string} by */
  setLifetime(lifetime, time, by) {
    const raised = lifetime.compare(this.lifetime);
    if (raised === 0) return;
    if (raised > 0 && !by) throw new LedgerError("LIFETIME");
    this.#state = withLifetime(this.#state, String(lifetime), time, raised > 0 ? by : "");
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
      spent: String(added(this.spent, fraction(entry.charge))),
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

/** @param {string} before @param {Omit<Lifetime, "link">} added */
function lifetimeLinkOf(before, { lifetime, time, reports, by }) {
  return linked(before, `["lifetime", "${lifetime}", ${time}, ${reports}, ${ascii(by)}]`);
}

/** The state with a further lifetime. @param {State} state @param {string} lifetime
 * @param {number | null} time @param {string} by @returns {State} */
function withLifetime(state, lifetime, time, by) {
  const added = { lifetime, time, reports: state.reports, by };
  const link = lifetimeLinkOf(state.head, added);
  return { ...state, head: link, lifetimes: [...state.lifetimes, { ...added, link }] };
}

/** A text of JSON in ASCII. @param {string} text */
function ascii(text) {
  return JSON.stringify(text).replace(/[\u007f-\uffff]/g, (unit) => {
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
  const known = [FIRST_VERSION, VERSION].includes(content?.version);
  if (typeof content !== "object" || content?.format !== format || !known) {
    throw new LedgerError("FOREIGN");
  }
  const right = toHex(sha256(new TextEncoder().encode(line)));
  if (digest !== right || end !== "" || more.length) throw new LedgerError("DAMAGED");
  return content;
}

/** The state of two texts, every link, sum and type of it checked. @param {Held} held */
function read(held) {
  const { format: _, version, ...content } = unsealed(FORMAT, held.ledger);
  const seen = unsealed(WITNESS, held.witness);
  let state = /** @type {State} */ (/** @type {unknown} */ (content));
  let places;
  try {
    if (version === FIRST_VERSION) {
      const { lifetime, ...rest } = content;
      state = /** @type {State} */ (/** @type {unknown} */ ({ ...rest, lifetimes: [] }));
      state = withLifetime(state, String(lifetime), null, "");
    }
    places = check(state);
  } catch {
    throw new LedgerError("DAMAGED");
  }
  // Where a commit was cut off between its two parts, the witness is one link behind. What was
  // added counts, and the next commit brings the witness up to date. The lifetime of the first
  // version was no link yet.
  const agrees = places
    .slice(version === FIRST_VERSION ? -3 : -2)
    .some(({ reports, link }) => seen.reports === reports && seen.head === link);
  if (seen.identity !== state.identity || !agrees) throw new LedgerError("DISAGREES");
  return state;
}

/** The number of reports and the link at each place of the chain. It throws unless the state is one
 * that our own code wrote. @param {State} state */
function check(state) {
  const { identity, lifetimes, spent, reports, head, runs, entries } = state;
  const known = new Map(runs.map((run) => [run.run, run]));
  const ours = runs.every(isRun) && known.size === runs.length;
  const chain = [{ reports: 0, link: GENESIS }];
  const waiting = [...lifetimes];
  const places = new Set();
  for (const [i, entry] of [...entries, null].entries()) {
    while (waiting.length && waiting[0].reports === i) {
      const next = /** @type {Lifetime} */ (waiting.shift());
      const link = lifetimeLinkOf(chain[chain.length - 1].link, next);
      if (!isLifetime(next) || link !== next.link) throw new RangeError("damaged");
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
  const charges = entries.map((entry) => fraction(entry.charge));
  const right =
    typeof identity === "string" &&
    lifetimes.length > 0 &&
    waiting.length === 0 &&
    ours &&
    places.size === entries.length &&
    reports === entries.length &&
    head === chain[chain.length - 1].link &&
    spent === String(total(charges));
  if (!right) throw new RangeError("damaged");
  return chain;
}

/** @param {Lifetime} one */
function isLifetime({ lifetime, time, by }) {
  checkText("by", by, "recipient");
  return (time === null || Number.isSafeInteger(time)) && fraction(lifetime).compare(ZERO) > 0;
}

/** @param {Run} run */
function isRun(run) {
  const task = fromHex(run.task);
  const texts = [run.run, run.purpose, run.recipient].every((text) => typeof text === "string");
  const residual = run.residual === null || typeof run.residual === "string";
  return texts && residual && typeof run.open === "boolean" && task && decodeRecipe(task) !== null;
}

/** @param {unknown} text */
function fraction(text) {
  const value = typeof text === "string" ? Fraction.parse(text) : null;
  if (value === null || String(value) !== text) throw new RangeError("not a fraction");
  return value;
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
