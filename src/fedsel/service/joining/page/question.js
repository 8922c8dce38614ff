/** What is asked of people, and what a report has answered, in words. A person's own answer is in none
 * of them.
 *
 * @typedef {import("./client/wire/contract.js").Announcement} Announcement
 * @typedef {import("./client/models/question.js").Question} Question
 * @typedef {import("./client/models/model_question.js").ModelQuestion} ModelQuestion
 *
 * What is kept of a question about the model, with the round that asked it.
 * @typedef {{ kind: string, count: number, rows: readonly string[], columns: readonly string[] }} Measured
 */

import { MOST_QUESTIONS, measuringRun } from "./client/models/model_question.js";

const SHOWN = 40;

/** The runs of all reports on a task: those that train and those that measure.
 * @param {Announcement} task @returns {Set<string>} */
export function runsOf({ run, measure }) {
  const numbers = Array.from({ length: measure === null ? 0 : MOST_QUESTIONS }, (_, i) => i);
  return new Set([run, ...numbers.map((number) => measuringRun(run, number))]);
}

/** A question as a sentence. @param {Question} question */
export function questionWords({ kind, columns, where, names, bins, count }) {
  const own = /** @type {ReadonlyMap<string, any>} */ (columns.columns);
  const named = names.map((name) => `“${name}”`);
  if (where !== null) {
    const parts = Array.from(where, ([name, chosen]) => {
      const column = own.get(name);
      if (column.kind === "number") return `“${name}” is from ${chosen[0]} to below ${chosen[1]}`;
      return `“${name}” is ${quoted(chosen.map((place) => column.levels[place]))}`;
    });
    return `Whether ${parts.join(", and ")}.`;
  }
  const [{ low, high, kind: of }] = own.values();
  if (kind === "mean") return `How large ${named[0]} is, between ${low} and ${high}.`;
  if (kind === "cross table") {
    return `Which of the ${count} combinations of ${named.join(" and ")} is yours.`;
  }
  if (of === "number") {
    return `In which of ${bins} equal parts of ${low} to ${high} your ${named[0]} lies.`;
  }
  return `Which of ${count} levels your ${named[0]} is.`;
}

/** The possible answers to a question about people. @param {Question} question */
export function answersOf(question) {
  if (question.kind === "mean") return ["a number"];
  return question.labels;
}

/** What a question about the model is, in words, by its kind. @type {Record<string, string>} */
const OF_MODEL = {
  spread: "in which range its score of you lies",
  scores: "whether the model is right about you: your class, and the range of its score",
  predictions: "whether the model is right about you: your class, and the one that it predicts",
  confidence: "whether the model is right about you, and how sure it is",
  targets: "in which range your number lies",
  residuals: "how far the model is off for you: the range of your number, and of the error",
};

/** What is kept of a question about the model. @param {ModelQuestion} question
 * @param {readonly string[] | undefined} classes @returns {Measured} */
export function measured(question, classes) {
  const [rows, columns] = question.axes(classes);
  const { kind, count } = question;
  // The first question about numbers asks where they lie alone.
  if (kind === "residuals" && columns.length === 1) {
    return { kind: "targets", count, rows: ["all"], columns: rows };
  }
  return { kind, count, rows, columns };
}

/** What a report has answered, in words, and the possible answers. @param {Announcement} task
 * @param {string} run of the report @param {Measured | null | undefined} asked
 * @returns {{ words: string, answers: readonly string[] }} */
export function answeredBy({ run: own, question }, run, asked) {
  if (question !== null) {
    const sentence = questionWords(question);
    const words = `It answered: ${sentence[0].toLowerCase()}${sentence.slice(1)}`;
    return { words, answers: answersOf(question) };
  }
  if (run === own) return { words: "It trained the model.", answers: [] };
  const what = asked ? OF_MODEL[asked.kind] : undefined;
  if (!asked || !what) {
    return {
      words: "It measured the model: whether it is right about you.",
      answers: [],
    };
  }
  const answers = asked.rows.flatMap((row) =>
    asked.columns.map((column) => (row === "all" ? column : `${row}, ${column}`)),
  );
  return { words: `It measured the model: ${what}.`, answers };
}

/** So many answers in a line, the first of many. @param {readonly string[]} answers */
export function listedAnswers(answers) {
  const more =
    answers.length > SHOWN ? ` · … (${answers.length.toLocaleString("en-US")} in all)` : "";
  return `${answers.slice(0, SHOWN).join(" · ")}${more}`;
}

/** @param {string[]} texts */
function quoted(texts) {
  return texts.map((text) => `“${text}”`).join(" or ");
}
