/** A device that answers a question: BR. */

import "./surroundings.js"; // before anything of the client
import assert from "node:assert/strict";
import test from "node:test";

import { Client, Refused, readRequest } from "../src/index.js";
import { toHex } from "../src/hash.js";
import { blocksOf } from "../src/solutions/blocks.js";
import { MemoryStore } from "./memory.js";
import { requestOf } from "./support.js";

const POLICY = { lifetime: 10, per_report: 1, solutions: ["BR"], dimensions: [6] };
const NONE = new Uint8Array(0);

const asked = (changes = {}) => {
  return requestOf({ solution: "BR", epsilon: [3n, 1n], epochs: 3, ...changes });
};
const opened = (policy = {}) =>
  Client.open({ ...POLICY, ...policy }, new MemoryStore(), { create: true });
const refused = (reason) => (error) => error instanceof Refused && error.reason === reason;
const blockOf = (report) => new DataView(report.buffer).getUint32(8, true);
const unit = (answer) => Float64Array.from({ length: 6 }, (_, i) => Number(i === answer));

/** What is drawn on given words. */
async function scripted(seed, body) {
  let word = BigInt(seed);
  globalThis.scripted.words = () => (word = (word * 0xd1342543de82ef95n + 1n) & (2n ** 64n - 1n));
  try {
    return await body();
  } finally {
    globalThis.scripted.words = null;
  }
}

test("an answer is a report of its unit vector", async () => {
  for (let answer = 0; answer < 6; answer++) {
    const reports = [];
    for (const update of [answer, BigInt(answer), () => answer, async () => answer, unit(answer)]) {
      const client = await opened();
      reports.push(await scripted(answer, () => client.answer(asked(), NONE, update)));
    }
    assert.equal(new Set(reports.map(toHex)).size, 1);
    assert.equal(reports[0].length, 16);
  }
});

test("what is no answer is reported as none", async (t) => {
  t.mock.method(console, "warn", () => {});
  const none = await scripted(7, async () => (await opened()).answer(asked(), NONE, unit(-1)));
  const wrong = [
    -1,
    6,
    0.5,
    true,
    null,
    undefined,
    "3",
    [1],
    1e30,
    10n ** 30n,
    NaN,
    [0, 0, 0, 0, 0],
  ];
  for (const update of wrong) {
    const client = await opened();
    const report = await scripted(7, () => client.answer(asked(), NONE, update));
    assert.deepEqual(report, none, String(update));
  }
});

test("an integer is no update of a solution that trains", async (t) => {
  t.mock.method(console, "warn", () => {});
  const weights = new Float64Array(6);
  const reports = [];
  for (const update of [3, weights]) {
    const client = await opened({ solutions: ["J"] });
    const request = requestOf({ solution: "J", epsilon: [1n, 1n] });
    reports.push(await scripted(5, () => client.answer(request, weights, update)));
  }
  assert.deepEqual(reports[0], reports[1]);
});

test("an update is a function of the weights that are measured, however many", async () => {
  for (const weights of [
    Float64Array.of(0.5, -2, 3),
    Float32Array.of(0.5, -2, 3),
    new Float64Array(0),
    new Float32Array(0),
  ]) {
    const seen = [];
    const client = await opened();
    await client.answer(asked(), weights, (model) => (seen.push(model), 1));
    assert.deepEqual(seen, [weights]);
  }
  // As bytes they are doubles, also where there are 4·M of them.
  const client = await opened();
  const seen = [];
  const weights = Float64Array.of(0.5, -2, 3);
  const report = await client.answer(asked(), weights.buffer, (model) => (seen.push(model), 1));
  assert.deepEqual(seen, [weights]);
  assert.deepEqual(await client.answer(asked(), weights, 2), report);
});

test("weights that are none are refused", async () => {
  const client = await opened();
  for (const weights of [
    new Uint8Array(7),
    new Uint8Array(12),
    Float64Array.of(NaN),
    Float64Array.of(1e7),
    new Float64Array(2 ** 24 + 1),
    new Uint8Array(8 * 2 ** 24 + 8),
    [1],
    null,
  ]) {
    await assert.rejects(client.answer(asked(), weights, 1), refused("WEIGHTS"));
  }
  assert.equal((await client.history()).entries.length, 0);
});

test("every epoch costs the same, whatever the answers are", async () => {
  for (const answers of [
    [4, 4, 4],
    [4, 2, 2],
  ]) {
    const client = await opened();
    for (const [epoch, answer] of answers.entries()) {
      await client.answer(asked({ epoch, round: 7 * epoch }), NONE, answer);
    }
    const { entries } = await client.history();
    assert.deepEqual(
      entries.map(({ charge }) => String(charge)),
      ["1", "1", "1"],
    );
  }
});

test("the same request has the same report at no cost, whatever the answer is", async () => {
  for (const answer of [4, 2]) {
    const client = await opened({ lifetime: 1 });
    const report = await client.answer(asked(), NONE, 4);
    assert.deepEqual(await client.answer(asked(), NONE, answer), report);
    assert.equal(String((await client.history()).spent), "1");
  }
});

test("without budget a later epoch is refused, whatever the answer is", async () => {
  for (const answer of [4, 2]) {
    const client = await opened({ lifetime: 1, runs: 2 });
    await client.answer(asked(), NONE, 4);
    for (const later of [asked({ epoch: 1, round: 1 }), asked({ run: 2 })]) {
      await assert.rejects(client.earlier(later), refused("EXHAUSTED"));
      await assert.rejects(client.answer(later, NONE, answer), refused("EXHAUSTED"));
    }
  }
});

test("a question in words", () => {
  const facts = readRequest(asked({ k: 1, words: 7, bases: 3 }));
  assert.deepEqual([facts.solution, facts.dim, String(facts.charge)], ["BR", 6, "1"]);
  assert.deepEqual([facts.slots, facts.symbols, facts.reportBytes], [21, 1, 16]);
});

test("every answer is in equally many blocks, and every two share equally many", () => {
  for (const [dim, k, words, bases] of [
    [6, 3, null, null],
    [7, 2, 7, 3],
    [13, 5, 13, 6],
    [41, 3, 41, 8],
  ]) {
    const blocks = blocksOf({ dim, k: { count: k }, words, bases });
    const [alone, together] = [new Map(), new Map()];
    for (let basis = 0; basis < blocks.bases; basis++) {
      const held = Array.from({ length: dim }, (_, answer) => {
        const vector = Float32Array.from({ length: dim }, (_unused, i) => Number(i === answer));
        return blocks.scores(vector, 0, basis);
      });
      for (let x = 0; x < dim; x++) {
        for (let y = 0; y <= x; y++) {
          const counts = x === y ? alone : together;
          const shared = held[x].reduce((sum, one, block) => sum + one * held[y][block], 0);
          const pair = `${x} ${y}`;
          counts.set(pair, (counts.get(pair) ?? 0) + shared);
        }
      }
    }
    assert.deepEqual([...new Set(alone.values())], [blocks.holding * blocks.bases]);
    assert.equal(new Set(together.values()).size, 1);
  }
});

test("the slot of a report is drawn by the law, and nothing else is told", async () => {
  const client = await opened({ lifetime: 500, per_report: 250, reports_per_epoch: 999 });
  const sure = { epsilon: [500n, 1n], epochs: 2, k: 1, words: 7, bases: 3 };
  for (let round = 0; round < 2; round++) {
    // At ε = 250 the block holds the answer.
    const report = await client.answer(asked({ ...sure, epoch: round, round }), NONE, 4);
    const [basis, block] = [Math.floor(blockOf(report) / 7), blockOf(report) % 7];
    const held = blocksOf({ dim: 6, k: { count: 1 }, words: 7, bases: 3 }).scores(
      unit(4),
      0,
      basis,
    );
    assert.equal(held[block], 1);
    assert.equal(new DataView(report.buffer).getUint32(12, true), 0);
  }
});
