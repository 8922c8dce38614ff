import assert from "node:assert/strict";
import test from "node:test";

test("the package exports what its readers need, and nothing that tests inject", async () => {
  const all = await import("fedsel");
  assert.deepEqual(Object.keys(all).sort(), [
    "BrowserStore",
    "Client",
    "ENDINGS",
    "Ended",
    "FAULTS",
    "FeatureScale",
    "Fraction",
    "InvalidArgument",
    "InvalidData",
    "LedgerError",
    "LinearModel",
    "LinearRecords",
    "Model",
    "MulticlassModel",
    "Plan",
    "Policy",
    "Preparation",
    "Preparing",
    "REASONS",
    "RecordPipeline",
    "Refused",
    "SOLUTIONS",
    "Schema",
    "Session",
    "join",
    "readRequest",
  ]);
  assert.deepEqual(Object.keys(await import("fedsel/node")), ["FileStore"]);
  for (const inside of [
    "fedsel/src/random/entropy.js",
    "fedsel/src/device/client.js",
    "fedsel/test/memory.js",
  ]) {
    await assert.rejects(import(inside), { code: "ERR_PACKAGE_PATH_NOT_EXPORTED" });
  }
});

test("a request in words", async () => {
  const { readRequest, Refused } = await import("fedsel");
  const { requestOf } = await import("./support.js");
  const facts = readRequest(requestOf({ solution: "RJ", dim: 6 }));
  assert.equal(facts.solution, "RJ");
  assert.deepEqual([String(facts.epsilon), String(facts.charge), facts.epochs], ["4", "2", 2]);
  assert.deepEqual(
    [facts.slots, facts.symbols, facts.reportBytes, facts.canBeNothing],
    [8, 2, 16, false],
  );
  assert.equal(readRequest(requestOf({ solution: "FJ", dim: 6 })).slots, 2 ** 32);
  assert.throws(
    () => readRequest(new Uint8Array(3)),
    (error) => error instanceof Refused,
  );
});

test("policies and stores say what is wrong with them", async () => {
  const { BrowserStore, LinearRecords, Policy } = await import("fedsel");
  const { POLICY } = await import("./support.js");
  assert.throws(() => new Policy({ ...POLICY, lifetime: 0 }), /lifetime = 0: must be a number > 0/);
  assert.throws(
    () => new Policy({ ...POLICY, solutions: ["NP"] }),
    /solutions = "NP": must be a private/,
  );
  assert.throws(() => new Policy({ ...POLICY, colour: 1 }), /colour = 1: must be one of lifetime/);
  assert.throws(() => new Policy({ ...POLICY, reports_per_day: 0.5 }), /reports_per_day = 0.5/);
  assert.throws(() => new BrowserStore(), /secure page/);
  assert.throws(
    () => new LinearRecords([[0.123456]], [3]),
    (error) => !error.message.includes("0.123456"),
  );
});

test("a purpose is a text that a person may be shown", async () => {
  const { Policy } = await import("fedsel");
  const { POLICY } = await import("./support.js");
  const accepted = (text) => {
    try {
      return new Policy({ ...POLICY, purposes: [text] }).stated.purpose[0] === text;
    } catch {
      return false;
    }
  };
  for (const text of [
    "Für Zürich",
    "q\u0330\u0331\u0332\u0333",
    "日本語 😀".slice(0, 3),
    "x".repeat(200),
  ]) {
    assert.ok(accepted(text), text);
  }
  const unfit = [
    ...["", " a", "a ", "a  b", "two\nlines", "\u200b", "a\u00adb", "\u0301a", "a \u0301"],
    ...[
      "q\u0330\u0331\u0332\u0333\u0324",
      "e\u0301",
      "😀",
      "\ud800",
      "x".repeat(201),
      "é".repeat(101),
    ],
  ];
  for (const text of unfit) assert.ok(!accepted(text), JSON.stringify(text));
});

test("what a server says of records is checked before anything of its size is built", async () => {
  const { RecordPipeline } = await import("fedsel");
  const preparation = { spread: 1, centre: 0, intercept: 0.3, unit: true, factor: 1 };
  const parts = { features: 2, octaves: 16, low: 0, high: [4, 1], preparation, plan: null };
  const { scale } = RecordPipeline.parse(JSON.stringify(parts), 2);
  const plan = {
    ...{ features: 2, dim: 3, spread_rounds: 2, centre_rounds: 0, loose: true },
    ...{ radius: 1, noise: 1, passes: ["spread", "origin"] },
  };
  const moved = { ...preparation, origin: 0.5 };
  const learns = RecordPipeline.parse(JSON.stringify({ ...parts, preparation: moved, plan }), 2);
  assert.deepEqual([...learns.preparation.origin], [0.5, 0.5]);
  assert.deepEqual(
    [0, 1, 2].map((n) => learns.plan.stage(n)),
    ["spread", "origin", "training"],
  );
  assert.deepEqual([...scale.high], [4, 1]);
  const wrong = [
    "null",
    "no JSON",
    JSON.stringify({ ...parts, features: 1e9 }),
    JSON.stringify({ ...parts, high: [4] }),
    JSON.stringify({ ...parts, octaves: 1000 }),
    JSON.stringify({ ...parts, preparation: { ...preparation, spread: 2.1 } }),
    JSON.stringify({ ...parts, preparation: null }),
    JSON.stringify({ ...parts, preparation: { ...preparation, origin: [1] } }),
    JSON.stringify({ ...parts, preparation: { ...preparation, origin: null } }),
    JSON.stringify({ ...parts, plan: { ...plan, passes: ["spread", "centre"] } }),
    JSON.stringify({ ...parts, plan: { ...plan, passes: ["spread", "origin", "spread"] } }),
    JSON.stringify({ ...parts, plan: { ...plan, passes: "spread" } }),
    JSON.stringify({ ...parts, plan: { features: 3 } }),
  ];
  for (const text of wrong)
    assert.throws(() => RecordPipeline.parse(text, 2), { name: "InvalidArgument" }, text);
});

test("a device ends its work whatever spread and origin a server publishes", async () => {
  const { Plan, Preparation } = await import("fedsel");
  const passes = ["spread", "origin"];
  const sizes = { features: 2, dim: 3, spread_rounds: 2, centre_rounds: 0, loose: [true, true] };
  const plan = new Plan({ ...sizes, radius: 1, noise: 1, octaves: 64, passes });
  const shape = { centre: [0, 0], intercept: 0.3, unit: true, factor: 1 };
  const learnt = new Preparation({ ...shape, spread: [5e-324, 1], origin: [0, 1e308] });
  const [spread, origin] = [0, 1].map((n) => [...plan.vector(n, [[0.5, 0.25]], learnt)]);
  assert.equal(spread[0], spread[1]);
  assert.ok(spread[0] < 0 && origin[0] > 0 && origin[1] === -origin[0]);
});
