/** A person's records, as the task's schema encodes them: it reads every cell, and what it cannot read
 * counts as missing.
 *
 * @typedef {import("./client/index.js").Schema} Schema
 *
 * Records for a question stay the cells that they are, without labels. `unread` counts cells by column that hold something, but nothing that can be read; `leftOut` records
 * have a label that the task does not know.
 * @typedef {object} Records
 * @property {(Float64Array | string[])[]} X
 * @property {string[]} y
 * @property {Map<string, number>} unread
 * @property {number} leftOut
 */

import { DataProblem } from "./csv.js";

const SHOWN = 5;

/** Refuse a header that lacks a column. @param {Schema} schema @param {string[]} header */
export function checkHeader({ columns }, header) {
  const wanted = typeof columns === "number" ? [] : [...columns.keys()];
  const missing = wanted.filter((name) => !header.includes(name)).map((name) => `“${name}”`);
  if (missing.length) {
    const more = missing.length > SHOWN ? ` and ${missing.length - SHOWN} more` : "";
    throw new DataProblem(`The header has no column ${missing.slice(0, SHOWN).join(", ")}${more}.`);
  }
  return wanted;
}

/** The columns that may be the label: the one that the task names, else all that are no feature.
 * @param {Schema} schema @param {string[]} header */
export function labelColumns(schema, header) {
  const { label } = schema;
  const wanted = checkHeader(schema, header);
  const rest = header.filter((name) => !wanted.includes(name));
  if (!rest.length)
    throw new DataProblem("Besides the columns that are asked for there is none with the label.");
  return label !== null && rest.includes(label) ? [label] : rest;
}

/** Records of a table. Its header decides whether it suits the task, what is in it never does: the
 * service sees who takes part. @param {Schema} schema
 * @param {{ header: string[], rows: string[][] }} table @param {string | null} label null: a question,
 * which needs none */
export function recordsOf(schema, { header, rows }, label) {
  const { columns } = schema;
  const target = label === null ? -1 : header.indexOf(label);
  const others = header.flatMap((_, place) => (place === target ? [] : [place]));
  if (typeof columns === "number" && others.length !== columns) {
    throw new DataProblem(
      `Besides the label there are ${others.length} columns; the task has ${columns}.`,
    );
  }
  const places =
    typeof columns === "number"
      ? others
      : Array.from(columns.keys(), (name) => header.indexOf(name));
  const cells = rows.map((row) => places.map((place) => row[place]));
  const labels = label === null ? null : rows.map((row) => row[target]);
  return encoded(schema, cells, labels);
}

/** @param {Schema} schema @param {string[][]} cells of each record in the order of the columns
 * @param {string[] | null} labels null: a question, which reads the cells itself
 * @returns {Records} */
export function encoded(schema, cells, labels) {
  const names = typeof schema.columns === "number" ? schema.features : [...schema.columns.keys()];
  const place = new Map(names.map((name, at) => [name, at]));
  const unread = new Map();
  for (const record of cells) {
    for (const name of schema.missing(record)) {
      if (!record[place.get(name) ?? 0].trim()) continue;
      unread.set(name, (unread.get(name) ?? 0) + 1);
    }
  }
  return {
    X: labels === null ? cells : cells.map((record) => schema.encode(record)),
    y: labels ?? [],
    unread,
    leftOut: (labels ?? []).filter((label) => Number.isNaN(schema.target(label))).length,
  };
}
