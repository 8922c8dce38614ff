/** Answers tasks of benchmarks/differential.py: a line of JSON each, in and out. */

import "./surroundings.js"; // before anything of the client
import { createInterface } from "node:readline";

import { Client } from "../src/device/client.js";
import { Refused } from "../src/device/refusal.js";
import { evaluated, saturated } from "../src/device/updates.js";
import { fromHex, toHex } from "../src/hash.js";
import { Entropy } from "../src/random/entropy.js";
import { isQuestion } from "../src/solutions/names.js";
import { solutionOf } from "../src/solutions/solution.js";
import { checkText } from "../src/wire/intent.js";
import { decodeRequest, encodeReport, encodeRequest } from "../src/wire/request.js";
import { floats, hexOf } from "./checks/reading.js";
import { recipeOf, standingsOf } from "./checks/windows.js";
import { MemoryStore } from "./memory.js";

const MASK = (1n << 64n) - 1n;
const EDGES = [0n, 1n, MASK, 1n << 63n, MASK - 1n, (1n << 63n) - 1n, 1n << 32n, 0xffffffffn];

/** SplitMix64, with a word on the edge now and then: as `words` of the Python side. */
function wordsOf(seed) {
  let state = BigInt(seed);
  return () => {
    state = (state + 0x9e3779b97f4a7c15n) & MASK;
    let word = state;
    word = ((word ^ (word >> 30n)) * 0xbf58476d1ce4e5b9n) & MASK;
    word = ((word ^ (word >> 27n)) * 0x94d049bb133111ebn) & MASK;
    word ^= word >> 31n;
    return word % 29n === 0n ? EDGES[Number((word >> 32n) % 8n)] : word;
  };
}

async function answer({ request: bytes, update, answer: chosen, residual, seed }) {
  const request = decodeRequest(fromHex(bytes));
  if (typeof request === "string") return { refused: request };
  const { recipe, recipeBytes, run, round } = request;
  let solution;
  try {
    solution = solutionOf(recipe, toHex(recipeBytes));
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    return { refused: "malformed" };
  }
  const given = update === null ? chosen : floats(update, 8);
  const answers = isQuestion(recipe.solution);
  let gradient = await evaluated(given, new Float64Array(recipe.dim), recipe.dim, answers);
  if (solution.rateInside) gradient = saturated(gradient, recipe.learningRate);
  const before = residual === null ? new Float32Array(recipe.dim) : floats(residual, 4);
  let used = 0;
  const next = wordsOf(seed);
  const entropy = new Entropy(() => {
    used += 1;
    return next();
  });
  const { slots, symbols, kept } = solution.encode(gradient, before, round, entropy);
  return {
    charge: String(solution.charge),
    report: toHex(encodeReport(run, round, slots, symbols)),
    residual: solution.accumulates ? hexOf(kept) : null,
    used,
  };
}

/** The decisions of a device, and what its ledger says in the end. */
async function lived(steps) {
  const [store, zeros, decisions] = [new MemoryStore(), new Float64Array(6), []];
  let client = null;
  for (const [number, step] of steps.entries()) {
    globalThis.scripted.now = step.now;
    try {
      if (step.policy !== undefined) {
        const options = { create: client === null, raisedBy: step.by ?? undefined };
        client = await Client.open(step.policy, store, options);
        decisions.push("opened");
      } else if (step.confirm !== undefined) {
        await client.confirmClock(step.confirm);
        decisions.push("confirmed");
      } else {
        const run = fromHex(number.toString(16).padStart(32, "0"));
        if (step.question !== undefined) {
          await client.answer(fromHex(step.question), new Uint8Array(0), step.answer);
        } else {
          const request = encodeRequest({ run, epoch: 0, round: 0 }, step, recipeOf(step.charge));
          await client.answer(request, zeros, zeros);
        }
        const [{ time, charge }] = (await client.history()).entries.slice(-1);
        decisions.push([time, String(charge)]);
      }
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      decisions.push(error.fault ?? error.reason);
    }
  }
  const history = await client.history();
  return {
    decisions,
    spent: String(history.spent),
    left: history.left === null ? null : String(history.left),
    changes: history.changes.map(({ limits, time, reports, by }) => [
      ...[limits.map(({ row }) => row), time, reports, by],
    ]),
    confirmations: history.confirmations.map(({ time, reports, by }) => [time, reports, by]),
    standings: standingsOf(history, steps.at(-1).now).map((one) => Object.values(one)),
  };
}

/** What a device makes of bytes, and what a policy makes of a text. */
function judged({ message, text }) {
  if (message !== undefined) {
    const request = decodeRequest(fromHex(message));
    return { request: typeof request === "string" ? request : "understood" };
  }
  try {
    checkText("purpose", text, "purpose");
    return { accepted: true };
  } catch {
    return { accepted: false };
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  const task = JSON.parse(line);
  const result = await (task.history
    ? lived(task.history)
    : task.request
      ? answer(task)
      : judged(task));
  process.stdout.write(`${JSON.stringify(result)}\n`);
}
