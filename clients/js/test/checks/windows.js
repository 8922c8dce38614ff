/** Vectors of budgets that last: lengths of time, limits, and what a past allows. */

import { Books, beginning } from "../../src/device/books.js";
import { Limit, loosened, secondsOf } from "../../src/device/budget.js";
import { Client } from "../../src/device/client.js";
import { Policy } from "../../src/device/policy.js";
import { Refused } from "../../src/device/refusal.js";
import { toHex } from "../../src/hash.js";
import { encodeRequest } from "../../src/wire/request.js";
import { MemoryStore } from "../memory.js";
import { requestOf } from "../support.js";
import { exact, same } from "./reading.js";

const DIM = 6;

/** The bytes of a recipe of one report of this price. */
export function recipeOf(charge) {
  const { numerator, denominator } = exact(charge);
  const parts = { solution: "PM", epsilon: [numerator, denominator], epochs: 1, dim: DIM };
  return requestOf(parts).slice(29);
}

/** A ledger with these entries, each of a run of its own. */
function heldOf({ policy, created, confirmed, entries }) {
  const { limits } = new Policy(policy);
  const books = new Books(beginning(limits, "00".repeat(16), created));
  for (const [number, { time, charge, purpose, recipient }] of entries.entries()) {
    const run = (number + 1).toString(16).padStart(32, "0");
    const task = toHex(recipeOf(charge));
    books.openRun({ run, task, purpose, recipient }, policy.runs);
    const place = { run, epoch: 0, round: 0 };
    books.record({ ...place, time, charge, digest: "00".repeat(32), report: "00" }, null);
  }
  for (const time of confirmed) books.confirm(time, "The owner");
  return books.change() ?? beginning(limits, "00".repeat(16), created);
}

/** What limits count, as vectors write it. */
export function standingsOf(history, now) {
  return history.standings(now).map(({ limit, held, ever, left, renewals }) => ({
    limit: limit.row,
    ...{ held: String(held), ever: String(ever), left: String(left) },
    renewals: renewals.map(([time, epsilon]) => [time, String(epsilon)]),
  }));
}

export const windows = {
  duration: ({ text, seconds }) => {
    let found = null;
    try {
      found = secondsOf("text", text);
    } catch (error) {
      same(error.argument, "text", "argument");
    }
    same(found, seconds, "seconds");
  },
  table: ({ values, limits, wrong }) => {
    let found;
    try {
      found = new Policy(values).limits.map(({ row }) => row);
    } catch (error) {
      return same(error.argument, wrong, "wrong");
    }
    return same(found, limits, "limits");
  },
  change: ({ asked, present, allowed }) => {
    const [some, others] = [asked, present].map((rows) => rows.map(Limit.of));
    same(loosened(some, others).length === 0, allowed, "allowed");
  },
  past: async (past) => {
    const { policy, now, asked, reason, time } = past;
    const client = await Client.open(policy, new MemoryStore(heldOf(past)));
    same(standingsOf(await client.history(), now), past.standings, "standings");
    const place = {
      run: new TextEncoder().encode("asked now".padEnd(16, "\0")),
      epoch: 0,
      round: 0,
    };
    const request = encodeRequest(place, asked, recipeOf(asked.charge));
    const zeros = new Float64Array(DIM);
    globalThis.scripted.now = now;
    let found = null;
    try {
      await client.answer(request, zeros, zeros);
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      found = error.reason;
    } finally {
      globalThis.scripted.now = null;
    }
    same(found, reason, "reason");
    if (reason !== null) return;
    const [last] = (await client.history()).entries.slice(-1);
    same([last.time, String(last.charge)], [time, asked.charge], "entry");
  },
};
