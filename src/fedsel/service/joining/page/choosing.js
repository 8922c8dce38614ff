/** Step 1: a person's records, from a file or typed. They are held here, and nowhere else. */

import { asked, labelWords, typedForm } from "./asking.js";
import { DataProblem, parseTable } from "./csv.js";
import { checkHeader, encoded, labelColumns, recordsOf } from "./data.js";
import { byId, element, showFacts } from "./show.js";

const MOST_TYPED = 60;
const MOST_BYTES = 200e6;

/** @param {import("./client/wire/contract.js").Announcement} task of records, or of a question
 * @param {(records: import("./data.js").Records | null, ready: boolean) => void} chosen gets what the
 * model can be asked about, and whether that may be reported on */
export function chooseData(task, chosen) {
  const labelled = task.question === null;
  const schema = /** @type {import("./client/index.js").Schema} */ (
    task.question?.columns ?? task.schema
  );
  /** @type {ReturnType<typeof parseTable> | null} */
  let table = null;
  const told = (/** @type {string} */ text, bad = false) => {
    byId("data-said").textContent = text;
    byId("data-said").classList.toggle("bad", bad);
    for (const id of ["file", "label-column"]) byId(id).setAttribute("aria-invalid", String(bad));
  };
  /** Try something with the data; what is wrong with it is said here. @param {() => void} work */
  const attempt = (work) => {
    try {
      work();
    } catch (error) {
      chosen(null, false);
      if (!(error instanceof DataProblem)) throw error;
      told(error.message, true);
    }
  };
  const readTable = () =>
    attempt(() => {
      if (table === null) return;
      const records = recordsOf(schema, table, labelled ? byId("label-column").value : null);
      chosen(records, true);
      told(said(schema, records, labelled), records.leftOut > 0);
    });
  const readFile = async () => {
    const [file] = byId("file").files;
    [table, byId("label-choice").hidden] = [null, true];
    chosen(null, false);
    told("");
    if (!file) return;
    const text = file.size > MOST_BYTES ? null : await file.text().catch(() => null);
    if (text === null) return told("The file cannot be read, or is larger than 200 MB.", true);
    attempt(() => {
      const parsed = parseTable(text);
      table = parsed;
      if (!labelled) {
        checkHeader(schema, parsed.header);
        return readTable();
      }
      const columns = labelColumns(schema, parsed.header);
      byId("label-column").replaceChildren(...columns.map((name) => element("option", {}, name)));
      byId("label-column").value = columns[columns.length - 1];
      const [first] = columns;
      byId("label-choice").hidden = columns.length === 1 && first === (schema.label ?? first);
      readTable();
    });
  };
  const few =
    (typeof schema.columns === "number" ? schema.columns : schema.columns.size) <= MOST_TYPED;
  const form = few ? typedForm(schema, labelled) : null;
  const readTyped = () => {
    if (form === null) return;
    const label = form.label();
    const records = encoded(schema, [form.cells()], label === null ? null : [label]);
    const ready = form.filled();
    chosen(records, ready);
    const wanted = labelled ? "Fill in what you know, and the label." : "Fill in every field.";
    told(ready ? said(schema, records, labelled) : wanted);
  };
  const { sentence, lines } = asked(schema, labelled);
  byId("columns-wanted").textContent = sentence;
  byId("columns").hidden = !lines.length;
  showFacts(byId("column-list"), /** @type {[string, string][]} */ (lines));
  const typed = byId("typed");
  if (form === null) document.querySelector(".choice")?.setAttribute("hidden", "");
  else typed.replaceChildren(...form.elements);
  typed.addEventListener("input", readTyped);
  byId("file").addEventListener("change", readFile);
  byId("label-column").addEventListener("change", readTable);
  const changed = () => {
    const isFile = /** @type {HTMLInputElement} */ (document.querySelector("[value=file]")).checked;
    byId("from-file").hidden = !isFile;
    typed.hidden = isFile;
    if (isFile) readFile();
    else readTyped();
  };
  for (const source of document.querySelectorAll("[name=source]")) {
    source.addEventListener("change", changed);
  }
  changed(); // a person may have been faster than this page, or the browser has kept their choice
}

/** What became of the records. @param {import("./client/index.js").Schema} schema
 * @param {import("./data.js").Records} records @param {boolean} labelled */
function said(schema, { X, leftOut, unread }, labelled) {
  const count = X.length - leftOut;
  const sentences = [count === 1 ? "One record is ready." : `${count} records are ready.`];
  if (!labelled && count > 1) sentences.push("One of them, drawn at random, answers.");
  if (leftOut) {
    const others = leftOut === 1 ? "One is left out: its" : `${leftOut} are left out: their`;
    sentences.push(`${others} label is not ${labelWords(schema)}.`);
  }
  for (const [name, cells] of [...unread].slice(0, 3)) {
    const many = cells === 1 ? "one cell" : `${cells} cells`;
    sentences.push(`“${name}”: ${many} cannot be read, and will count as missing.`);
  }
  return sentences.join(" ");
}
