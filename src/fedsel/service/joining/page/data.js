/** A person's records as the task wants them: numbers in its order, labels −1 and +1.
 *
 * @typedef {import("./client/wire/contract.js").Announcement} Task
 *
 * What a task can use of them; records with a label or a value that it does not know are left out.
 * @typedef {{ X: number[][], y: number[], leftOut: number, why: string }} Records
 */

import { DataProblem } from "./csv.js";

const REGRESSING = ["squared", "huber"];
const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;

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
  const missing = features.filter((name) => ownerOf(name, header) === undefined);
  if (missing.length) {
    const names = missing
      .slice(0, 5)
      .map((name) => `“${name}”`)
      .join(", ");
    const more = missing.length > 5 ? ` and ${missing.length - 5} more` : "";
    throw new DataProblem(`The header has no column ${names}${more}.`);
  }
  const used = new Set(features.map((name) => ownerOf(name, header)));
  const rest = header.filter((name) => !used.has(name));
  if (!rest.length)
    throw new DataProblem("Besides the features there is no column with the label.");
  return rest;
}

/** The column of a feature: of its own name, or of the text whose level it is, job of job=cook.
 * @param {string} name @param {string[]} header */
function ownerOf(name, header) {
  if (header.includes(name)) return name;
  const owners = header.filter((column) => name.startsWith(`${column}=`));
  return owners.sort((a, b) => b.length - a.length)[0];
}

/** Records of a table. Its header decides whether it suits the task, what is in it never does: who
 * takes part is seen by the service. @param {Task} task
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
  const columns = names.map((name) => {
    const owner = ownerOf(name, header) ?? name;
    const level = name === owner ? null : name.slice(owner.length + 1);
    return { name, at: header.indexOf(owner), level };
  });
  /** @type {Records} */
  const records = { X: [], y: [], leftOut: 0, why: "" };
  rows.forEach((row, i) => {
    try {
      const record = columns.map(({ name, at, level }) => {
        if (level !== null) return Number(row[at].trim() === level);
        return numberOf(row[at], `Line ${lines[i]}, “${name}”`);
      });
      records.y.push(targetOf(task, row[target], `Line ${lines[i]}, “${label}”`));
      records.X.push(record);
    } catch (error) {
      if (!(error instanceof DataProblem)) throw error;
      records.leftOut += 1;
      records.why ||= error.message;
    }
  });
  return records;
}

/** The one record of a form. @param {Task} task @param {string[]} values @param {string} label
 * @returns {Records} */
export function typedRecord(task, values, label) {
  const names = featureNames(task);
  const X = [values.map((value, j) => numberOf(value, `“${names[j]}”`))];
  return { X, y: [targetOf(task, label, "The label")], leftOut: 0, why: "" };
}

/** @param {string} text @param {string} where */
function numberOf(text, where) {
  const number = NUMBER.test(text.trim()) ? Number(text) : NaN;
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
  const is = (/** @type {string} */ name) =>
    value === name || (NUMBER.test(value) && NUMBER.test(name) && Number(value) === Number(name));
  if (is(positive)) return 1;
  if (is(negative) || (!task.labels && is("0"))) return -1;
  throw new DataProblem(`${where}: must be “${negative}” or “${positive}”.`);
}
