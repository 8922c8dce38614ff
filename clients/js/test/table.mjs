/** Encodes .csv files for tests/clients/test_schema.py as the page at /join reads them: a line of JSON
 * each, in and out. */

import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";

import { Schema } from "../src/index.js";

const page = new URL("../../../src/fedsel/service/joining/page/csv.js", import.meta.url);
const source = encodeURIComponent(readFileSync(page, "utf8")); // no package says that it is a module
const { parseTable } = await import(`data:text/javascript,${source}`);

for await (const line of createInterface({ input: process.stdin })) {
  const { schema: values, text } = JSON.parse(line);
  const schema = new Schema(values);
  const { header, rows } = parseTable(text);
  const encoded = rows.map((row) =>
    schema.encode(Object.fromEntries(header.map((name, place) => [name, row[place]]))),
  );
  const targets = rows.map((row) => schema.target(row[header.indexOf(schema.label)]));
  const found = {
    encoded: encoded.map(({ buffer }) => Buffer.from(buffer).toString("hex")),
    targets: targets.map((target) => (Number.isNaN(target) ? null : target)),
  };
  process.stdout.write(`${JSON.stringify(found)}\n`);
}
