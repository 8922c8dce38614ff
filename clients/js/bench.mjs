/** Speed of the client, as JSON: `node bench.mjs 4` for reports of ε = 4 (milliseconds; medians).
 *
 * `cold` builds the law of a recipe for the first time; `report` is everything from the update to
 * the report's bytes but for the ledger, once the engine has compiled it; `answer` is the whole call, with a ledger in a folder that
 * is flushed to the disk.
 */

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { Client } from "./src/index.js";
import { FileStore } from "./src/node.js";
import { evaluated, saturated } from "./src/device/updates.js";
import { toHex } from "./src/hash.js";
import { SYSTEM } from "./src/random/entropy.js";
import { solutionOf } from "./src/solutions/solution.js";
import { decodeRequest, encodeReport } from "./src/wire/request.js";

const SOLUTIONS = ["RJ", "FJ", "J", "UJ", "PS-PM", "EXP-HM", "PE-OW", "PM", "PM-RP", "RC"];
const SIZES = [123, 10_000];
const EPOCHS = 100;
const EPSILON = Number(process.argv[2] ?? 2); // 1 … 4
const [WARMING, MEASURED] = [500, 300];

/** The bytes of a request of version 1. */
function requestOf(solution, dim, epoch, round) {
  const bytes = new Uint8Array(150);
  const view = new DataView(bytes.buffer);
  const ascii = (text, at) => [...text].forEach((c, i) => view.setUint8(at + i, c.charCodeAt(0)));
  ascii("FSRQ", 0);
  view.setUint8(4, 1);
  view.setUint32(21, epoch, true);
  view.setUint32(25, round, true);
  ascii(solution, 29);
  view.setBigUint64(53, BigInt(EPSILON * EPOCHS), true);
  view.setBigUint64(61, 1n, true);
  view.setBigUint64(69, BigInt(dim), true);
  view.setUint32(77, EPOCHS, true);
  view.setFloat64(81, 0.1, true);
  view.setUint8(89, 1);
  view.setFloat64(90, 0.1, true);
  view.setFloat64(98, 1, true);
  view.setFloat64(114, 0.01, true);
  view.setFloat64(130, 1, true);
  view.setFloat64(138, 1, true);
  return bytes;
}

const median = (times) => times.sort((a, b) => a - b)[Math.floor(times.length / 2)];
const rounded = (ms) => Number(ms.toPrecision(3));

async function measured(solution, dim, folder) {
  const update = Float64Array.from({ length: dim }, (_, i) => Math.sin(i * i) / 10);
  const weights = new Float32Array(dim);
  const once = async (round) => {
    const begin = performance.now();
    const request = decodeRequest(requestOf(solution, dim, round % EPOCHS, round));
    const composed = solutionOf(request.recipe, toHex(request.recipeBytes));
    let gradient = await evaluated(() => update, weights, dim);
    if (composed.rateInside) gradient = saturated(gradient, request.recipe.learningRate);
    const drawn = composed.encode(gradient, new Float32Array(dim), round, SYSTEM);
    encodeReport(request.run, round, drawn.slots, drawn.symbols);
    return performance.now() - begin;
  };
  const cold = await once(0);
  for (let round = 1; round <= WARMING; round++) await once(round);
  const reports = [];
  for (let round = 1; round <= MEASURED; round++) reports.push(await once(round));
  const policy = { lifetime: 500, per_report: EPSILON, solutions: [solution], dimensions: [dim] };
  const client = await Client.open(policy, new FileStore(join(folder, `${solution}-${dim}`)), {
    create: true,
  });
  const answers = [];
  for (let round = 0; round < 20; round++) {
    const begin = performance.now();
    await client.answer(requestOf(solution, dim, round, round), weights, () => update);
    answers.push(performance.now() - begin);
  }
  const [report, answer] = [median(reports), median(answers)];
  return { cold: rounded(cold), report: rounded(report), answer: rounded(answer) };
}

const folder = mkdtempSync(join(tmpdir(), "fedsel-bench-"));
try {
  const results = {};
  for (const dim of SIZES) {
    results[`d = ${dim}`] = {};
    for (const solution of SOLUTIONS) {
      if (solution === "RC" && dim > 2048) continue; // more than a device is asked to hold
      if (solution.endsWith("-RP") && dim > 2048) continue;
      results[`d = ${dim}`][solution] = await measured(solution, dim, folder);
    }
  }
  console.log(JSON.stringify({ unit: "ms", node: process.version, results }, null, 2));
} finally {
  rmSync(folder, { recursive: true, force: true });
}
