/** Encodes records for tests/clients/test_schema.py: a line of JSON each, in and out. */

import { createInterface } from "node:readline";

import { InvalidArgument, Schema } from "../src/index.js";

function answer({ schema: values, records, labels }) {
  let schema;
  try {
    schema = new Schema(values);
  } catch (error) {
    if (!(error instanceof InvalidArgument)) throw error;
    return { refused: true };
  }
  return {
    features: schema.features,
    encoded: records.map((record) => hexOf(schema.encode(record))),
    targets: labels.map((label) => {
      const target = schema.target(label);
      return Number.isNaN(target) ? null : target;
    }),
  };
}

/** @param {Float64Array} vector */
function hexOf({ buffer }) {
  return Buffer.from(buffer).toString("hex");
}

for await (const line of createInterface({ input: process.stdin })) {
  process.stdout.write(`${JSON.stringify(answer(JSON.parse(line)))}\n`);
}
