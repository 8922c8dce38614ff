import { readFileSync, readdirSync } from "node:fs";
import test from "node:test";
import assert from "node:assert/strict";

import { KINDS, failures } from "./vectors.js";

const folder = process.env.FEDSEL_VECTORS ?? new URL("../../../vectors/", import.meta.url).pathname;
const ON_SERVERS = ["server"];

test("every file of vectors is checked", () => {
  const found = readdirSync(folder)
    .map((name) => name.replace(/\.json$/, ""))
    .sort();
  assert.deepEqual(found, [...KINDS, ...ON_SERVERS].sort());
});

for (const kind of KINDS) {
  test(`vectors: ${kind}`, async () => {
    const { cases } = JSON.parse(readFileSync(`${folder}/${kind}.json`, "utf-8"));
    assert.ok(cases.length > 0);
    assert.deepEqual(await failures(kind, cases), []);
  });
}
