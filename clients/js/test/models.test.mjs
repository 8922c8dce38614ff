/** Models of files: the cases that Python has, too, and files that are no models. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";

import { InvalidArgument, Model } from "../src/index.js";

const CASES = JSON.parse(
  readFileSync(new URL("../../../tests/clients/model.json", import.meta.url), "utf-8"),
);
const [{ model: FILE, records: RECORDS }] = CASES;

/** The same to 1e-9, relative to the larger of 1 and the number. */
function near(found, wanted) {
  assert.equal(found.length, wanted.length);
  found.forEach((number, i) => {
    const most = 1e-9 * Math.max(1, Math.abs(wanted[i]));
    assert.ok(Math.abs(number - wanted[i]) <= most, `${number} is not ${wanted[i]}`);
  });
}

for (const { what, model: file, records, margins, predictions, probabilities } of CASES) {
  test(`as in Python: ${what}`, () => {
    const model = Model.of(file);
    records.forEach((record, i) => {
      near(model.margins(record), margins[i]);
      const predicted = model.predict(record);
      if (typeof predicted === "number") near([predicted], [predictions[i]]);
      else assert.equal(predicted, predictions[i]);
      if (probabilities) near(model.probabilities(record), probabilities[i]);
      else assert.throws(() => model.probabilities(record), /logistic/);
      assert.deepEqual(model.margins(model.schema.encode(record)), model.margins(record));
    });
    assert.deepEqual(Model.of(JSON.stringify(file)).margins(records[0]), model.margins(records[0]));
  });
}

test("weights alone predict nothing", () => {
  const none = { schema: null, loss: null, classes: null, pipeline: null, log_prior: null };
  const model = Model.of({ ...FILE, ...none, linear: null });
  assert.deepEqual([...model.weights], FILE.weights);
  assert.throws(() => model.predict(RECORDS[0]), /model = "no schema"/);
});

test("what is no model is refused by one sentence", () => {
  const { about: _, ...short } = FILE;
  const wrong = [
    ["", /a model file of fedsel/],
    [[], /a model file of fedsel/],
    [null, /a model file of fedsel/],
    [{ ...FILE, format: "onnx" }, /other JSON/],
    [{ ...FILE, version: 2 }, /^version = 2: must be 1; another fedsel/],
    [short, /^about = undefined: must be given/],
    [{ ...FILE, more: 1 }, /^more = 1: must be omitted/],
    [{ ...FILE, about: [] }, /^about/],
    [{ ...FILE, schema: null }, /null without a schema/],
    [{ ...FILE, schema: { columns: 9 } }, /features/],
    [{ ...FILE, schema: { columns: 2 ** 32 } }, /features/],
    [{ ...FILE, loss: "hinge" }, /^loss/],
    [{ ...FILE, loss: "squared" }, /^classes/],
    [{ ...FILE, classes: ["yes", "no"] }, /^classes.*as in the schema/],
    [{ ...FILE, classes: ["no"] }, /^classes/],
    [{ ...FILE, classes: ["no", true] }, /^classes/],
    [{ ...FILE, pipeline: null }, /^pipeline/],
    [{ ...FILE, weights: [1, 2] }, /^weights = "2 numbers": must be 1 × 4 numbers/],
    [{ ...FILE, weights: [1, 2, 3, null] }, /^weights/],
    [{ ...FILE, log_prior: [0.5] }, /^log_prior/],
    [{ ...FILE, linear: { coefficients: [[1]], constants: [0] } }, /^linear/],
  ];
  for (const [file, message] of wrong) {
    assert.throws(
      () => Model.of(file),
      (error) => error instanceof InvalidArgument && message.test(error.message),
      `${message}`,
    );
  }
});
