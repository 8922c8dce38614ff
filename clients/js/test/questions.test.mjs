/** Questions in words, and the record of several that answers them. */

import "./surroundings.js"; // before anything of the client
import assert from "node:assert/strict";
import test from "node:test";

import { answerOf, measuringOf } from "../src/joining/records.js";
import { ModelQuestion } from "../src/models/model_question.js";
import { Question, general } from "../src/models/question.js";
import { Schema } from "../src/models/schema.js";

const AGES = { kind: "histogram", columns: [{ name: "age", range: [0, 80] }], bins: 4 };

test("numbers are written as Python writes them", () => {
  const cases = [
    [1234566.5, 7, "1234566"],
    [1234567.5, 7, "1234568"],
    [0.5, 3, "0.5"],
    [100, 3, "100"],
    [1000, 3, "1e+03"],
    [0.0001, 3, "0.0001"],
    [0.00001, 3, "1e-05"],
    [-26.6666, 3, "-26.7"],
    [9.999, 3, "10"],
    [2.5, 1, "2"],
    [3.5, 1, "4"],
    [1e100, 6, "1e+100"],
    [0, 6, "0"],
  ];
  for (const [x, digits, text] of cases) assert.equal(general(x, digits), text);
});

test("one of several records answers, each as likely", () => {
  const answer = answerOf(new Question(AGES), { X: [{ age: 1 }, { age: 21 }, { age: 79 }], y: [] });
  const counts = [0, 0, 0, 0];
  for (let i = 0; i < 3000; i++) counts[answer(new Float64Array(0))] += 1;
  assert.equal(counts[2], 0);
  // Seven standard deviations: a false alarm in 10^11.
  for (const place of [0, 1, 3]) assert.ok(Math.abs(counts[place] - 1000) < 7 * 26, `${counts}`);
});

test("a mean of no value is the middle", () => {
  const mean = new Question({ kind: "mean", columns: [{ name: "pay", range: [0, 10] }] });
  const told = (pay) => answerOf(mean, { X: [{ pay }], y: [] })(new Float64Array(1));
  assert.deepEqual([told("7.5"), told(99), told("?"), told(null)], [[0.5], [1], [0], [0]]);
});

test("a record that is none fails where the client asks, and not before", () => {
  const answer = answerOf(new Question(AGES), { X: [[1, 2]], y: [] });
  assert.throws(() => answer(new Float64Array(0)), /record/);
  const none = answerOf(new Question(AGES), { X: [], y: [] });
  assert.throws(() => none(new Float64Array(0)), /record/);
});

const SCHEMA = new Schema({
  columns: [{ name: "x", range: [-1, 1] }],
  label: "y",
  classes: ["no", "yes"],
});
const PIPELINE = {
  features: 1,
  octaves: 16,
  low: -1,
  high: 1,
  preparation: { spread: 1, centre: 0, intercept: 1, unit: false, factor: 1 },
  plan: null,
};
const SCORES = { kind: "scores", classes: 2, edges: [0] };
const textOf = (measure, pipeline = PIPELINE) => JSON.stringify({ measure, pipeline });
const task = { schema: SCHEMA };

test("a record with a known label measures the model", () => {
  const X = [{ x: 1 }, { x: -1 }, { x: 1 }];
  const weights = Float64Array.of(2, -1);
  const found = (y) => measuringOf(task, { X, y }, textOf(SCORES), 4).update(weights);
  assert.equal(found(["?", "no", "?"]), 0);
  assert.equal(found(["yes", "?", "?"]), 3);
  assert.equal(found(["?", "?", "?"]), -1);
  const seen = new Set(Array.from({ length: 200 }, () => found(["yes", "no", "no"])));
  assert.deepEqual([...seen].sort(), [0, 1, 3]);
});

test("what does not suit the task is no question, whatever the records are", () => {
  const wrong = [
    ["", 4],
    ["null", 4],
    [textOf(null), 4],
    [textOf(SCORES), 5],
    [textOf({ ...SCORES, edges: [0, 0] }), 6],
    [textOf(SCORES, null), 4],
    [textOf(SCORES, { ...PIPELINE, features: 2 }), 4],
    [textOf(SCORES, { ...PIPELINE, preparation: { ...PIPELINE.preparation, intercept: 0 } }), 4],
  ];
  for (const [text, count] of wrong)
    assert.equal(measuringOf(task, { X: [], y: [] }, text, count), null);
  assert.notEqual(measuringOf(task, { X: [], y: [] }, textOf(SCORES), 4), null);
});

test("rows and columns in words", () => {
  const named = new ModelQuestion(SCORES).axes(["no", "yes"]);
  assert.deepEqual(named, [
    ["class no", "class yes"],
    ["score below 0", "score from 0"],
  ]);
});
