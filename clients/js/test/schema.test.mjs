/** Schemas: the cases that Python has, too, and schemas that no service of good will announces. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";

import { InvalidArgument, InvalidData, Schema } from "../src/index.js";

const CASES = JSON.parse(
  readFileSync(new URL("../../../tests/clients/schema.json", import.meta.url), "utf-8"),
);
const column = (fields) => ({ columns: [{ name: "a", ...fields }] });

for (const { what, schema: values, features, records, encoded, labels, targets } of CASES) {
  test(`as in Python: ${what}`, () => {
    const schema = new Schema(values);
    if (features) assert.deepEqual(schema.features, features);
    (records ?? []).forEach((record, i) => {
      const found = schema.encode(record);
      assert.ok(found.every((number, j) => Object.is(number, encoded[i][j])));
      assert.equal(found.length, encoded[i].length);
      assert.equal(schema.encode(found), found); // what is encoded stays as it is
    });
    const found = (labels ?? []).map((label) => schema.target(label));
    assert.deepEqual(
      found.map((target) => (Number.isNaN(target) ? null : target)),
      targets ?? [],
    );
  });
}

test("a record's cells by position, and what is no cell", () => {
  const columns = [
    { name: "x", range: [0, 4], indicator: true },
    { name: "k", levels: ["a", "other"] },
    { name: "d", date: ["day"] },
  ];
  const schema = new Schema({ columns });
  assert.deepEqual([...schema.encode([1n, "a", "2020-01-01"])], [1, 0, 1, 0, 1, 0]);
  const odd = [{}, [1], () => {}, Symbol("s"), { __proto__: null }, new Date(), 10n ** 400n];
  for (const cell of odd) {
    assert.deepEqual([...schema.encode([cell, cell, cell])], [2, 1, 0, 1, 0, 0]);
  }
  for (const record of [null, "abc", 3, undefined, [1, 2], new Float64Array(6)]) {
    assert.throws(() => schema.encode(record), InvalidData);
  }
  assert.throws(() => new Schema({ columns: 2 }).encode({ 0: 1, 1: 2 }), InvalidData);
});

test("what others put into Object.prototype is no cell and no field", () => {
  Object.assign(Object.prototype, { x: 3, missing: 1, indicator: true, classes: ["a", "b"] });
  try {
    const schema = new Schema({ columns: [{ name: "x", range: [0, 4] }] });
    assert.deepEqual([schema.features, schema.classes], [["x"], null]);
    assert.deepEqual([...schema.encode({})], [2]);
    assert.deepEqual([...new Schema({ columns: 1 }).encode([1])], [1]);
  } finally {
    for (const name of ["x", "missing", "indicator", "classes"]) delete Object.prototype[name];
  }
});

test("a wrong schema is refused by one sentence", () => {
  const wrong = [
    [null, /^schema = null: must be an object with columns/],
    [{}, /^columns = undefined: must be a list of columns/],
    [{ columns: [] }, /^columns = \[\]/],
    [{ columns: { a: { range: [0, 1] } } }, /^columns = \{"a":.*must be a list/],
    [{ columns: 0 }, /^columns = 0: must be an integer in 1/],
    [{ columns: 2 ** 32 + 1 }, /^columns = /],
    [{ columns: [{ name: "a\u202eb", range: [0, 1] }] }, /a name: printable text/],
    [{ columns: [{ range: [0, 1] }] }, /a name: printable text/],
    [{ columns: [null] }, /with a name each/],
    [column({}), /^columns.a = \[\]: must be with one of/],
    [column({ range: [1, 0] }), /^columns.a.range = \[1,0\]: must be \[low, high\]/],
    [column({ range: [0, 1, 2] }), /^columns.a.range/],
    [column({ range: [0, null] }), /^columns.a.range/],
    [column({ range: [0, 1], missing: 2 }), /^columns.a.missing = 2: must be within 0 … 1/],
    [column({ range: [0, 1], missing: "1" }), /^columns.a.missing/],
    [column({ range: [0, 1], indicator: 1 }), /^columns.a.indicator = 1: must be true or false/],
    [column({ range: [0, 1], levels: ["x"] }), /one of range, levels and date/],
    [column({ levels: ["x", " x"] }), /^columns.a.levels/],
    [column({ levels: [{ toString: 1 }] }), /^columns.a.levels/],
    [column({ levels: ["x"], missing: "y" }), /^columns.a.missing = "y"/],
    [column({ levels: ["x"], __proto__: null, constructor: 1 }), /^columns.a.constructor = 1/],
    [column({ levels: ["missing"], indicator: true }), /"a=missing": must be such that no two/],
    [column({ date: ["week"] }), /^columns.a.date/],
    [column({ date: ["year"] }), /^columns.a.range.*year needs public bounds/],
    [column({ date: ["year"], range: ["2001-01-01", "2000-01-01"] }), /first < last/],
    [column({ date: ["day"], format: "DD.MM" }), /^columns.a.format = "DD.MM"/],
    [column({ date: ["day"], format: "DD.MM.YYYY DD" }), /^columns.a.format/],
    [column({ date: ["day"], missing: "soon" }), /^columns.a.missing/],
    [{ ...column({ range: [0, 1] }), label: "a" }, /^label = "a": must be no column/],
    [{ columns: 1, classes: ["a"] }, /^classes = \["a"\]: must be at least two/],
    [{ columns: 1, classes: ["a", "b"], target_range: [0, 1] }, /omitted beside classes/],
    [{ columns: 1, target_range: [0, Infinity] }, /^target_range/],
    [{ columns: 1, labels: ["a", "b"] }, /^labels = \["a","b"\]: must be omitted/],
  ];
  for (const [values, message] of wrong) {
    assert.throws(
      () => new Schema(values),
      (error) => error instanceof InvalidArgument && message.test(error.message),
      JSON.stringify(values),
    );
  }
});

test("neither a schema nor a cell makes a device work for ever", () => {
  const wide = new Schema({ columns: 2 ** 32, classes: ["a", "b", "c"] });
  assert.equal(wide.dim, 3 * (2 ** 32 + 1)); // nothing of its size was built
  const long = "1".repeat(2e6);
  const format = `${"(.*)*".repeat(1e5)}YYYYMMDDhhmmss`;
  const columns = [
    { name: "x", range: [0, 1] },
    { name: "k", levels: ["a"] },
    { name: "d", date: ["day"] },
    { name: "f", date: ["day"], format },
  ];
  const schema = new Schema({ columns });
  const blank = " ".repeat(1e6);
  const cells = [
    `${long}x`,
    `${long}e`,
    `a${blank}a`,
    `${blank}a${blank}`,
    `2020-01-01T00:00:00.${long}x`,
  ];
  cells.push(format.replace("YYYYMMDDhhmmss", "20201111111"), format.replace(/Y.*/, "2020111x"));
  for (const cell of cells) schema.encode([cell, cell, cell, cell]);
  const { length } = schema.encode([null, " a ", "", format.replace(/Y.*/, "2020111111")]);
  assert.equal(length, 6);
});
