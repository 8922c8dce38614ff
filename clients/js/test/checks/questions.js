/** Vectors of questions: the answers of odd cells, and what is no question. */

import { ModelQuestion, measuredQuestion, measuringRun } from "../../src/models/model_question.js";
import { Question } from "../../src/models/question.js";
import { Mismatch, floats, same } from "./reading.js";

/** Whether making something of values is refused, by a sentence that names an argument. */
function refused(make) {
  try {
    make();
  } catch (error) {
    return same(error.name, "InvalidArgument", "error");
  }
  throw new Mismatch("it was taken");
}

export const questions = {
  people: ({ question: values, names, solution, count, labels, cells, answers, numbers_f64 }) => {
    const question = new Question(values);
    same([question.names, question.solution, question.count], [names, solution, count], "question");
    if (labels != null) same(question.labels, labels, "labels");
    const named = (row) => Object.fromEntries(row.map((cell, i) => [names[i], cell]));
    // By name and by position.
    for (const rows of [cells, cells.map(named)]) {
      if (answers)
        same(
          rows.map((row) => question.answer(row)),
          answers,
          "answers",
        );
      else {
        const wanted = floats(numbers_f64, 8);
        rows.forEach((row, i) => {
          const found = question.number(row);
          if (!Object.is(found, wanted[i])) throw new Mismatch(`${i}: ${found}, ${wanted[i]}`);
        });
      }
    }
  },
  no_question: ({ question }) => refused(() => new Question(question)),
  model: ({ question: values, count, axes, margins, labels, answers }) => {
    const question = new ModelQuestion(values);
    same([question.count, question.axes()], [count, axes], "question");
    const numbers = (row) => row.map((x) => x ?? NaN);
    const found = margins.map((row, i) => question.answer(numbers(row), labels[i] ?? NaN));
    same(found, answers, "answers");
  },
  no_model_question: ({ question }) => refused(() => new ModelQuestion(question)),
  runs: ({ run, measuring }) => {
    same(
      measuring.map((_, number) => measuringRun(run, number)),
      measuring,
      "runs",
    );
    same(
      measuring.map((asked) => measuredQuestion(run, asked)),
      measuring.map((_, number) => number),
      "numbers",
    );
    same(measuredQuestion(run, run), null, "another");
  },
};
