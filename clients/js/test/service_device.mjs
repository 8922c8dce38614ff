/** A device of a service over HTTP, as docs/browser.md has it: takes part until the run is over. */

import { Client, LinearModel, RecordPipeline, readRequest } from "../src/index.js";
import { FileStore } from "../src/node.js";

const [address, folder, token] = process.argv.slice(2);
const limits = { lifetime: 100, per_report: 4, reports_per_epoch: 10 };
const policy = { ...limits, solutions: ["FJ", "RJ"], dimensions: [4] };
const client = await Client.open(policy, new FileStore(folder), { create: true });
const get = (part) => fetch(`${address}/v1/rounds/${part}`);
const answered = new Set();
for (;;) {
  const asked = await get("open/request");
  if (!asked.ok) break;
  const request = await asked.arrayBuffer();
  const { round, dim } = readRequest(request);
  if (answered.has(round)) {
    await new Promise((resolve) => setTimeout(resolve, 50)); // the other devices' turn
    continue;
  }
  const [weights, told] = await Promise.all([get(`${round}/weights`), get(`${round}/preparing`)]);
  if (!weights.ok || !told.ok) continue; // the round is over: nothing was spent
  const preparing = RecordPipeline.parse(await told.text(), dim);
  const records = preparing.records([[30, 0.5, -1]], [1], new LinearModel({ loss: "logistic" }));
  const update = records.update(round, preparing.preparation);
  const body = await client.answer(request, await weights.arrayBuffer(), update);
  const headers = { Authorization: `Bearer ${token}`, "Content-Type": "application/octet-stream" };
  const sent = await fetch(`${address}/v1/reports`, { method: "POST", headers, body });
  if (!sent.ok) throw new Error(`${sent.status} ${await sent.text()}`);
  answered.add(round);
}
const { spent, entries } = await client.history();
console.log(
  JSON.stringify({ reports: answered.size, entries: entries.length, spent: String(spent) }),
);
