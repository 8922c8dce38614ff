/** Answers questions for tests/clients/test_questions.py: a line of JSON each, in and out. */

import { createInterface } from "node:readline";

import { InvalidArgument } from "../src/index.js";
import { ModelQuestion } from "../src/models/model_question.js";
import { Question } from "../src/models/question.js";

/** What a function makes; refused where it is refused. */
function orRefused(make) {
  try {
    return make();
  } catch (error) {
    if (!(error instanceof InvalidArgument)) throw error;
    return { refused: true };
  }
}

/** A question about people, and records. */
function ofPeople({ question: values, records }) {
  const question = new Question(values);
  const { count } = question;
  if (count > 1) {
    const answers = records.map((record) => question.answer(record));
    return { count, labels: question.labels.slice(0, 300), answers };
  }
  const numbers = records.map((record) => question.number(record));
  return { count, labels: [], answers: numbers.map((x) => (Number.isNaN(x) ? null : x)) };
}

/** A question about a model, margins and labels: null is no number. */
function ofModel({ asked, margins, labels }) {
  const question = new ModelQuestion(asked);
  const numbers = margins.map((row) => row.map((x) => x ?? NaN));
  const answers = numbers.map((row, i) => question.answer(row, labels[i] ?? NaN));
  return { count: question.count, axes: question.axes(), answers };
}

for await (const line of createInterface({ input: process.stdin })) {
  const task = JSON.parse(line);
  const found = orRefused(() => (task.question === undefined ? ofModel(task) : ofPeople(task)));
  process.stdout.write(`${JSON.stringify(found)}\n`);
}
