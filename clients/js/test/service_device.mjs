/** A device of a service over HTTP, as docs/browser.md has it: takes part until the run is over. */

import { Client, join } from "../src/index.js";
import { FileStore } from "../src/node.js";

const [address, folder, token, features = "3"] = process.argv.slice(2);
const limits = { lifetime: 100, per_report: 4, reports_per_epoch: 10 };
const policy = { ...limits, solutions: ["FJ", "RJ"], dimensions: [Number(features) + 1] };
const client = await Client.open(policy, new FileStore(folder), { create: true });
const record = Array.from({ length: Number(features) }, (_, i) => [30, 0.5, -1][i % 3]);
const records = { X: [record], y: [1] };
const { accepted, history } = await join(address, client, records, { token, every: 0.05 });
console.log(
  JSON.stringify({ reports: accepted, entries: history.entries.length, spent: `${history.spent}` }),
);
