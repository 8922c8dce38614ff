/** Devices in Node for tests/clients/test_answers.py: options in JSON on stdin, outcomes on stdout. */

import { readFileSync } from "node:fs";
import { takePart } from "./joining.js";

await fetch("data:,"); // what Node's own client needs is loaded before anything is replaced
const outcomes = [];
for (const options of JSON.parse(readFileSync(0, "utf8"))) outcomes.push(await takePart(options));
console.log(JSON.stringify(outcomes));
