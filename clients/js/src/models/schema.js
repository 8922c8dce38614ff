/** The public schema of a table: what a record's columns mean, and how they become features. */

import { InvalidArgument, InvalidData, checkCount, own } from "../errors.js";
import { MOST_DIMENSION } from "../wire/recipe.js";
import {
  CategoryColumn,
  NumberColumn,
  levelTexts,
  matcher,
  numberOf,
  plain,
  rangeOf,
} from "./columns.js";
import { DateColumn } from "./dates.js";

/** @typedef {import("./columns.js").Cell} Cell
 * @typedef {NumberColumn | CategoryColumn | DateColumn} Column
 * A record by name, or its cells in the order of the columns.
 * @typedef {Readonly<Record<string, Cell>> | ArrayLike<Cell>} TableRecord */

const KEYS = ["columns", "label", "classes", "target_range"];
/** The keys of each kind of column, after the one that tells it. */
const KINDS = {
  range: ["missing", "indicator"],
  levels: ["missing", "indicator"],
  date: ["missing", "indicator", "range", "format"],
};

/** A record as numbers: encoding it again changes nothing. */
class Encoded extends Float64Array {
  static get [Symbol.species]() {
    return Float64Array;
  }
}

/** Columns by their names, and the label: all that encoding a record needs, and all of it public. It
 * learns nothing from records. The same numbers as `fedsel.Schema` in Python, to the bit. */
export class Schema {
  #features;
  #classOf;

  /** @param {unknown} values as `Schema.to_dict` of Python has them, and JSON */
  constructor(values) {
    if (typeof values !== "object" || values === null) {
      throw new InvalidArgument("schema", values, `an object with ${KEYS.join(", ")}`);
    }
    const given = /** @type {Record<string, unknown>} */ (own(values));
    checkKeys(given, KEYS);
    /** The columns by name, or their number. @readonly @type {ReadonlyMap<string, Column> | number} */
    this.columns = columnsOf(given.columns);
    this.#features = typeof this.columns === "number" ? null : featuresOf(this.columns);
    /** @readonly */
    this.label = given.label == null ? null : nameOf("label", given.label);
    if (this.label !== null && typeof this.columns !== "number" && this.columns.has(this.label)) {
      throw new InvalidArgument("label", this.label, "no column that is a feature");
    }
    /** @readonly */
    this.classes = given.classes == null ? null : levelTexts("classes", given.classes);
    if (this.classes !== null && this.classes.length < 2) {
      throw new InvalidArgument("classes", this.classes, "at least two");
    }
    const target = given.target_range;
    if (target != null && this.classes !== null) {
      throw new InvalidArgument("target_range", target, "omitted beside classes");
    }
    /** Bounds of the label if it is a number. @readonly */
    this.targetRange = target == null ? null : Object.freeze(rangeOf("target_range", target));
    this.#classOf = matcher(this.classes ?? ["-1", "1", "0"]);
    Object.freeze(this);
  }

  /** The names of an encoded record's entries: age, job=cook, born.year, age=missing.
   * @returns {readonly string[]} */
  get features() {
    return this.#features ?? Array.from({ length: this.featureCount }, (_, i) => String(i));
  }

  /** The entries of an encoded record. @returns {number} */
  get featureCount() {
    return this.#features === null ? Number(this.columns) : this.#features.length;
  }

  /** The names of the columns that it reads, its label last; null where columns have none.
   * @returns {readonly string[] | null} */
  get columnsUsed() {
    if (typeof this.columns === "number") return null;
    return [...this.columns.keys(), ...(this.label === null ? [] : [this.label])];
  }

  /** The classes; −1 and 1 where none are named. @returns {readonly string[]} */
  get classNames() {
    return this.classes ?? ["-1", "1"];
  }

  /** A linear model's rows of weights: one for each of more than two classes, else one. */
  get rows() {
    return this.classNames.length > 2 ? this.classNames.length : 1;
  }

  /** The entries of a linear model's update: row after row, each with its intercept last. */
  get dim() {
    return this.rows * (this.featureCount + 1);
  }

  /** The features of a record, whatever its cells hold. What a record by name lacks is missing in it;
   * what it has beside the columns is ignored.
   * @param {TableRecord} record @returns {Float64Array} */
  encode(record) {
    if (record instanceof Encoded && record.length === this.featureCount) return record;
    const cells = this.cells(record);
    if (typeof this.columns === "number") {
      return Encoded.from(cells, (cell) => BY_POSITION.encode(cell)[0]);
    }
    const encoded = new Encoded(this.featureCount);
    let [place, at] = [0, 0];
    for (const column of this.columns.values()) {
      for (const number of column.encode(cells[place++])) encoded[at++] = number;
    }
    return encoded;
  }

  /** The names of the columns whose cells count as missing in a record: nothing is written in them, or
   * nothing that can be read. @param {TableRecord} record @returns {string[]} */
  missing(record) {
    const cells = this.cells(record);
    if (typeof this.columns === "number") {
      return this.features.filter((_, place) => BY_POSITION.isMissing(cells[place]));
    }
    const named = [...this.columns].filter(([, column], place) => column.isMissing(cells[place]));
    return named.map(([name]) => name);
  }

  /** A record's cells in the order of the columns. @param {TableRecord} record
   * @returns {ArrayLike<unknown>} */
  cells(record) {
    const { columns } = this;
    const size = typeof columns === "number" ? columns : columns.size;
    if (Array.isArray(record) || ArrayBuffer.isView(record)) {
      if (record.length === size) return /** @type {ArrayLike<unknown>} */ (record);
      throw new InvalidData(`record: must have ${size} cells`);
    }
    if (typeof record !== "object" || record === null || typeof columns === "number") {
      const kind = typeof columns === "number" ? `a list of ${size} numbers` : "cells by name";
      throw new InvalidData(`record: must be ${kind}`);
    }
    const cells = /** @type {Record<string, unknown>} */ (record);
    return Array.from(columns.keys(), (name) => (Object.hasOwn(cells, name) ? cells[name] : null));
  }

  /** The number of a label's class, or a target on [−1, 1]; NaN for any other label. Without classes
   * −1 and 0 are the first of two, 1 is the second. @param {Cell} label @returns {number} */
  target(label) {
    if (this.targetRange !== null) {
      const [low, high] = this.targetRange;
      const scaled = (2 * (numberOf(plain(label)) ?? NaN) - low - high) / (high - low);
      return Number.isFinite(scaled) ? Math.max(-1, Math.min(1, scaled)) : NaN;
    }
    const code = this.#classOf(label);
    if (this.classes === null && code === 2) return 0;
    return code < 0 ? NaN : code;
  }
}

/** What each column is where only their number is known. */
const BY_POSITION = new NumberColumn({ range: "private" });

/** @param {unknown} columns */
function columnsOf(columns) {
  if (typeof columns === "number") {
    return checkCount("columns", columns, { most: MOST_DIMENSION });
  }
  const wanted = "a list of columns with a name each, or their number";
  if (!Array.isArray(columns) || !columns.length) {
    throw new InvalidArgument("columns", columns, wanted);
  }
  /** @type {Map<string, Column>} */
  const named = new Map();
  for (const column of columns) {
    if (typeof column !== "object" || column === null) {
      throw new InvalidArgument("columns", column, wanted);
    }
    const { name: given, ...rest } = /** @type {Record<string, unknown>} */ (own(column));
    const name = nameOf("columns", given);
    if (named.has(name)) throw new InvalidArgument("columns", name, "a name that only one has");
    named.set(name, columnOf(name, rest));
  }
  return named;
}

/** @param {string} name @param {Record<string, unknown>} given @returns {Column} */
function columnOf(name, given) {
  const fields = /** @type {Record<string, unknown>} */ (own(given));
  const kinds = Object.keys(KINDS).filter((key) => fields[key] !== undefined);
  const kind = kinds.includes("date") ? "date" : kinds[0];
  if (kinds.length !== 1 && kind !== "date") {
    throw new InvalidArgument(`columns.${name}`, kinds, "with one of range, levels and date");
  }
  try {
    checkKeys(fields, [kind, ...KINDS[/** @type {keyof KINDS} */ (kind)]]);
    if (kind === "date") return new DateColumn(fields);
    return kind === "range" ? new NumberColumn(fields) : new CategoryColumn(fields);
  } catch (error) {
    if (!(error instanceof InvalidArgument)) throw error;
    const { argument, value, allowed } = error;
    throw new InvalidArgument(`columns.${name}.${argument}`, value, allowed);
  }
}

/** The names of all features, of which no two are the same.
 * @param {ReadonlyMap<string, Column>} columns */
function featuresOf(columns) {
  const names = [...columns].flatMap(([name, { endings }]) => endings.map((x) => name + x));
  const twice = new Set(names).size === names.length ? undefined : firstTwice(names);
  if (twice !== undefined) {
    throw new InvalidArgument("columns", twice, "such that no two features share a name");
  }
  return Object.freeze(names);
}

/** @param {string[]} names */
function firstTwice(names) {
  const seen = new Set();
  return names.find((name) => seen.size === seen.add(name).size);
}

/** Printable text. @param {string} what @param {unknown} name */
export function nameOf(what, name) {
  if (typeof name !== "string" || !/^(?:[^\p{C}\p{Z}]| )+$/u.test(name)) {
    throw new InvalidArgument(what, name, "a name: printable text");
  }
  return name;
}

/** @param {Record<string, unknown>} values @param {readonly string[]} known */
export function checkKeys(values, known) {
  const unknown = Object.keys(values).find((key) => !known.includes(key));
  if (unknown !== undefined) {
    const allowed = `omitted; known are ${known.join(", ")}`;
    throw new InvalidArgument(unknown, values[unknown], allowed);
  }
}
