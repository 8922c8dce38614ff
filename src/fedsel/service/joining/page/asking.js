/** What is asked of a record: in words, and as the fields of a form.
 *
 * @typedef {import("./client/index.js").Schema} Schema
 * @typedef {import("./client/models/schema.js").Column} Column
 */

import { element } from "./show.js";

const SHOWN = 12;
/** The choice of a text that is no level, and of no text at all; no form and no file has them. */
const [ANOTHER, NOT_KNOWN] = ["\u0000", "\u0001"];

/** Texts in a row, the first of many. @param {readonly string[]} texts @param {string} [last] */
function listed(texts, last = " or ") {
  const quoted = texts.slice(0, SHOWN).map((text) => `“${text}”`);
  if (texts.length > SHOWN) return `${quoted.join(", ")}, … (${texts.length} in all)`;
  return [quoted.slice(0, -1).join(", "), ...quoted.slice(-1)].filter(Boolean).join(last);
}

/** What a column is. @param {Column} column */
function columnWords(column) {
  if (column.kind === "number") {
    return column.bounded ? `a number from ${column.low} to ${column.high}` : "a number";
  }
  if (column.kind === "category") {
    const others = column.levels.includes("other") ? "; any other text counts as “other”" : "";
    return `${listed(column.levels)}${others}`;
  }
  const { parts, range, format } = column;
  const bounds = range ? ` from ${range[0]} to ${range[1]}` : "";
  return `a date (${format})${bounds}, of which the model sees: ${parts.join(", ")}`;
}

/** What a label is. @param {Schema} schema */
export function labelWords({ targetRange, classNames }) {
  if (targetRange !== null) return `a number from ${targetRange.join(" to ")}`;
  return listed(classNames);
}

/** What the label is called. @param {Schema} schema */
function labelName({ label, targetRange }) {
  return label ?? (targetRange === null ? "label" : "target");
}

/** Columns and label, a sentence for all and a line for each. @param {Schema} schema
 * @param {boolean} labelled whether there is a label: a question has none */
export function asked(schema, labelled) {
  const { columns } = schema;
  const label = `${schema.targetRange === null ? "the label" : "the target"}, ${labelWords(schema)}`;
  if (typeof columns === "number") {
    return {
      sentence: `${columns} columns of numbers, and one with ${label}.`,
      lines: [],
    };
  }
  const names = [...columns.keys()];
  const more = names.length > SHOWN ? ` and ${names.length - SHOWN} more` : "";
  const called = schema.label === null ? "one" : `“${schema.label}”`;
  const shown = names.slice(0, SHOWN).join(", ");
  const lines = Array.from(columns, ([name, column]) => [name, columnWords(column)]);
  if (!labelled) {
    const which = names.length > 1 ? "Columns" : "Column";
    return {
      sentence: `${which} ${shown}${more}; others are not read.`,
      lines,
    };
  }
  lines.push([labelName(schema), `${labelWords(schema)}: what the model learns to predict`]);
  return {
    sentence: `Columns ${shown}${more}, in any order, and ${called} with ${label}.`,
    lines,
  };
}

/** A form for one record: its elements, and what is written in them.
 * @param {Schema} schema @param {boolean} [labelled] whether it asks for a label, too; a question does
 * not, and wants every field to be filled in */
export function typedForm(schema, labelled = true) {
  const { columns } = schema;
  const all = /** @type {[string, Column | null][]} */ (
    typeof columns === "number"
      ? schema.features.map((_, i) => [`feature ${i + 1}`, null])
      : [...columns]
  );
  const inputs = all.map(([, column], i) =>
    column === null ? numberField(`feature-${i}`, null) : fieldOf(column, `feature-${i}`, labelled),
  );
  const label = labelField(schema);
  const named = (/** @type {string} */ name, /** @type {any} */ input) =>
    element("div", {}, element("label", { for: input.id }, name), input);
  return {
    elements: [
      ...inputs.map((input, i) => named(all[i][0], input)),
      ...(labelled ? [named(labelName(schema), label)] : []),
    ],
    cells: () => inputs.map((input, i) => cellOf(all[i][1], /** @type {any} */ (input).value)),
    label: () => (labelled ? label.value : null),
    /** Whether there is something to report on. */
    filled: () => {
      if (labelled) return label.value !== "";
      return inputs.every((input, i) => input.value !== "" || maySayNothing(all[i][1]));
    },
  };
}

/** Whether an empty field is an answer: the column says what it counts as. @param {Column | null} column */
function maySayNothing(column) {
  return column?.kind === "number" && (column.indicator || column.replaces);
}

/** @param {Column} column @param {string} id @param {boolean} labelled @returns {any} */
function fieldOf(column, id, labelled) {
  if (column.kind === "number") return numberField(id, column.bounded ? column : null);
  if (column.kind === "category") {
    const another = column.levels.includes("other") ? [] : [option(ANOTHER, "another")];
    const levels = column.levels.map((level) => option(level, level));
    const [first, last] = labelled
      ? [option("", "not known"), []]
      : [option("", "choose …"), [option(NOT_KNOWN, "not known")]];
    return element("select", { id }, first, ...levels, ...another, ...last);
  }
  const timed = column.parts.includes("hour");
  const input = element("input", {
    id,
    type: timed ? "datetime-local" : "date",
  });
  for (const [name, i, time] of /** @type {const} */ ([
    ["min", 0, "T00:00"],
    ["max", 1, "T23:59"],
  ])) {
    const day = column.range?.[i].slice(0, 10);
    if (day) input.setAttribute(name, timed ? day + time : day);
  }
  return input;
}

/** @param {string} id @param {{ low: number, high: number } | null} bounds */
function numberField(id, bounds) {
  const input = element("input", { id, type: "number", step: "any" });
  if (bounds === null) return input;
  const { low, high } = bounds;
  const shown = {
    min: `${low}`,
    max: `${high}`,
    placeholder: `${low} to ${high}`,
  };
  for (const [name, text] of Object.entries(shown)) input.setAttribute(name, text);
  return input;
}

/** @param {Schema} schema @returns {any} */
function labelField({ targetRange, classNames }) {
  const id = "typed-label";
  if (targetRange !== null) return numberField(id, { low: targetRange[0], high: targetRange[1] });
  const classes = classNames.map((text) => option(text, text));
  return element("select", { id }, option("", "choose …"), ...classes);
}

/** @param {string} value @param {string} text */
function option(value, text) {
  return element("option", { value }, text);
}

/** What is written in a field, as a file would have it. @param {Column | null} column
 * @param {string} value */
function cellOf(column, value) {
  if (value === NOT_KNOWN) return "";
  if (column?.kind !== "date" || column.format === "YYYY-MM-DD" || !value) return value;
  const [YYYY, MM, DD, hh = "00", mm = "00", ss = "00"] = value.split(/[-T:]/);
  const parts = { YYYY, MM, DD, hh, mm, ss };
  return column.format.replace(
    /YYYY|MM|DD|hh|mm|ss/g,
    (token) => parts[/** @type {keyof parts} */ (token)],
  );
}
