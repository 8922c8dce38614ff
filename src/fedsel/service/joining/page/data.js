/** A person's records as the task wants them: numbers in its order, labels −1 and +1.
 *
 * @typedef {object} Task what the service says of the run, at /v1/task
 * @property {string} name
 * @property {string} run
 * @property {string[] | number | null} features
 * @property {string[] | null} labels
 * @property {string | null} loss
 * @property {[number, number] | null} target_range
 * @property {string} invitations
 * @property {number} rounds
 * @property {number} epochs
 *
 * @typedef {{ X: number[][], y: number[] }} Records
 */

import { DataProblem } from "./csv.js";

const REGRESSING = ["squared", "huber"];

/** @param {Task} task */
export function isRegression(task) {
  return REGRESSING.includes(task.loss ?? "");
}

/** The names of a record's features, numbered where the task only counts them. @param {Task} task */
export function featureNames({ features }) {
  if (Array.isArray(features)) return features;
  return Array.from({ length: features ?? 0 }, (_, i) => `feature ${i + 1}`);
}

/** The columns that may be the label: all that are no feature. @param {Task} task
 * @param {string[]} header */
export function labelColumns(task, header) {
  const { features } = task;
  if (!Array.isArray(features)) return header;
  const missing = features.filter((name) => !header.includes(name));
  if (missing.length) {
    const names = missing
      .slice(0, 5)
      .map((name) => `“${name}”`)
      .join(", ");
    const more = missing.length > 5 ? ` and ${missing.length - 5} more` : "";
    throw new DataProblem(`The header has no column ${names}${more}.`);
  }
  const rest = header.filter((name) => !features.includes(name));
  if (!rest.length)
    throw new DataProblem("Besides the features there is no column with the label.");
  return rest;
}

/** Records of a table. @param {Task} task
 * @param {{ header: string[], rows: string[][], lines: number[] }} table @param {string} label
 * @returns {Records} */
export function recordsOf(task, { header, rows, lines }, label) {
  const target = header.indexOf(label);
  const names = Array.isArray(task.features) ? task.features : header.filter((n) => n !== label);
  if (typeof task.features === "number" && names.length !== task.features) {
    throw new DataProblem(
      `Besides the label there are ${names.length} columns; the task has ${task.features}.`,
    );
  }
  const places = names.map((name) => header.indexOf(name));
  const X = rows.map((row, i) =>
    places.map((place, j) => numberOf(row[place], `Line ${lines[i]}, “${names[j]}”`)),
  );
  const y = rows.map((row, i) => targetOf(task, row[target], `Line ${lines[i]}, “${label}”`));
  return { X, y };
}

/** The one record of a form. @param {Task} task @param {string[]} values @param {string} label
 * @returns {Records} */
export function typedRecord(task, values, label) {
  const names = featureNames(task);
  const X = [values.map((value, j) => numberOf(value, `“${names[j]}”`))];
  return { X, y: [targetOf(task, label, "The label")] };
}

/** @param {string} text @param {string} where */
function numberOf(text, where) {
  const number = text.trim() === "" ? NaN : Number(text);
  if (!Number.isFinite(number)) throw new DataProblem(`${where}: must be a number.`);
  return number;
}

/** −1 or +1, or a number on the scale of the target. @param {Task} task @param {string} text
 * @param {string} where */
function targetOf(task, text, where) {
  if (isRegression(task)) {
    const [low, high] = task.target_range ?? [-1, 1];
    const scaled = (2 * (numberOf(text, where) - low)) / (high - low) - 1;
    return Math.max(-1, Math.min(1, scaled));
  }
  const [negative, positive] = task.labels ?? ["-1", "1"];
  const value = text.trim();
  if (value === positive) return 1;
  if (value === negative) return -1;
  if (!task.labels && [0, 1, -1].includes(numberOf(value, where)))
    return Number(value) > 0 ? 1 : -1;
  throw new DataProblem(`${where}: must be “${negative}” or “${positive}”.`);
}
