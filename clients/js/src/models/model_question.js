/** A question about a model: which of its public answers a labelled record gives. The same rules as
 * `fedsel.wire.ModelQuestion` in Python.
 *
 * - "spread": the bin of the score alone; a score is the margin of two classes, the lead of more;
 * - "scores", of two classes: the class, and the bin of the margin;
 * - "predictions", of more than two: the class, and the class that the model predicts;
 * - "confidence", of more than two: whether the model is right, and the bin of its lead, the largest
 *   margin less the second largest;
 * - "residuals", of numbers in [−1, 1]: the bin of the target, and that of its distance from the
 *   prediction.
 */

import { InvalidArgument, checkCount, own } from "../errors.js";
import { fromHex, joined, sha256, toHex } from "../hash.js";
import { MOST_ANSWERS } from "../solutions/blocks.js";
import { largest } from "./linear.js";
import { NO_ANSWER, general, placeAmong } from "./question.js";

/** Bytes of a question's text, at most. */
export const MOST_QUESTION_BYTES = 1 << 16;
/** Questions about a model in a run, at most. */
export const MOST_QUESTIONS = 3;
const KINDS = ["spread", "scores", "predictions", "confidence", "residuals"];
const RUN_DIGITS = 32;

/** What is asked about a model: the table has a row for each class (or as above), and columns. */
export class ModelQuestion {
  /** @param {unknown} values as `ModelQuestion.to_dict` of Python has them, and JSON */
  constructor(values) {
    if (typeof values !== "object" || values === null) {
      throw new InvalidArgument("measure", values, "an object with kind and classes");
    }
    const { kind, classes, edges = [], targets = [] } = /** @type {any} */ (own(values));
    if (!KINDS.includes(kind)) {
      throw new InvalidArgument("measure.kind", kind, `one of ${KINDS.join(", ")}`);
    }
    /** @readonly @type {"spread" | "scores" | "predictions" | "confidence" | "residuals"} */
    this.kind = kind;
    /** @readonly */
    this.classes = checkCount("measure.classes", classes, { least: 2, most: MOST_ANSWERS });
    /** The inner edges of the bins. @readonly */
    this.edges = ascending("measure.edges", edges);
    /** Those of a target's bins. @readonly */
    this.targets = ascending("measure.targets", targets);
    checkCount("measure.answers", this.count, { least: 2, most: MOST_ANSWERS });
    Object.freeze(this);
  }

  /** The rows and the columns of its table. @returns {[number, number]} */
  get shape() {
    const bins = this.edges.length + 1;
    if (this.kind === "spread") return [1, bins];
    if (this.kind === "predictions") return [this.classes, this.classes];
    if (this.kind === "residuals") return [this.targets.length + 1, bins];
    return [this.kind === "confidence" ? 2 : this.classes, bins];
  }

  /** M, the number of its answers. */
  get count() {
    const [rows, columns] = this.shape;
    return rows * columns;
  }

  /** The answer of a record: its margins, one or one of each class, and its class or target. −1 for
   * a label that is none, and for margins that are not finite.
   * @param {readonly number[]} margins @param {number} label @returns {number} */
  answer(margins, label) {
    const isClass = Number.isInteger(label) && label >= 0 && label < this.classes;
    const known = this.kind === "residuals" ? Number.isFinite(label) : isClass;
    if (!known || !margins.every(Number.isFinite)) return NO_ANSWER;
    const [row, column] = this.#places(margins, label);
    return row * this.shape[1] + column;
  }

  /** @param {readonly number[]} margins @param {number} label */
  #places(margins, label) {
    if (this.kind === "residuals") {
      const distance = Math.abs(Math.max(-1, Math.min(1, margins[0])) - label);
      return [placeAmong(this.targets, label), placeAmong(this.edges, distance)];
    }
    if (this.kind === "predictions") return [label, largest(margins)];
    const bin = placeAmong(this.edges, this.#score(margins));
    if (this.kind === "spread") return [0, bin];
    if (this.kind === "scores") return [label, bin];
    return [Number(largest(margins) === label), bin];
  }

  /** @param {readonly number[]} margins */
  #score(margins) {
    if (margins.length === 1) return margins[0];
    if (this.classes === 2) return margins[1] - margins[0];
    const [first, second] = Float64Array.from(margins).sort().reverse();
    return first - second;
  }

  /** What the rows and the columns stand for, in words.
   * @param {readonly string[]} [names] of the classes, else their numbers
   * @returns {[readonly string[], readonly string[]]} */
  axes(names) {
    const named = (/** @type {string} */ what) =>
      Array.from({ length: this.classes }, (_, c) => `${what} ${names?.[c] ?? c}`);
    if (this.kind === "predictions") return [named("class"), named("predicted")];
    if (this.kind === "residuals") {
      return [ranges("target", this.targets), ranges("off by", this.edges)];
    }
    const bins = ranges(this.classes === 2 ? "score" : "lead", this.edges);
    if (this.kind === "spread") return [["all"], bins];
    return [this.kind === "scores" ? named("class") : ["wrong", "right"], bins];
  }
}

/** The run of the reports on a question about the model that a run trains: whoever knows the run knows
 * its name. @param {string} run in hexadecimal digits @param {number} number of the question */
export function measuringRun(run, number) {
  const bytes = joined("fedsel measuring", fromHex(run) ?? "", Uint8Array.of(number));
  return toHex(sha256(bytes)).slice(0, RUN_DIGITS);
}

/** The number of the question that a request of run `asked` asks about a run's model; null if it asks
 * none. @param {string} run @param {string} asked @returns {number | null} */
export function measuredQuestion(run, asked) {
  const numbers = Array.from({ length: MOST_QUESTIONS }, (_, number) => number);
  return numbers.find((number) => measuringRun(run, number) === asked) ?? null;
}

/** @param {string} name @param {unknown} values @returns {readonly number[]} */
function ascending(name, values) {
  const listed = Array.isArray(values) && values.every(Number.isFinite);
  if (!listed || !values.every((x, i) => i === 0 || x > values[i - 1])) {
    throw new InvalidArgument(name, values, "ascending numbers");
  }
  return Object.freeze([...values]);
}

/** The bins between edges in words. @param {string} what @param {readonly number[]} edges */
function ranges(what, edges) {
  if (!edges.length) return [`any ${what}`];
  const texts = edges.map((edge) => general(edge, 3));
  const between = texts.slice(1).map((end, i) => `${what} ${texts[i]} to ${end}`);
  return [`${what} below ${texts[0]}`, ...between, `${what} from ${texts[texts.length - 1]}`];
}
