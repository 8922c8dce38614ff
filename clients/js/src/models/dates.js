/** Columns of dates, of which declared parts become features. */

import { InvalidArgument } from "../errors.js";
import { flag, indicatorEnding, stripped } from "./columns.js";

/** @typedef {readonly [year: number, month: number, day: number, hour: number]} Moment */

const PERIODS = new Map(Object.entries({ month: 12, day: 31, weekday: 7, hour: 24 }));
const PARTS = ["year", "days", ...PERIODS.keys()];
const ISO = "YYYY-MM-DD";
const ISO_DATE =
  /^(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?$/;
const TOKENS = ["YYYY", "MM", "DD", "hh", "mm", "ss"];

/** Dates by ISO 8601 or a format such as "DD.MM.YYYY hh:mm"; a time zone is not read. "year" and
 * "days" (since the first) are one number each, the other parts a point on a circle. */
export class DateColumn {
  kind = /** @type {const} */ ("date");
  #read;
  #bounds;
  #absent;

  /** @param {Record<string, unknown>} given {"date": […], "range": [first, last], …} */
  constructor({ date, range, format = ISO, missing, indicator }) {
    const parts = Array.isArray(date) ? date : [];
    if (!parts.length || new Set(parts).size !== parts.length || !parts.every(isPart)) {
      throw new InvalidArgument("date", date, `a list of ${PARTS.join(", ")}`);
    }
    /** @readonly @type {readonly string[]} */ this.parts = Object.freeze([...parts]);
    /** @readonly */ this.format = /** @type {string} */ (format);
    this.#read = format === ISO ? isoMoment : readerOf(format);
    const bounds = boundsOf(range, parts);
    /** First and last day as they are written; null where there are no bounds. @readonly */
    this.range = bounds && Object.freeze(bounds.texts);
    this.#bounds = bounds;
    const absent = missing == null ? null : isoMoment(missing);
    if (missing != null && absent === null) {
      throw new InvalidArgument("missing", missing, "a date such as 2024-12-31");
    }
    this.#absent = this.#numbers(absent);
    /** @readonly */ this.indicator = flag(indicator);
    /** @readonly */
    this.endings = [
      ...parts.flatMap((x) => (PERIODS.has(x) ? [`.${x}.cos`, `.${x}.sin`] : [`.${x}`])),
      ...indicatorEnding(this.indicator),
    ];
  }

  /** @param {unknown} cell */
  isMissing(cell) {
    return this.#moment(cell) === null;
  }

  /** @param {unknown} cell */
  encode(cell) {
    const moment = this.#moment(cell);
    const numbers = moment === null ? this.#absent : this.#numbers(moment);
    return this.indicator ? [...numbers, Number(moment === null)] : numbers;
  }

  /** @param {unknown} cell */
  #moment(cell) {
    return typeof cell === "string" ? this.#read(stripped(cell)) : null;
  }

  /** @param {Moment | null} moment @returns {number[]} */
  #numbers(moment) {
    return this.parts.flatMap((part) => {
      const period = PERIODS.get(part);
      if (period !== undefined) {
        return moment === null ? [0, 0] : circle((2 * Math.PI * partOf(part, moment)) / period);
      }
      const { days, years } = /** @type {Bounds} */ (this.#bounds);
      const [first, low, high] = part === "days" ? [days[0], 0, days[1] - days[0]] : [0, ...years];
      if (moment === null) return [(low + high) / 2];
      return [Math.min(high, Math.max(low, partOf(part, moment) - first))];
    });
  }
}

/** @param {unknown} part */
function isPart(part) {
  return PARTS.includes(/** @type {string} */ (part));
}

/** @typedef {{ texts: [string, string], days: [number, number], years: [number, number] }} Bounds
 * @param {unknown} range @param {string[]} parts @returns {Bounds | null} */
function boundsOf(range, parts) {
  const open = parts.find((part) => !PERIODS.has(part));
  if ((range === undefined || range === "private") && open === undefined) return null;
  const texts = Array.isArray(range) ? range : [];
  const [first, last] = texts.map(isoMoment);
  if (texts.length !== 2 || !first || !last || daysOf(first) >= daysOf(last)) {
    const why = open === undefined ? "" : `: ${open} needs public bounds`;
    throw new InvalidArgument("range", range, `[first, last], two dates, first < last${why}`);
  }
  return {
    texts: [texts[0], texts[1]],
    days: [daysOf(first), daysOf(last)],
    years: [first[0], last[0]],
  };
}

/** A reader of dates of a format that the service gives. No expression is made of it: a few digits
 * are tried in at most two ways each. @param {unknown} format @returns {(text: string) => Moment | null} */
function readerOf(format) {
  const pieces = typeof format === "string" ? format.split(/(YYYY|MM|DD|hh|mm|ss)/) : [];
  const counts = TOKENS.map((token) => pieces.filter((piece) => piece === token).length);
  if (counts.some((count, i) => count > 1 || (i < 3 && count === 0))) {
    const allowed = "a text with YYYY, MM and DD once each, and maybe hh, mm, ss";
    throw new InvalidArgument("format", format, allowed);
  }
  /** The parts of the pieces from one on, which must be all of the text from a place on.
   * @param {string} text @param {number} place @param {number} piece
   * @returns {Record<string, number> | null} */
  const found = (text, place, piece) => {
    if (piece === pieces.length) return place === text.length ? {} : null;
    const wanted = pieces[piece];
    if (!TOKENS.includes(wanted)) {
      return text.startsWith(wanted, place) ? found(text, place + wanted.length, piece + 1) : null;
    }
    for (const width of wanted === "YYYY" ? [4] : [2, 1]) {
      const digits = text.slice(place, place + width);
      const fits = digits.length === width && /^\d+$/.test(digits);
      const rest = fits ? found(text, place + width, piece + 1) : null;
      if (rest !== null) return { ...rest, [wanted]: Number(digits) };
    }
    return null;
  };
  return (text) => {
    const parts = found(text, 0, 0);
    return parts && valid(parts.YYYY, parts.MM, parts.DD, parts.hh ?? 0);
  };
}

/** @param {unknown} text @returns {Moment | null} */
function isoMoment(text) {
  const found = typeof text === "string" ? ISO_DATE.exec(text) : null;
  if (found === null) return null;
  const [year, month, day, hour = 0] = found.slice(1).map((part) => Number(part ?? 0));
  return valid(year, month, day, hour);
}

/** @param {number} year @param {number} month @param {number} day @param {number} hour
 * @returns {Moment | null} */
function valid(year, month, day, hour) {
  const date = new Date(86_400_000 * daysOf([year, month, day, 0]));
  const same = date.getUTCMonth() === month - 1 && date.getUTCDate() === day;
  return same && year >= 1 && hour < 24 ? [year, month, day, hour] : null;
}

/** Days since 1970-01-01. @param {Moment} moment */
function daysOf([year, month, day]) {
  return new Date(0).setUTCFullYear(year, month - 1, day) / 86_400_000;
}

/** A part of a date as a number; those on a circle count from 0, Monday first.
 * @param {string} part @param {Moment} moment */
function partOf(part, moment) {
  const [year, month, day, hour] = moment;
  if (part === "year") return year;
  if (part === "month") return month - 1;
  if (part === "day") return day - 1;
  if (part === "hour") return hour;
  const days = daysOf(moment);
  return part === "days" ? days : (((days + 3) % 7) + 7) % 7;
}

/** Cosine and sine, rounded so that every language has the same bits. @param {number} angle */
function circle(angle) {
  return [Math.cos(angle), Math.sin(angle)].map((x) => Math.round(x * 1e6) / 1e6 + 0);
}
