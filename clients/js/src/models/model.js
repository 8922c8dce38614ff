/** A trained model as a file, and what it says of a record: as `fedsel.wire.Model` in Python. */

import { InvalidArgument, own } from "../errors.js";
import { matcher } from "./columns.js";
import { CLASSIFYING, REGRESSING, largest, product, rowStarts, softmax } from "./linear.js";
import { RecordPipeline } from "./pipeline.js";
import { Schema } from "./schema.js";

/** @typedef {string | number | boolean} Label
 * @typedef {import("./schema.js").TableRecord} TableRecord
 *
 * Coefficients and constants of encoded features, for people: they give the margins, or multiples of
 * them by a positive number where records are divided by their norm.
 * @typedef {{ coefficients: readonly (readonly number[])[], constants: readonly number[] }} Linear */

const [FORMAT, VERSION] = ["fedsel-model", 1];
const PARTS = ["schema", "loss", "classes", "pipeline", "log_prior"];
const KEYS = ["format", "version", ...PARTS, "weights", "linear", "about"];

/** A linear model of records that a public schema describes. Where devices brought updates of their
 * own there are weights alone, and nothing to predict. */
export class Model {
  #offsets;
  #starts;

  /** @param {unknown} json the model's file, as text or as what JSON has of it */
  constructor(json) {
    const values = partsOf(json);
    /** Row after row. @readonly */
    this.weights = numbers("weights", values.weights);
    /** Public facts. @readonly @type {Readonly<Record<string, unknown>>} */
    this.about = objectOf("about", values.about);
    const alone = values.schema === null;
    const given = PARTS.find((part) => alone && values[part] !== null);
    if (given !== undefined) {
      throw new InvalidArgument(given, values[given], "null without a schema");
    }
    /** @readonly */
    this.schema = alone ? null : new Schema(values.schema);
    /** @readonly @type {string | null} */
    this.loss = values.loss;
    /** @readonly @type {readonly Label[] | null} */
    this.classes = this.schema && classesOf(values, this.schema);
    const count = this.classes?.length ?? 0;
    const rows = count > 2 ? count : 1;
    const pipeline = this.schema && RecordPipeline.of(values.pipeline, this.schema.featureCount);
    const size = pipeline ? pipeline.preparation.size : this.weights.length;
    if (pipeline && pipeline.scale.low.length !== this.schema?.featureCount) {
      throw new InvalidArgument("pipeline.features", pipeline.scale.low.length, "as in the schema");
    }
    if (this.weights.length !== rows * size) {
      const allowed = `${rows} × ${size} numbers`;
      throw new InvalidArgument("weights", `${this.weights.length} numbers`, allowed);
    }
    /** What becomes of encoded records. @readonly */
    this.pipeline = pipeline;
    this.#offsets = values.log_prior === null ? null : offsets(values.log_prior, count);
    this.#starts = rowStarts(this.weights.length, size);
    /** @readonly @type {Linear | null} */
    this.linear = this.schema && linearOf(values.linear, rows, this.schema.featureCount);
    Object.freeze(this);
  }

  /** @param {unknown} json the model's file, as text or as what JSON has of it */
  static of(json) {
    return new Model(json);
  }

  /** The margins of a record. With two classes one ≥ 0 speaks for the second; with more the largest
   * decides. @param {TableRecord} record @returns {number[]} */
  margins(record) {
    if (this.schema === null || this.pipeline === null) {
      const wanted = "a model of records: devices brought updates of their own, so it has weights";
      throw new InvalidArgument("model", "no schema", wanted);
    }
    const { scale, preparation } = this.pipeline;
    const scaled = scale.apply(this.schema.encode(record));
    const prepared = preparation.record(scaled);
    const margins = this.#starts.map((start) => product(prepared, this.weights, start));
    if (this.#offsets === null) return margins;
    // Proportional to the record's norm, so that the decision stays linear in x.
    const share = preparation.typicalNorm / preparation.norm(scaled);
    return margins.map((margin, c) => margin - /** @type {number[]} */ (this.#offsets)[c] * share);
  }

  /** The class of a record, or the number that a regression predicts within the target's range.
   * @param {TableRecord} record @returns {Label} */
  predict(record) {
    const margins = this.margins(record);
    if (this.classes === null) {
      const [low, high] = this.schema?.targetRange ?? [-1, 1];
      const within = Math.max(-1, Math.min(1, margins[0]));
      return (low + high) / 2 + ((high - low) / 2) * within;
    }
    return this.classes[margins.length > 1 ? largest(margins) : Number(margins[0] >= 0)];
  }

  /** The probability of each class, of a logistic model. @param {TableRecord} record
   * @returns {number[]} */
  probabilities(record) {
    const margins = this.margins(record);
    if (this.loss !== "logistic") {
      throw new InvalidArgument("loss", this.loss, '"logistic": others have no probabilities');
    }
    return softmax(margins.length > 1 ? margins : [0, margins[0]]);
  }
}

/** The parts of a model's file, all of them and no others. @param {unknown} json
 * @returns {Record<string, any>} */
function partsOf(json) {
  let parsed = json;
  try {
    if (typeof json === "string") parsed = JSON.parse(json);
  } catch {
    parsed = null;
  }
  const wanted = `a model file of fedsel: JSON with "format": "${FORMAT}"`;
  if (typeof parsed !== "object" || parsed === null) {
    throw new InvalidArgument("model", "what it is", wanted);
  }
  const values = /** @type {Record<string, any>} */ (own(parsed));
  if (values.format !== FORMAT) throw new InvalidArgument("model", "other JSON", wanted);
  if (values.version !== VERSION) {
    const allowed = `${VERSION}; another fedsel wrote this model, which this one cannot read`;
    throw new InvalidArgument("version", values.version, allowed);
  }
  const odd = [...KEYS.filter((key) => !(key in values)), ...Object.keys(values)];
  const wrong = odd.find((key) => !(key in values) || !KEYS.includes(key));
  if (wrong !== undefined) {
    const allowed = wrong in values ? "omitted in a model" : "given in a model";
    throw new InvalidArgument(wrong, values[wrong], allowed);
  }
  return values;
}

/** The classes, which must be those of the schema; null for a regression.
 * @param {Record<string, any>} values @param {Schema} schema @returns {readonly Label[] | null} */
function classesOf({ loss, classes }, schema) {
  if (REGRESSING.includes(loss)) {
    if (classes !== null || schema.targetRange === null) {
      throw new InvalidArgument("classes", classes, `null with ${loss}, beside a target_range`);
    }
    return null;
  }
  if (!CLASSIFYING.includes(loss) || schema.targetRange !== null) {
    const known = [...CLASSIFYING, ...REGRESSING].join(", ");
    throw new InvalidArgument("loss", loss, `one of ${known} that suits the schema`);
  }
  const labels = Array.isArray(classes) ? classes : [];
  const [kind, ...others] = new Set(labels.map((label) => typeof label));
  const right = ["string", "number", "boolean"].includes(kind) && !others.length;
  if (!right || labels.length < 2 || new Set(labels).size < labels.length) {
    const allowed = "two or more different texts, numbers or truth values, all of one type";
    throw new InvalidArgument("classes", classes, allowed);
  }
  const named = schema.classes;
  const same = named && labels.length === named.length && labels.map(matcher(named));
  if (named && !(same && same.every((code, i) => code === i))) {
    throw new InvalidArgument("classes", classes, "as in the schema");
  }
  return Object.freeze([...labels]);
}

/** What the prior subtracts from the margins of a typical record. @param {unknown} given
 * @param {number} count */
function offsets(given, count) {
  const logs = numbers("log_prior", given, count);
  if (count === 2) return [logs[1] - logs[0]];
  const mean = logs.reduce((a, b) => a + b, 0) / count;
  return Array.from(logs, (log) => log - mean);
}

/** @param {unknown} given @param {number} rows @param {number} features @returns {Linear} */
function linearOf(given, rows, features) {
  const { coefficients, constants } = objectOf("linear", given);
  const listed = Array.isArray(coefficients) ? coefficients : [];
  if (listed.length !== rows) {
    throw new InvalidArgument("linear.coefficients", listed.length, `${rows} rows`);
  }
  return {
    coefficients: listed.map((row) => [...numbers("linear.coefficients", row, features)]),
    constants: [...numbers("linear.constants", constants, rows)],
  };
}

/** @param {string} name @param {unknown} value @returns {Record<string, any>} */
function objectOf(name, value) {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new InvalidArgument(name, value, "an object");
  }
  return own(/** @type {Record<string, any>} */ (value));
}

/** @param {string} name @param {unknown} values @param {number} [length] */
function numbers(name, values, length) {
  const listed = Array.isArray(values) && values.every(Number.isFinite);
  if (!listed || (length !== undefined && values.length !== length)) {
    throw new InvalidArgument(name, typeof values, `a list of ${length ?? "finite"} numbers`);
  }
  return Float64Array.from(values);
}
