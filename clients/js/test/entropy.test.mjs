import assert from "node:assert/strict";
import test from "node:test";

import { Client } from "../src/index.js";
import { SYSTEM } from "../src/random/entropy.js";
import { chiSquare, reportsOfJ } from "./statistics.js";
import { MemoryStore } from "./memory.js";

// The chance that one of these fails by accident is 1e-9 each: the upper quantile of χ².
const [FIVE, THIRTY_ONE] = [50.7, 103.5];

test("integers below n are uniform", () => {
  const counts = new Array(32).fill(0);
  for (let i = 0; i < 30_000; i++) counts[Number(SYSTEM.below(32n))] += 1;
  assert.ok(
    chiSquare(
      counts,
      counts.map(() => 1 / 32),
    ) < THIRTY_ONE,
  );
});

test("the bytes of reports from real entropy follow the exact law", async () => {
  const { counts, law } = await reportsOfJ(Client, () => new MemoryStore(), 3000);
  assert.ok(chiSquare(counts, law) < FIVE);
});
