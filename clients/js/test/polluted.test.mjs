/** What others put into `Object.prototype` is no field of a policy, no option and in no message. */

import assert from "node:assert/strict";
import { mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "node:test";

import { checkCount } from "../src/errors.js";
import {
  Client,
  LinearModel,
  LinearRecords,
  Plan,
  Policy,
  Preparation,
  RecordPipeline,
} from "../src/index.js";
import { countTop } from "../src/mechanisms/selection.js";
import { FileStore } from "../src/node.js";
import { sealed } from "../src/sealing/sealing.js";
import { MemoryStore } from "./memory.js";
import { POLICY, UPDATE, WEIGHTS, requestOf } from "./support.js";

const FIELDS = {
  ...{ lifetime: 500, per_report: 500, solutions: ["RJ"], dimensions: [3, 6], clip: 1e9 },
  ...{ reports_per_epoch: 1000, reports_per_day: 1000, runs: 1000, weight_bound: 1e30 },
  ...{ least_seconds: 0.001, require_purpose: true, require_recipient: true },
  ...{ purposes: ["any"], recipients: ["any"], server_key: "ab".repeat(32) },
  ...{ per_window: [500, "1 hour"], clock_tolerance: "3650 days" },
  ...{ menu: [{ purpose: "any", lifetime: 500 }], purpose: "any", recipient: "any" },
};
const PREPARATION = { spread: 1, centre: 0, intercept: 1, unit: true, factor: 1 };
const PLAN = {
  ...{ features: 2, dim: 3, spread_rounds: 0, centre_rounds: 1, radius: 1, noise: 1 },
  ...{ loose: [true, true], octaves: 3, scattered: true },
};

/** Do work while every object has these fields, too. */
async function polluted(fields, work) {
  Object.assign(Object.prototype, fields);
  try {
    return await work();
  } finally {
    for (const name of Object.keys(fields)) delete Object.prototype[name];
  }
}

test("a policy has its own fields alone", async () => {
  const own = { ...new Policy(POLICY) };
  const found = await polluted(FIELDS, () => ({ ...new Policy(POLICY) }));
  assert.deepEqual(found, own);
  for (const name of ["lifetime", "per_report", "solutions", "dimensions"]) {
    const { [name]: _, ...rest } = POLICY;
    await assert.rejects(
      polluted(FIELDS, () => new Policy(rest)),
      { argument: name },
    );
  }
});

test("a share of k stays one", async () => {
  assert.equal(await polluted({ count: 5 }, () => countTop({ share: 0.1 }, 100)), 10);
});

test("a client answers no more than its policy says", async () => {
  const counts = { least: -9, most: 1e9 };
  await polluted({ ...FIELDS, ...counts, create: true }, async () => {
    await assert.rejects(Client.open(POLICY, new MemoryStore()), { fault: "MISSING" });
    const client = await Client.open(POLICY, new MemoryStore(), { create: true });
    const large = new Float64Array(6).fill(1e9);
    await assert.rejects(client.answer(requestOf(), large, UPDATE), { reason: "WEIGHTS" });
    assert.equal((await client.answer(requestOf(), WEIGHTS, UPDATE)).length, 16);
    const again = client.answer(requestOf({ round: 1 }), WEIGHTS, UPDATE);
    await assert.rejects(again, { reason: "TOO_OFTEN" });
    assert.throws(() => new Policy({ ...POLICY, runs: 0 }), /runs = 0/);
    assert.throws(() => checkCount("count", 0), /count = 0/);
    assert.throws(() => checkCount("count", 8, { most: 7 }), /count = 8/);
  });
});

test("models and records have the options that they are given", async () => {
  const found = await polluted(
    {
      ...{ loss: "svm", reg: 7, intercept: 0, unit: false, factor: 9 },
      ...{
        mixing: [[9]],
        octaves: 7,
        scattered: true,
        origin: [9],
        passes: ["origin"],
        model: null,
        plan: new Plan(PLAN),
      },
    },
    () => {
      const { octaves: _, scattered: __, ...plan } = PLAN;
      const told = new LinearRecords([[0.5]], [1]).update(0, Preparation.plain(1));
      return {
        model: { ...new LinearModel() },
        plain: { ...Preparation.plain(1) },
        plan: { ...new Plan(plan) },
        told: told(new Float64Array(2)),
      };
    },
  );
  const { octaves: _, scattered: __, ...plan } = PLAN;
  const told = new LinearRecords([[0.5]], [1]).update(0, Preparation.plain(1));
  assert.deepEqual(found, {
    model: { ...new LinearModel() },
    plain: { ...Preparation.plain(1) },
    plan: { ...new Plan(plan) },
    told: told(new Float64Array(2)),
  });
});

test("a message has its own fields alone", async () => {
  const parts = {
    ...{ features: 2, octaves: 16, low: 0, high: 4 },
    ...{ preparation: PREPARATION, plan: null },
  };
  const all = { ...parts, ...PREPARATION, ...PLAN, loose: true };
  for (const name of Object.keys(parts)) {
    const { [name]: _, ...rest } = parts;
    const text = JSON.stringify(rest);
    await assert.rejects(
      polluted(all, () => RecordPipeline.parse(text, 2)),
      { name: "InvalidArgument" },
      name,
    );
  }
  for (const name of Object.keys(PREPARATION)) {
    const { [name]: _, ...rest } = PREPARATION;
    const text = JSON.stringify({ ...parts, preparation: rest });
    await assert.rejects(
      polluted(all, () => RecordPipeline.parse(text, 2)),
      { name: "InvalidArgument" },
      name,
    );
  }
});

test("a store is where it is said to be, for its owner alone", async (t) => {
  const folder = mkdtempSync(join(tmpdir(), "fedsel-"));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const store = join(folder, "deep", "store");
  await polluted({ witness: join(folder, "elsewhere"), mode: 0o777 }, async () => {
    assert.equal(new FileStore(store).witness, store);
    await Client.open(POLICY, new FileStore(store), { create: true });
  });
  assert.equal(statSync(store).mode & 0o777, 0o700);
});

test("a seal is whole", async () => {
  const key = Uint8Array.from(Buffer.from(FIELDS.server_key, "hex"));
  const report = new Uint8Array(16);
  const { length } = await sealed(report, report, key);
  const found = await polluted({ tagLength: 32, additionalData: report }, () =>
    sealed(report, report, key),
  );
  assert.equal(found.length, length);
});
