/** A question about people: what a service asks, and which of its public answers a record gives. The
 * same rules as `fedsel.wire.Question` in Python, to the bit. */

import { InvalidArgument, checkCount, own } from "../errors.js";
import { MOST_ANSWERS } from "../solutions/blocks.js";
import { CategoryColumn, NumberColumn, matcher } from "./columns.js";
import { Schema, checkKeys } from "./schema.js";

/** @typedef {import("./schema.js").TableRecord} TableRecord
 * @typedef {NumberColumn | CategoryColumn} Asked a column that may be asked about */

const KINDS = ["count", "histogram", "mean", "quantiles", "cross table"];
const ONE_COLUMN = ["histogram", "mean", "quantiles"];
/** The parts of a number's range, unless the question says how many; and the most of them. */
const BINS = new Map(Object.entries({ histogram: 10, quantiles: 16, "cross table": 4 }));
const MOST_BINS = new Map(Object.entries({ quantiles: 1024 }));
const QUANTILES = [0.25, 0.5, 0.75];
/** The largest bound of a number: the products that give its edges must be finite. */
const FARTHEST = 1e300;
const KEYS = ["kind", "columns", "where", "bins", "quantiles"];
const MISSING = "missing";
/** How many digits of an edge are shown: the fewest that tell all edges apart. */
const [FEWEST_DIGITS, MOST_DIGITS] = [6, 17];

/** The answer of a record that gives none. */
export const NO_ANSWER = -1;

/** What is asked about records with these columns. */
export class Question {
  #own;
  #edges;

  /** @param {unknown} values as `Question.to_dict` of Python has them, and JSON */
  constructor(values) {
    if (typeof values !== "object" || values === null || Array.isArray(values)) {
      throw new InvalidArgument("question", values, `an object with ${KEYS.join(", ")}`);
    }
    const given = /** @type {Record<string, any>} */ (own(values));
    checkKeys(given, KEYS);
    if (!KINDS.includes(given.kind)) {
      throw new InvalidArgument("question", given.kind, `one of ${KINDS.join(", ")}`);
    }
    /** @readonly @type {"count" | "histogram" | "mean" | "quantiles" | "cross table"} */
    this.kind = given.kind;
    /** What its columns are. @readonly */
    this.columns = new Schema({ columns: given.columns });
    this.#own = ownColumns(this.kind, this.columns);
    /** The parts of a number's range; null where it has none. @readonly */
    this.bins = binsOf(this.kind, [...this.#own.values()], given.bins ?? null);
    /** What is counted, by column: places of levels, or a range [low, high). @readonly
     * @type {ReadonlyMap<string, readonly number[]> | null} */
    this.where = whereOf(this.kind, this.#own, given.where ?? null);
    /** @readonly */
    this.quantiles = quantilesOf(this.kind, given.quantiles ?? null);
    this.#edges = new Map(
      [...this.#own].flatMap(([name, column]) =>
        column.kind === "number" && this.bins !== null ? [[name, edgesOf(column, this.bins)]] : [],
      ),
    );
    /** The answers of each column, as people read them. @readonly
     * @type {ReadonlyMap<string, readonly string[]>} */
    this.parts = new Map(
      this.kind === "count" || this.kind === "mean"
        ? []
        : Array.from(this.#own, ([name, column]) => [name, this.#partsOf(name, column)]),
    );
    const counted = [...this.parts.values()].reduce((product, { length }) => product * length, 1);
    /** M, the number of its answers; 1 for a mean, which is a number. @readonly */
    this.count = this.kind === "mean" ? 1 : this.kind === "count" ? 2 : counted;
    if (this.kind !== "mean") checkCount("levels", this.count, { least: 2, most: MOST_ANSWERS });
    Object.freeze(this);
  }

  /** The columns of the owner's table that it is about. @returns {readonly string[]} */
  get names() {
    return [...this.#own.keys()];
  }

  /** The solution that answers it. */
  get solution() {
    return this.kind === "mean" ? "OW" : "BR";
  }

  /** All answers, in the order of their numbers; none for a mean. @returns {readonly string[]} */
  get labels() {
    if (this.kind === "mean") return [];
    if (this.kind === "count") return ["no", "yes"];
    return [...this.parts.values()].reduce((before, parts) =>
      before.flatMap((one) => parts.map((part) => `${one} × ${part}`)),
    );
  }

  /** Which answer a record gives; −1 for none. Not for a mean. @param {TableRecord} record
   * @returns {number} */
  answer(record) {
    const cells = this.columns.cells(record);
    const columns = [...this.#own];
    if (this.where !== null) {
      const { where } = this;
      const counted = columns.map(([name, column], place) =>
        countedBy(column, /** @type {readonly number[]} */ (where.get(name)), cells[place]),
      );
      return counted.includes(NO_ANSWER) ? NO_ANSWER : Number(counted.every(Boolean));
    }
    let answer = 0;
    for (const [place, [name, column]] of columns.entries()) {
      const code = this.#code(name, column, cells[place]);
      if (code < 0) return NO_ANSWER;
      answer = answer * /** @type {readonly string[]} */ (this.parts.get(name)).length + code;
    }
    return answer;
  }

  /** For a mean: the number of a record on [−1, 1]; NaN for none. @param {TableRecord} record */
  number(record) {
    const column = /** @type {NumberColumn} */ ([...this.#own.values()][0]);
    const value = valueOf(column, this.columns.cells(record)[0]);
    return (2 * value - column.low - column.high) / (column.high - column.low);
  }

  /** @param {string} name @param {Asked} column @param {unknown} cell */
  #code(name, column, cell) {
    if (column.kind === "category") return column.level(cell);
    const [value, bins] = [valueOf(column, cell), this.bins ?? 1];
    if (Number.isNaN(value)) return column.indicator ? bins : NO_ANSWER;
    const edges = /** @type {Float64Array} */ (this.#edges.get(name));
    return Math.max(0, Math.min(bins - 1, placeAmong(edges, value) - 1));
  }

  /** @param {string} name @param {Asked} column @returns {readonly string[]} */
  #partsOf(name, column) {
    if (column.kind === "category") return column.levels;
    const edges = toldApart(/** @type {Float64Array} */ (this.#edges.get(name)));
    const parts = edges.slice(1).map((end, i) => `${edges[i]} to ${end}`);
    return column.indicator ? [...parts, MISSING] : parts;
  }
}

/** How many of ascending edges are at most a number. @param {ArrayLike<number>} edges
 * @param {number} value */
export function placeAmong(edges, value) {
  let [low, high] = [0, edges.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (edges[middle] <= value) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The columns that a kind of question may have. @param {string} kind @param {Schema} schema
 * @returns {ReadonlyMap<string, Asked>} */
function ownColumns(kind, { columns }) {
  if (typeof columns === "number") {
    throw new InvalidArgument("columns", columns, "columns by name");
  }
  for (const [name, column] of columns) {
    if (column.kind === "date") {
      throw new InvalidArgument("column", name, "one of numbers or levels, not of dates");
    }
    if (column.kind === "category") {
      if (kind !== "mean" && kind !== "quantiles") continue;
      const what = kind === "mean" ? "a mean" : kind;
      throw new InvalidArgument("column", name, `one of numbers for ${what}, not of levels`);
    }
    if (!column.bounded) {
      throw new InvalidArgument("column", name, "one with public bounds, [low, high]");
    }
    if (Math.max(-column.low, column.high) > FARTHEST) {
      throw new InvalidArgument("bounds", [column.low, column.high], `within ±${FARTHEST}`);
    }
  }
  if (ONE_COLUMN.includes(kind) && columns.size !== 1) {
    throw new InvalidArgument("columns", [...columns.keys()], "one column, or a cross table");
  }
  if (kind === "cross table" && columns.size < 2) {
    throw new InvalidArgument("columns", [...columns.keys()], "two or more for a cross table");
  }
  return /** @type {ReadonlyMap<string, Asked>} */ (columns);
}

/** @param {string} kind @param {readonly Asked[]} columns @param {unknown} given
 * @returns {number | null} */
function binsOf(kind, columns, given) {
  const usual = BINS.get(kind);
  if (usual !== undefined && columns.some((column) => column.kind === "number")) {
    const limits = { least: 2, most: MOST_BINS.get(kind) ?? MOST_ANSWERS };
    return checkCount("bins", given ?? usual, limits);
  }
  if (given !== null) throw new InvalidArgument("bins", given, "omitted: there are no parts");
  return null;
}

/** @param {string} kind @param {ReadonlyMap<string, Asked>} columns @param {unknown} given
 * @returns {ReadonlyMap<string, readonly number[]> | null} */
function whereOf(kind, columns, given) {
  if (kind !== "count") {
    if (given !== null) throw new InvalidArgument("where", given, `omitted for a ${kind}`);
    return null;
  }
  const wanted = 'what is counted: columns by name, such as {"job": "cook"}';
  if (typeof given !== "object" || given === null || Array.isArray(given)) {
    throw new InvalidArgument("where", given, wanted);
  }
  const chosen = new Map(Object.entries(given));
  const strange = [...chosen.keys()].find((name) => !columns.has(name));
  if (!chosen.size) throw new InvalidArgument("where", given, wanted);
  if (strange !== undefined) {
    throw new InvalidArgument("where", strange, "about one of its columns");
  }
  return new Map(
    Array.from(columns, ([name, column]) => {
      if (!chosen.has(name)) {
        throw new InvalidArgument("columns", name, "one that where is about");
      }
      return [name, chosenOf(name, column, chosen.get(name))];
    }),
  );
}

/** The places of the levels, or the range, that `where` chooses of a column.
 * @param {string} name @param {Asked} column @param {unknown} given @returns {readonly number[]} */
function chosenOf(name, column, given) {
  if (column.kind === "category") {
    const wished = Array.isArray(given) ? given : [given];
    const codes = [...new Set(wished.map(matcher(column.levels)))].sort((a, b) => a - b);
    if (codes.some((code) => code < 0)) {
      throw new InvalidArgument("where", given, `a level of ${name}`);
    }
    if (!codes.length || codes.length === column.levels.length) {
      throw new InvalidArgument("where", given, `some of the levels of ${name}, not all`);
    }
    return codes;
  }
  const [low, high, ...more] = Array.isArray(given) ? given : [];
  const isRange = Number.isFinite(low) && Number.isFinite(high) && low < high && !more.length;
  const outside = high <= column.low || low > column.high;
  if (!isRange || outside || (low <= column.low && high > column.high)) {
    const allowed = `[low, high] with low < high, a part of the range of ${name}`;
    throw new InvalidArgument("where", given, allowed);
  }
  return [low, high];
}

/** @param {string} kind @param {unknown} given @returns {readonly number[] | null} */
function quantilesOf(kind, given) {
  if (kind !== "quantiles") {
    if (given !== null) throw new InvalidArgument("quantiles", given, `omitted for a ${kind}`);
    return null;
  }
  const levels = given ?? QUANTILES;
  const right =
    Array.isArray(levels) &&
    levels.length > 0 &&
    levels.every((q, i) => Number.isFinite(q) && q > (i ? levels[i - 1] : 0) && q < 1);
  if (!right) throw new InvalidArgument("quantiles", given, "ascending numbers, each in (0, 1)");
  return /** @type {readonly number[]} */ (levels);
}

/** Whether a cell is as `where` says: 1, 0, or −1 where it cannot be told.
 * @param {Asked} column @param {readonly number[]} chosen @param {unknown} cell */
function countedBy(column, chosen, cell) {
  if (column.kind === "category") {
    const level = column.level(cell);
    return level < 0 ? NO_ANSWER : Number(chosen.includes(level));
  }
  const [value, [low, high]] = [valueOf(column, cell), chosen];
  return Number.isNaN(value) ? NO_ANSWER : Number(low <= value && value < high);
}

/** A number within its bounds; NaN where it is missing and nothing stands for that.
 * @param {NumberColumn} column @param {unknown} cell */
function valueOf(column, cell) {
  const replaced = column.replaces && !column.indicator;
  return !replaced && column.isMissing(cell) ? NaN : column.encode(cell)[0];
}

/** The bins + 1 edges of a number's parts. @param {NumberColumn} column @param {number} bins */
function edgesOf({ low, high }, bins) {
  // Products first: so 29 is an edge of 100 parts of [0, 100], and 0.3 one of ten of [0, 1].
  return Float64Array.from(
    { length: bins + 1 },
    (_, step) => (low * (bins - step) + high * step) / bins,
  );
}

/** The edges of bins as texts, with as many digits as they need to differ.
 * @param {Float64Array} edges */
function toldApart(edges) {
  for (let digits = FEWEST_DIGITS; digits <= MOST_DIGITS; digits++) {
    const texts = Array.from(edges, (edge) => shown(edge, digits));
    if (new Set(texts).size === texts.length) return texts;
  }
  const allowed = "fewer: there are no so many numbers in the range";
  throw new InvalidArgument("bins", edges.length - 1, allowed);
}

/** @param {number} edge @param {number} digits */
function shown(edge, digits) {
  return Number.isInteger(edge) && Math.abs(edge) < 1e15 ? String(edge + 0) : general(edge, digits);
}

/** A number with so many digits at most, as `f"{x:.{digits}g}"` of Python writes it.
 * @param {number} x @param {number} digits */
export function general(x, digits) {
  if (x === 0) return Object.is(x, -0) ? "-0" : "0";
  const rounded = roundedToEven(x, digits);
  const [mantissa, power] = rounded.split("e");
  const exponent = Number(power);
  const sign = mantissa.startsWith("-") ? "-" : "";
  const all = mantissa.replace(/[-.]/g, "");
  const significant = all.replace(/0+$/, "");
  if (exponent < -4 || exponent >= digits) {
    const more = significant.length > 1 ? `.${significant.slice(1)}` : "";
    const size = String(Math.abs(exponent)).padStart(2, "0");
    return `${sign}${significant[0]}${more}e${exponent < 0 ? "-" : "+"}${size}`;
  }
  if (exponent < 0) return `${sign}0.${"0".repeat(-exponent - 1)}${significant}`;
  const whole = all.slice(0, exponent + 1);
  const rest = significant.slice(exponent + 1);
  return `${sign}${whole}${rest && `.${rest}`}`;
}

/** As `toExponential`, but a number in the middle goes to the even digit. @param {number} x
 * @param {number} digits */
function roundedToEven(x, digits) {
  const [all, power] = Math.abs(x).toExponential(100).replace(".", "").split("e");
  const [kept, rest] = [all.slice(0, digits), all.slice(digits)];
  const isMiddle = /^50*$/.test(rest) && Number(kept[digits - 1]) % 2 === 0;
  if (!isMiddle) return x.toExponential(digits - 1);
  return `${x < 0 ? "-" : ""}${kept[0]}.${kept.slice(1)}e${power}`;
}
