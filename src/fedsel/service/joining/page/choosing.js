/** Step 1: a person's records, from a file or typed. They are held here, and nowhere else. */

import { DataProblem, parseTable } from "./csv.js";
import { featureNames, isRegression, labelColumns, recordsOf, typedRecord } from "./data.js";
import { byId, element } from "./show.js";

const MOST_TYPED = 60;
const MOST_BYTES = 200e6;

/** @param {import("./client/wire/contract.js").Announcement} task
 * @param {(records: import("./data.js").Records | null) => void} chosen */
export function chooseData(task, chosen) {
  /** @type {ReturnType<typeof parseTable> | null} */
  let table = null;
  const names = featureNames(task);
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
      chosen(null);
      if (!(error instanceof DataProblem)) throw error;
      told(error.message, true);
    }
  };
  const readTable = () =>
    attempt(() => {
      if (table === null) return;
      const records = recordsOf(task, table, byId("label-column").value);
      chosen(records);
      const { X, leftOut, why } = records;
      const ready = X.length === 1 ? "One record is ready." : `${X.length} records are ready.`;
      const others = leftOut === 1 ? "One is left out" : `${leftOut} are left out`;
      told(leftOut ? `${ready} ${others}. ${why}` : ready, leftOut > 0);
    });
  const readFile = async () => {
    const [file] = byId("file").files;
    [table, byId("label-choice").hidden] = [null, true];
    chosen(null);
    told("");
    if (!file) return;
    const text = file.size > MOST_BYTES ? null : await file.text().catch(() => null);
    if (text === null) return told("The file cannot be read, or is larger than 200 MB.", true);
    attempt(() => {
      const parsed = parseTable(text);
      const columns = labelColumns(task, parsed.header);
      table = parsed;
      byId("label-column").replaceChildren(...columns.map((name) => element("option", {}, name)));
      byId("label-column").value = columns[columns.length - 1];
      byId("label-choice").hidden = columns.length === 1;
      readTable();
    });
  };
  const readTyped = () => {
    const inputs = [...byId("typed").querySelectorAll("[data-feature]")];
    const values = inputs.map((input) => input.value);
    const label = byId("typed-label").value;
    if ([...values, label].some((value) => value.trim() === "")) {
      chosen(null);
      const empty = [...values, label].filter((value) => value.trim() === "").length;
      return told(empty === 1 ? "One field is empty." : `${empty} fields are empty.`);
    }
    attempt(() => {
      chosen(typedRecord(task, values, label));
      told("One record is ready.");
    });
  };
  byId("columns-wanted").textContent = wanted(task, names);
  const typed = byId("typed");
  if (names.length > MOST_TYPED) {
    document.querySelector(".choice")?.setAttribute("hidden", "");
  } else typed.replaceChildren(...fields(task, names));
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

/** @param {import("./client/wire/contract.js").Announcement} task @param {string[]} names */
function wanted(task, names) {
  const columns = Array.isArray(task.features)
    ? `Columns ${names.slice(0, 12).join(", ")}${names.length > 12 ? ` and ${names.length - 12} more` : ""}, in any order`
    : `${names.length} columns of numbers`;
  const label = isRegression(task)
    ? `one with the target, a number from ${task.target_range?.join(" to ")}`
    : `one with the label, ${(task.labels ?? ["−1", "1"]).map((text) => `“${text}”`).join(" or ")}`;
  return `${columns}, and ${label}.`;
}

/** The fields of a typed record. @param {import("./client/wire/contract.js").Announcement} task @param {string[]} names */
function fields(task, names) {
  const inputs = names.map((name, j) =>
    element(
      "div",
      {},
      element("label", { for: `feature-${j}` }, name),
      element("input", {
        id: `feature-${j}`,
        inputmode: "decimal",
        "data-feature": "",
      }),
    ),
  );
  const classes = task.labels ?? ["-1", "1"];
  const label = isRegression(task)
    ? element("input", { id: "typed-label", inputmode: "decimal" })
    : element(
        "select",
        { id: "typed-label" },
        element("option", { value: "" }, "choose …"),
        ...classes.map((text) => element("option", {}, text)),
      );
  const called = isRegression(task) ? "target" : "label";
  return [...inputs, element("div", {}, element("label", { for: "typed-label" }, called), label)];
}
