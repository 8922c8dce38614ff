import assert from "node:assert/strict";
import test from "node:test";

test("the package exports what its readers need, and nothing that tests inject", async () => {
  const all = await import("fedsel");
  assert.deepEqual(Object.keys(all).sort(), [
    "BrowserStore",
    "Client",
    "FAULTS",
    "FeatureScale",
    "Fraction",
    "InvalidArgument",
    "InvalidData",
    "LedgerError",
    "LinearModel",
    "LinearRecords",
    "Plan",
    "Policy",
    "Preparation",
    "REASONS",
    "Refused",
    "SOLUTIONS",
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
