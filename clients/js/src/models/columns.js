/** Columns of a table, and how a cell of each becomes numbers, to the bit as `fedsel.wire` has it in
 * Python. Whatever a cell holds, it becomes finite numbers within public bounds: what cannot be read
 * counts as missing. */

import { InvalidArgument } from "../errors.js";

/** A cell as a file or a form has it; any other kind of value is no number and no level.
 * @typedef {string | number | bigint | boolean | null | undefined} Cell */

const BLANK = " \t\r\n\f\v";
const NUMBER = /^[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?$/i;
const TRUTH = /** @type {readonly string[]} */ (["false", "true"]);
const OTHER = "other";
const PRIVATE = "private";
/** Numbers without public bounds are clipped here. */
const REACH = 2 ** 32;
/** Codes of a text that is no level, and of a missing cell. */
const [UNKNOWN, ABSENT] = [-1, -2];

/** Numbers within public bounds; without bounds the first rounds learn a range. */
export class NumberColumn {
  kind = /** @type {const} */ ("number");

  /** @param {Record<string, unknown>} given {"range": [low, high] or "private", …} */
  constructor({ range, missing, indicator }) {
    /** Whether the bounds are public. @readonly */
    this.bounded = range !== PRIVATE;
    const [low, high] = this.bounded ? rangeOf("range", range) : [-REACH, REACH];
    /** @readonly */ this.low = low;
    /** @readonly */ this.high = high;
    if (missing != null && !(isFinite(missing) && missing >= low && missing <= high)) {
      throw new InvalidArgument("missing", missing, `within ${low} … ${high}`);
    }
    /** Whether the column says itself what a missing cell counts as. @readonly */
    this.replaces = missing != null;
    /** What a missing cell counts as. @readonly */
    this.missing = missing == null ? (low + high) / 2 : /** @type {number} */ (missing);
    /** @readonly */ this.indicator = flag(indicator);
    /** The endings of its features' names. @readonly */
    this.endings = ["", ...indicatorEnding(this.indicator)];
  }

  /** Whether a cell counts as missing. @param {unknown} cell */
  isMissing(cell) {
    return numberOf(plain(cell)) === null;
  }

  /** @param {unknown} cell */
  encode(cell) {
    const number = numberOf(plain(cell));
    const value = Math.min(this.high, Math.max(this.low, number ?? this.missing)) + 0; // no −0
    return this.indicator ? [value, Number(number === null)] : [value];
  }
}

/** Texts with public levels, each of which becomes a feature of 0 and 1. */
export class CategoryColumn {
  kind = /** @type {const} */ ("category");
  #code;
  /** The levels that count in place of those that are none. @type {Record<number, number>} */
  #instead;

  /** @param {Record<string, unknown>} given {"levels": […], …} */
  constructor({ levels, missing, indicator }) {
    /** @readonly */ this.levels = levelTexts("levels", levels);
    const other = this.levels.indexOf(OTHER);
    const absent = missing == null ? other : this.levels.indexOf(String(missing));
    if (missing != null && (typeof missing !== "string" || absent < 0)) {
      throw new InvalidArgument("missing", missing, "one of the levels");
    }
    /** @readonly */ this.indicator = flag(indicator);
    /** @readonly */
    this.endings = [...this.levels.map((x) => `=${x}`), ...indicatorEnding(this.indicator)];
    this.#code = matcher(this.levels);
    this.#instead = { [UNKNOWN]: other, [ABSENT]: absent };
  }

  /** @param {unknown} cell */
  isMissing(cell) {
    return plain(cell) === null;
  }

  /** The number of the level that a cell counts as; −1 for none. @param {unknown} cell */
  level(cell) {
    const code = this.#code(cell);
    return code < 0 ? this.#instead[code] : code;
  }

  /** @param {unknown} cell */
  encode(cell) {
    const [code, level] = [this.#code(cell), this.level(cell)];
    const features = new Array(this.endings.length).fill(0);
    if (level >= 0) features[level] = 1;
    if (this.indicator) features[this.levels.length] = Number(code === ABSENT);
    return features;
  }
}

/** A function from a cell to the number of its level; −1 is none, −2 a missing cell.
 * @param {readonly string[]} levels @returns {(cell: unknown) => number} */
export function matcher(levels) {
  const texts = new Map(levels.map((text, code) => [text, code]));
  const numbers = new Map();
  for (const [text, code] of texts) {
    const number = numberOf(text);
    if (number !== null && !numbers.has(number)) numbers.set(number, code);
  }
  return (cell) => {
    const found = plain(cell);
    if (found === null) return ABSENT;
    const same = typeof found === "string" ? texts.get(found) : undefined;
    return same ?? numbers.get(numberOf(found)) ?? UNKNOWN;
  };
}

/** Different texts, or whole numbers as texts. @param {string} name @param {unknown} levels
 * @returns {readonly string[]} */
export function levelTexts(name, levels) {
  const given = Array.isArray(levels) ? levels : [];
  const texts = given.map((x) => plain(Number.isSafeInteger(x) ? String(x) : x));
  const right = texts.length && texts.every((text) => typeof text === "string");
  if (!right || new Set(texts).size !== texts.length) {
    throw new InvalidArgument(name, levels, "a list of different texts");
  }
  return Object.freeze(/** @type {string[]} */ (texts));
}

/** A text without blanks at its ends; a loop, because expressions are slow where blanks are many.
 * @param {string} text */
export function stripped(text) {
  let [from, to] = [0, text.length];
  while (from < to && BLANK.includes(text[from])) from += 1;
  while (to > from && BLANK.includes(text[to - 1])) to -= 1;
  return text.slice(from, to);
}

/** A cell as a number or a text; null where it is missing, NaN where it is neither.
 * @param {unknown} cell @returns {number | string | null} */
export function plain(cell) {
  if (cell == null) return null;
  if (typeof cell === "boolean") return TRUTH[Number(cell)];
  if (typeof cell === "number" || typeof cell === "bigint") {
    return Number.isFinite(Number(cell)) ? Number(cell) : null;
  }
  if (typeof cell !== "string") return NaN;
  const text = stripped(cell);
  const lower = text.length <= 5 ? text.toLowerCase() : text;
  return (TRUTH.includes(lower) ? lower : text) || null;
}

/** The number of a plain cell; null where it is none. @param {number | string | null} cell */
export function numberOf(cell) {
  const truth = typeof cell === "string" ? TRUTH.indexOf(cell) : -1;
  if (truth >= 0) return truth;
  const number = typeof cell === "string" && NUMBER.test(cell) ? Number(cell) : cell;
  return isFinite(number) ? number : null;
}

/** @param {boolean} wanted */
export function indicatorEnding(wanted) {
  return wanted ? ["=missing"] : [];
}

/** @param {unknown} indicator */
export function flag(indicator = false) {
  if (typeof indicator !== "boolean") {
    throw new InvalidArgument("indicator", indicator, "true or false");
  }
  return indicator;
}

/** @param {string} name @param {unknown} range @returns {[number, number]} */
export function rangeOf(name, range) {
  const [low, high, ...more] = Array.isArray(range) ? range : [];
  if (!isFinite(low) || !isFinite(high) || low >= high || more.length) {
    throw new InvalidArgument(name, range, "[low, high] with low < high");
  }
  return [low, high];
}

/** @param {unknown} value @returns {value is number} */
function isFinite(value) {
  return Number.isFinite(value);
}
