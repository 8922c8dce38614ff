/** How things are shown: elements made of text alone, never of markup. */

import { toHex } from "./client/hash.js";
import { ADDED_BYTES } from "./client/sealing/sealing.js";
import { exactly } from "./meaning.js";
import { answeredBy, listedAnswers, runsOf } from "./question.js";

/** How many reports are shown at once. */
const LATEST = 3;
const SVG = "http://www.w3.org/2000/svg";

/** @param {string} id @returns {any} */
export function byId(id) {
  return document.getElementById(id);
}

/** An element with attributes and children. @param {string} name
 * @param {Record<string, string>} [attributes] @param {(Node | string)[]} children */
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

/** @param {string} name @param {Record<string, string | number>} attributes
 * @param {(Node | string)[]} children */
function drawn(name, attributes, ...children) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, String(value));
  made.append(...children);
  return made;
}

/** Terms and what they are. @param {Element} list @param {[string, string][]} facts */
export function showFacts(list, facts) {
  list.replaceChildren(
    ...facts.map(([term, text]) =>
      element("div", {}, element("dt", {}, term), element("dd", {}, text)),
    ),
  );
}

/** Digits of bytes for people: two of each, eight bytes together. @param {string} digits */
export function grouped(digits) {
  const groups = (digits.match(/.{1,16}/g) ?? []).map((group) =>
    element("span", {}, group.replace(/..(?=.)/g, "$&\u00a0")),
  );
  return groups.flatMap((group, i) => (i ? [" ", group] : [group]));
}

/** What became of a report, in words. @type {Record<string, string>} */
const OUTCOMES = {
  accepted: "arrived, and counts",
  sealed: "is with the relay, and counts once its round is released",
  released: "was released with its round, and counts",
  late: "came after its round was over: it does not count, but is paid for",
  conflict: "the service holds another report in its place: it does not count, but is paid for",
  "": "charged, and not known to have arrived",
};

/** @param {any} entry of the ledger @param {string} outcome @param {string} words what that means
 * @param {{ words: string, answers: readonly string[] }} answered which question it answered
 * @param {boolean} isOpen whether its possible answers are shown */
function reportItem({ round, epoch, time, charge, report }, outcome, words, answered, isOpen) {
  const when = new Date(1000 * time);
  const place = `Round ${round + 1}, epoch ${epoch + 1}, ε = ${exactly(charge)}, `;
  const shown = element("time", { datetime: when.toISOString() }, when.toLocaleString());
  return element(
    "li",
    { "data-outcome": outcome || "waiting" },
    element("code", { class: "bytes" }, ...grouped(toHex(report))),
    element("p", { class: "note" }, place, shown, `: ${words}.`),
    element("p", { class: "note" }, answered.words),
    ...(answered.answers.length > 1 ? [possible(answered.answers, round, isOpen)] : []),
  );
}

/** The possible answers of a report. @param {readonly string[]} answers @param {number} round
 * @param {boolean} isOpen */
function possible(answers, round, isOpen) {
  const open = /** @type {Record<string, string>} */ (isOpen ? { open: "" } : {});
  const count = answers.length.toLocaleString("en-US");
  return element(
    "details",
    { ...open, "data-of": String(round) },
    element("summary", {}, `Its ${count} possible answers`),
    element("p", { class: "note" }, listedAnswers(answers)),
  );
}

/** The reports of a run, the latest first. @param {any} history
 * @param {import("./client/wire/contract.js").Announcement} task
 * @param {import("./keeping.js").Kept} own what is kept of the run
 * @param {number} released so many rounds were, by a relay */
export function showReports(history, task, { outcomes = {}, asked = {} }, released) {
  const { shuffle } = task;
  const runs = runsOf(task);
  const openOnes = [...byId("reports").querySelectorAll("details[open]")];
  const isOpen = (/** @type {unknown} */ of) =>
    openOnes.some((details) => details.dataset.of === String(of));
  const sealed = shuffle !== null;
  const meant = (/** @type {number} */ round) => {
    const outcome = outcomes[round] ?? "";
    if (!sealed || outcome !== "accepted") return OUTCOMES[outcome];
    return OUTCOMES[round < released ? "released" : "sealed"];
  };
  const own = history.entries.filter((/** @type {any} */ entry) => runs.has(entry.run)).reverse();
  const items = own.map((/** @type {any} */ entry) => {
    const { round, run } = entry;
    const epoch = Math.floor(round / task.rounds_per_epoch); // requests that measure have none
    const answered = answeredBy(task, run, asked[round]);
    return reportItem(
      { ...entry, epoch },
      outcomes[round] ?? "",
      meant(round),
      answered,
      isOpen(round),
    );
  });
  const [latest, earlier] = [items.slice(0, LATEST), items.slice(LATEST)];
  const words = `${earlier.length} earlier`;
  const rest = element("details", { "data-of": "earlier" }, element("summary", {}, words));
  if (isOpen("earlier")) rest.setAttribute("open", "");
  rest.append(element("ol", {}, ...earlier));
  byId("reports").replaceChildren(...latest, ...(earlier.length ? [element("li", {}, rest)] : []));
  const sent = own.filter((/** @type {any} */ { round }) => outcomes[round]);
  const bytes = sent.reduce(
    (/** @type {number} */ sum, /** @type {any} */ e) =>
      sum + e.report.length + (sealed ? ADDED_BYTES : 0),
    0,
  );
  const plural = sent.length === 1 ? "this report" : `these ${sent.length} reports`;
  const unsure = own.length - sent.length;
  const all = unsure ? "" : " They are all that left.";
  const seen = sealed
    ? " The relay also sees your network address, and when; it cannot open what is sealed. The service can, and sees neither of these, nor your invitation."
    : " The service also sees your network address, and when.";
  const how = sealed ? `${plural}, sealed for the service` : plural;
  const known = sent.length ? `${bytes} bytes: ${how}, with your invitation.${all}${seen}` : "";
  byId("left-words").textContent = unsure
    ? `${known} ${unsure === 1 ? "One report is" : `${unsure} reports are`} charged and may have left: the service has not said that it has arrived.`.trim()
    : known || "Nothing yet.";
}

/** @param {import("./client/device/ledger.js").History} history */
export function showLedger(history) {
  const { lifetime, spent, left, entries, changes, confirmations } = history;
  byId("ledger").hidden = false;
  const standings = history.standings(Date.now() / 1000);
  const [{ limit, held }] = standings; // the lifetime, where there is one
  const bar = byId("spent");
  bar.max = limit.epsilon.toNumber();
  bar.value = Math.min(bar.max, held.toNumber());
  showFacts(byId("ledger-facts"), [
    [lifetime === null ? "ε spent, ever" : "ε spent", exactly(spent)],
    ...(lifetime === null || left === null
      ? []
      : /** @type {[string, string][]} */ ([
          ["ε left", exactly(left)],
          ["ε in total", exactly(lifetime)],
        ])),
    ...standings.filter(({ limit }) => !limit.isLifetime).flatMap(renewing),
    ["Reports", String(entries.length)],
    ...changes.flatMap(({ limits, time, by }) => {
      return by ? [fact("Raised", `to ${limits.join(" and ")}, ${moment(time)}`)] : [];
    }),
    ...confirmations.map(({ time }) => fact("Clock confirmed", moment(time))),
  ]);
}

/** What a limit leaves now, and when it gives something back.
 * @param {import("./client/device/budget.js").Standing} standing */
function renewing({ limit, left, renewals }) {
  const [next] = renewals;
  const back = next && fact("Comes back next", `ε = ${exactly(next[1])}, ${moment(next[0])}`);
  return [fact(`Left now of ${limit}`, exactly(left)), ...(back ? [back] : [])];
}

/** @param {string} term @param {string} text @returns {[string, string]} */
function fact(term, text) {
  return [term, text];
}

/** @param {number | null} time seconds since 1970 */
function moment(time) {
  return time === null ? "at a time that is not known" : new Date(1000 * time).toLocaleString();
}

/** A line of shares (0 … 1) by round. @param {[number, number][]} points @param {number} rounds */
export function curve(points, rounds) {
  const [width, height, edge] = [320, 90, 36];
  const x = (/** @type {number} */ round) =>
    edge + ((width - edge - 6) * round) / Math.max(1, rounds);
  const y = (/** @type {number} */ share) => 6 + (height - 24) * (1 - share);
  const line = points.map(([round, share]) => `${x(round).toFixed(1)},${y(share).toFixed(1)}`);
  const [last] = points.slice(-1);
  const label = `Accuracy on your records by round: ${percent(last[1])} after round ${last[0]} of ${rounds}`;
  return drawn(
    "svg",
    {
      viewBox: `0 0 ${width} ${height}`,
      role: "img",
      "aria-label": label,
      class: "curve",
    },
    ...[0, 0.5, 1].flatMap((share) => [
      drawn("line", {
        x1: edge,
        x2: width - 6,
        y1: y(share),
        y2: y(share),
        class: "grid",
      }),
      drawn("text", { x: edge - 5, y: y(share) + 3, class: "tick end" }, percent(share)),
    ]),
    drawn("text", { x: edge, y: height - 3, class: "tick" }, "round 0"),
    drawn("text", { x: width - 6, y: height - 3, class: "tick end" }, `round ${rounds}`),
    drawn("polyline", { points: line.join(" "), class: "line" }),
    drawn("circle", { cx: x(last[0]), cy: y(last[1]), r: 3, class: "dot" }),
  );
}

/** @param {number} share */
export function percent(share) {
  return `${Math.round(100 * share)}\u00a0%`;
}

/** Coefficients as a table, a column for each class where there are several; else bars say what a
 * feature does over its whole range. @param {readonly string[]} names
 * @param {readonly (readonly number[])[]} coefficients @param {number[]} widths
 * @param {string[] | null} classes */
export function coefficientTable(names, coefficients, widths, classes) {
  const effects = coefficients[0].map((slope, j) => slope * widths[j]);
  const most = Math.max(...effects.map(Math.abs));
  const rows = names.map((name, j) =>
    element(
      "tr",
      {},
      element("th", { scope: "row" }, name),
      ...coefficients.map((row) => element("td", { class: "number" }, signed(row[j]))),
      ...(classes ? [] : [element("td", { class: "wide" }, bar(effects[j], most))]),
    ),
  );
  const heads = [...(classes ?? ["coefficient"]), ...(classes ? [] : ["over its range"])];
  return table(["feature", ...heads], rows, classes ? classes.length : 1);
}

/** Classes and their probabilities. @param {[string, number][]} shares */
export function shareTable(shares) {
  const rows = shares.map(([name, share]) =>
    element(
      "tr",
      {},
      element("th", { scope: "row" }, name),
      element("td", { class: "number" }, percent(share)),
      element("td", { class: "wide" }, bar(share, 1, 0)),
    ),
  );
  return table(["class", "probability", ""], rows, 1);
}

/** @param {string[]} names of the columns @param {Node[]} rows @param {number} numbers how many columns
 * after the first hold numbers */
function table(names, rows, numbers) {
  const heads = names.map((text, i) =>
    element("th", { scope: "col", class: i >= 1 && i <= numbers ? "number" : "" }, text),
  );
  return element(
    "table",
    {},
    element("thead", {}, element("tr", {}, ...heads)),
    element("tbody", {}, ...rows),
  );
}

/** A bar of a size among the largest, to either side of a zero. @param {number} size
 * @param {number} most @param {number} zero where that lies, in percent */
function bar(size, most, zero = 50) {
  const length = most > 0 ? ((100 - zero) * Math.abs(size)) / most : 0;
  return drawn(
    "svg",
    {
      viewBox: "0 0 100 10",
      preserveAspectRatio: "none",
      "aria-hidden": "true",
      class: "bar",
    },
    drawn("rect", {
      ...{ x: size < 0 ? zero - length : zero, y: 1, width: length, height: 8 },
      class: size < 0 ? "minus" : "plus",
    }),
    drawn("line", { x1: zero, x2: zero, y1: 0, y2: 10, class: "zero" }),
  );
}

/** @param {number} value */
function signed(value) {
  const text =
    Math.abs(value) >= 1e-3 && Math.abs(value) < 1e5
      ? value.toPrecision(3)
      : value.toExponential(1);
  return value === 0 ? "0" : text.replace("-", "−");
}
