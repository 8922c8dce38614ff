/** Limits of ε: how much of it reports may cost, for what and for whom, ever or in any interval.
 *
 * A `Limit` is at most ε of the reports whose run stated its texts: of all that will ever be made, or
 * of those in any closed interval of so many seconds. The lifetime of a policy, its window and each
 * entry of its menu are such limits. One rule judges them all: a report is allowed if for each limit
 * that concerns it the charges that count, added up as a ledger does, and its own are ε at most.
 *
 * A window counts entries with time ≥ t − seconds, where t is the time of the report. Times are whole
 * seconds that never decrease, so every interval of the clock is covered. It is what
 * `fedsel.device._budget` does in Python.
 *
 * @typedef {import("../wire/intent.js").Intent} Intent
 *
 * A report of the past, as limits see it: when, its charge as it is written, and its texts.
 * @typedef {{ time: number, charge: string, purpose: string, recipient: string }} Past
 *
 * What a limit is written as: ε, seconds (null: ever), purpose and recipient (null: any).
 * @typedef {readonly [string, number | null, string | null, string | null]} LimitRow
 *
 * What a limit counts at a time, what it has ever counted, what may be spent now, and what it gives
 * back when, if no more reports are made.
 * @typedef {object} Standing
 * @property {Limit} limit
 * @property {Fraction} held
 * @property {Fraction} ever
 * @property {Fraction} left
 * @property {[number, Fraction][]} renewals
 *
 * At most ε in any interval of a length: [2, "30 days"].
 * @typedef {readonly [number | string, string]} Window
 *
 * What a policy allows for a purpose or a recipient; the policy itself allows it for any.
 * @typedef {object} MenuFields
 * @property {string | null} [purpose]
 * @property {string | null} [recipient]
 * @property {number | string | null} [per_report]
 * @property {number | string | null} [lifetime]
 * @property {Window | null} [per_window]
 */

import { InvalidArgument, own } from "../errors.js";
import { Fraction, ZERO } from "../exact/fraction.js";
import { FIELDS, checkText } from "../wire/intent.js";
import { added, total, written } from "./spending.js";

const MOST_EPSILON = new Fraction(500n);
/** The most digits of a number in a policy, and its largest exponent. */
const MOST_DIGITS = 300;
const UNITS = /** @type {Record<string, number>} */ ({ week: 604_800, day: 86_400, hour: 3_600 });
const DURATION = /^(?:([1-9][0-9]{0,4}) (hour|day|week)s|(1) (hour|day|week))$/;
const LONGEST = 3_650 * UNITS.day;

/** At most ε of the reports that stated these texts, in any closed interval of `seconds`: null for
 * all reports ever; a text is null where any may be stated. */
export class Limit {
  /** @param {Fraction} epsilon @param {number | null} [seconds] @param {string | null} [purpose]
   * @param {string | null} [recipient] */
  constructor(epsilon, seconds = null, purpose = null, recipient = null) {
    /** @readonly */
    this.epsilon = epsilon;
    /** @readonly */
    this.seconds = seconds;
    /** @readonly */
    this.purpose = purpose;
    /** @readonly */
    this.recipient = recipient;
    Object.freeze(this);
  }

  /** Read a limit as a ledger writes it; it throws for what our own code never wrote.
   * @param {LimitRow} row */
  static of([epsilon, seconds, purpose, recipient, ...more]) {
    const texts = [purpose, recipient].every((text) => text === null || typeof text === "string");
    const lasts = seconds === null || (Number.isSafeInteger(seconds) && seconds > 0);
    const limit = new Limit(written(epsilon), seconds, purpose, recipient);
    if (!texts || !lasts || more.length || limit.epsilon.compare(ZERO) <= 0) {
      throw new RangeError("not a limit");
    }
    return limit;
  }

  /** @returns {LimitRow} */
  get row() {
    return [String(this.epsilon), this.seconds, this.purpose, this.recipient];
  }

  toString() {
    const lasting = this.seconds === null ? "ever" : `in any ${duration(this.seconds)}`;
    const texts = FIELDS.filter((field) => this[field] !== null).map(
      (field) => `the ${field} "${this[field]}"`,
    );
    const stated = texts.length ? ` for ${texts.join(" and ")}` : "";
    return `ε = ${Number(this.epsilon.toNumber().toPrecision(6))} ${lasting}${stated}`;
  }

  /** Whether it is the limit of all reports ever, whatever they stated. */
  get isLifetime() {
    return this.seconds === null && this.purpose === null && this.recipient === null;
  }

  /** Whether it counts reports that stated this, letter by letter. @param {Intent} stated */
  concerns(stated) {
    return FIELDS.every((field) => this[field] === null || this[field] === stated[field]);
  }

  /** What it counts for a report at a time. @param {readonly Past[]} past @param {number} time */
  held(past, time) {
    return total(this.#counted(past, time).map(({ charge }) => charge));
  }

  /** @param {readonly Past[]} past @param {number} time */
  #counted(past, time) {
    const since = this.seconds === null ? -Infinity : time - this.seconds;
    return past.filter((one) => one.time >= since && this.concerns(one));
  }

  /** Whether reports within this limit are within the other one, whatever they are.
   * @param {Limit} other */
  implies(other) {
    const lasts = this.seconds ?? Infinity;
    return (
      this.epsilon.compare(other.epsilon) <= 0 &&
      FIELDS.every((field) => this[field] === null || this[field] === other[field]) &&
      lasts >= (other.seconds ?? Infinity)
    );
  }

  /** What it counts at a time, has ever counted, and gives back when.
   * @param {readonly Past[]} past @param {number} time @returns {Standing} */
  standing(past, time) {
    const { seconds, epsilon } = this;
    const held = this.held(past, time);
    const left = epsilon.minus(held);
    const given = /** @type {Map<number, Fraction>} */ (new Map());
    for (const one of seconds === null ? [] : this.#counted(past, time)) {
      const end = one.time + /** @type {number} */ (seconds) + 1;
      given.set(end, (given.get(end) ?? ZERO).plus(written(one.charge)));
    }
    return {
      limit: this,
      held,
      ever: total(past.filter((one) => this.concerns(one)).map(({ charge }) => charge)),
      left: left.compare(ZERO) > 0 ? left : ZERO,
      renewals: [...given].sort(([one], [other]) => one - other),
    };
  }
}

/** Limits without those that are there twice. @param {Iterable<Limit>} limits */
export function distinct(limits) {
  const known = /** @type {Map<string, Limit>} */ (new Map());
  for (const limit of limits) {
    const key = JSON.stringify(limit.row);
    if (!known.has(key)) known.set(key, limit);
  }
  return [...known.values()];
}

/** Whether two lists have the same limits, in any order. @param {readonly Limit[]} some
 * @param {readonly Limit[]} others */
export function sameLimits(some, others) {
  const [all, size] = [distinct([...some, ...others]), distinct(some).length];
  return all.length === size && distinct(others).length === size;
}

/** Whether every limit that concerns a report allows its charge, compared exactly.
 * @param {Iterable<Limit>} limits @param {Intent} stated @param {Fraction} charge
 * @param {(limit: Limit) => Fraction} held what that limit counts already */
export function fits(limits, stated, charge, held) {
  return [...limits]
    .filter((limit) => limit.concerns(stated))
    .every((limit) => added(held(limit), charge).compare(limit.epsilon) <= 0);
}

/** The seconds of the longest window; null without any. @param {Iterable<Limit>} limits */
export function longestWindow(limits) {
  const windows = [...limits].flatMap(({ seconds }) => (seconds === null ? [] : [seconds]));
  return windows.length ? Math.max(...windows) : null;
}

/** The present limits that nothing of what is asked implies. @param {readonly Limit[]} asked
 * @param {readonly Limit[]} present */
export function loosened(asked, present) {
  return present.filter((old) => !asked.some((one) => one.implies(old)));
}

/** The whole second in which a report is made: a clock that was set back gives nothing back.
 * @param {number} now @param {number | null} known the latest time that the ledger knows */
export function latest(now, known) {
  return Math.max(Math.floor(now), known ?? -Infinity);
}

/** Whether windows rely on a clock that is so far ahead that its owner must confirm it.
 * @param {Iterable<Limit>} limits @param {string | null} tolerance of the policy @param {number} now
 * @param {number | null} known the latest time that the ledger knows */
export function isFarAhead(limits, tolerance, now, known) {
  const longest = longestWindow(limits);
  if (longest === null) return false;
  const allowed = tolerance === null ? 2 * longest : secondsOf("clock_tolerance", tolerance);
  return Math.floor(now) - (known ?? 0) > allowed;
}

/** An entry of a menu; or what the policy allows for any purpose, where both texts are null. */
export class MenuItem {
  /** @param {MenuFields} given whose texts are checked @param {string} [within] */
  constructor(given, within = "") {
    const fields = own(given);
    /** @readonly */
    this.purpose = fields.purpose ?? null;
    /** @readonly */
    this.recipient = fields.recipient ?? null;
    /** @readonly */
    this.perReport = optional(exactEpsilon, `${within}per_report`, fields.per_report);
    /** @readonly */
    this.lifetime = optional(exactEpsilon, `${within}lifetime`, fields.lifetime);
    /** @readonly */
    this.perWindow = optional(readWindow, `${within}per_window`, fields.per_window);
    Object.freeze(this);
  }

  /** Read an entry of a menu, the object of its fields, which `name` names in errors.
   * @param {string} name @param {unknown} table */
  static of(name, table) {
    if (typeof table !== "object" || table === null || Array.isArray(table)) {
      throw new InvalidArgument(name, table, "an object of its fields");
    }
    const given = /** @type {Record<string, unknown>} */ (table);
    const known = [...FIELDS, "per_report", "lifetime", "per_window"];
    const keys = Object.keys(given).filter((key) => (given[key] ?? null) !== null);
    const unknown = Object.keys(given).find((key) => !known.includes(key));
    if (unknown !== undefined) {
      throw new InvalidArgument(`${name}.${unknown}`, given[unknown], `one of ${known.join(", ")}`);
    }
    const texts = FIELDS.filter((field) => keys.includes(field));
    if (!texts.length || texts.length === keys.length) {
      const allowed = "a purpose or a recipient, with per_report, lifetime or per_window";
      throw new InvalidArgument(name, table, allowed);
    }
    for (const field of texts) {
      if (checkText(`${name}.${field}`, given[field], field) === "") {
        throw new InvalidArgument(`${name}.${field}`, "", "a non-empty text");
      }
    }
    return new MenuItem(/** @type {MenuFields} */ (given), `${name}.`);
  }

  /** Its limits of several reports. */
  get limits() {
    const { lifetime, perWindow, purpose, recipient } = this;
    const found = lifetime === null ? [] : [new Limit(lifetime, null, purpose, recipient)];
    if (perWindow !== null) {
      const [epsilon, length] = perWindow;
      found.push(new Limit(epsilon, secondsOf("per_window", length), purpose, recipient));
    }
    return found;
  }

  /** Whether a report that states this is subject to it. @param {Intent} stated */
  concerns(stated) {
    return new Limit(ZERO, null, this.purpose, this.recipient).concerns(stated);
  }
}

/** @template T @param {(name: string, value: unknown) => T} check @param {string} name
 * @param {unknown} value */
function optional(check, name, value) {
  return value === undefined || value === null ? null : check(name, value);
}

/** Read ε as the decimal that is written; refuse what a ledger could not write down.
 * @param {string} name @param {unknown} value */
export function exactEpsilon(name, value) {
  const number = exactly(value);
  if (number === null || number.compare(ZERO) <= 0 || number.compare(MOST_EPSILON) > 0) {
    throw new InvalidArgument(name, value, "a number > 0 and ≤ 500");
  }
  if (number.denominator >= 10n ** BigInt(2 * MOST_DIGITS)) {
    throw new InvalidArgument(name, value, `a number of at most ${MOST_DIGITS} digits`);
  }
  return number;
}

/** @param {unknown} value */
function exactly(value) {
  if (value instanceof Fraction) return value;
  if (typeof value === "number") return Number.isFinite(value) ? Fraction.decimal(value) : null;
  const short = typeof value === "string" && value.length <= 2 * MOST_DIGITS;
  return short ? Fraction.parse(value) : null;
}

/** Read a pair of ε and a length of time. @param {string} name @param {unknown} value
 * @returns {readonly [Fraction, string]} */
function readWindow(name, value) {
  if (!Array.isArray(value) || value.length !== 2) {
    throw new InvalidArgument(name, value, 'ε and a length of time, such as [2, "30 days"]');
  }
  const [epsilon, length] = value;
  secondsOf(name, length);
  return Object.freeze(/** @type {const} */ ([exactEpsilon(name, epsilon), length]));
}

/** Read a length of time. @param {string} name @param {unknown} text */
export function secondsOf(name, text) {
  const found = typeof text === "string" ? DURATION.exec(text) : null;
  const seconds = found ? Number(found[1] ?? found[3]) * UNITS[found[2] ?? found[4]] : 0;
  if (seconds === 0 || seconds > LONGEST) {
    throw new InvalidArgument(name, text, '"N hours", "N days" or "N weeks": at most 3650 days');
  }
  return seconds;
}

/** Write a length of time as a policy does, in days where they are whole. @param {number} seconds */
export function duration(seconds) {
  const unit = seconds % UNITS.day ? "hour" : "day";
  const count = Math.floor(seconds / UNITS[unit]);
  return `${count} ${unit}${count === 1 ? "" : "s"}`;
}
