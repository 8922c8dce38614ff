/** A device as a process of its own: answers rounds on a store and prints the reports. */

import { toHex } from "../src/hash.js";
import { Client, Refused } from "../src/index.js";
import { FileStore } from "../src/node.js";
import { POLICY, UPDATE, WEIGHTS, requestOf } from "./support.js";

const [folder, from, to, limits = "{}"] = process.argv.slice(2);
const policy = { ...POLICY, lifetime: 500, reports_per_epoch: 1000, ...JSON.parse(limits) };
const client = await Client.open(policy, new FileStore(folder), { create: true });
console.log("ready");
for (let round = Number(from); round < Number(to); round++) {
  try {
    const report = await client.answer(requestOf({ round, epsilon: [1n, 1n] }), WEIGHTS, UPDATE);
    console.log(round, toHex(report));
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    console.log(round, error.reason);
  }
}
