/** Budgets that last: windows, menus, the clock, and what a ledger keeps of them. */

import "./surroundings.js"; // before anything of the client
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";

import { Books, beginning } from "../src/device/books.js";
import { Limit, MenuItem, duration, fits } from "../src/device/budget.js";
import { total } from "../src/device/spending.js";
import { sha256, toHex } from "../src/hash.js";
import { Client, Fraction, LedgerError, Policy, Refused } from "../src/index.js";
import { encodeRequest } from "../src/wire/request.js";
import { MemoryStore } from "./memory.js";
import { POLICY, UPDATE, WEIGHTS, requestOf } from "./support.js";

const [HOUR, DAY, TIME] = [3_600, 86_400, 1_700_000_000];
const { lifetime: _, ...REST } = POLICY;
const WINDOW = { ...REST, runs: 100, per_window: [4, "1 day"] };
const HEALTH = { purpose: "Health research", recipient: "A hospital" };

const refused = (reason) => (error) => error instanceof Refused && error.reason === reason;
const withFault = (fault) => (error) => error instanceof LedgerError && error.fault === fault;

/** A device at whose clock a test turns; each report is of a run of its own and costs ε = 2. */
async function device(t, policy = WINDOW, store = new MemoryStore()) {
  t.after(() => Object.assign(globalThis.scripted, { now: null }));
  const at = (now, work) => {
    globalThis.scripted.now = now;
    return work();
  };
  const client = await at(TIME, () => Client.open(policy, store, { create: true }));
  let run = 0;
  const answer = (now, intent = { purpose: "", recipient: "" }) => {
    const place = { run: new Uint8Array(16).fill((run += 1)), epoch: 0, round: 0 };
    const request = encodeRequest(place, intent, requestOf().slice(29));
    return at(now, () => client.answer(request, WEIGHTS, UPDATE));
  };
  return { client, store, at, answer };
}

test("a window is full for as long as the reports in it are, to the second", async (t) => {
  const { client, answer } = await device(t);
  await answer(TIME);
  await answer(TIME + HOUR);
  await assert.rejects(answer(TIME + DAY), refused("EXHAUSTED"));
  const { lifetime, left, limits, standings } = await client.history();
  assert.deepEqual([lifetime, left, limits.map(String)], [null, null, ["ε = 4 in any 1 day"]]);
  const [standing] = standings(TIME + DAY);
  assert.deepEqual([standing.held, standing.left].map(String), ["4", "0"]);
  assert.deepEqual(
    standing.renewals.map(([time, epsilon]) => [time, String(epsilon)]),
    [
      [TIME + DAY + 1, "2"],
      [TIME + DAY + HOUR + 1, "2"],
    ],
  );
  await answer(TIME + DAY + 1);
  await assert.rejects(answer(TIME + DAY + HOUR), refused("EXHAUSTED"));
  await answer(TIME + DAY + HOUR + 1);
  const [later] = (await client.history()).standings(TIME + 9 * DAY);
  assert.deepEqual([later.held, later.ever, later.left].map(String), ["0", "8", "4"]);
  assert.equal(String((await client.history()).spent), "8");
});

test("a lifetime beside a window holds, too", async (t) => {
  const { answer } = await device(t, { ...WINDOW, lifetime: 6 });
  for (const day of [0, 2, 4]) await answer(TIME + day * DAY);
  await assert.rejects(answer(TIME + 6 * DAY), refused("EXHAUSTED"));
});

test("a clock that is set back gives nothing back", async (t) => {
  const { client, answer } = await device(t);
  await answer(TIME + DAY);
  await answer(TIME - 900 * DAY);
  await assert.rejects(answer(TIME - 900 * DAY), refused("EXHAUSTED"));
  const { entries } = await client.history();
  assert.deepEqual(
    entries.map(({ time }) => time),
    [TIME + DAY, TIME + DAY],
  );
});

test("a clock that is far ahead waits for the owner, who is on record", async (t) => {
  const { client, store, at, answer } = await device(t);
  await answer(TIME);
  await answer(TIME + 2 * DAY);
  const late = TIME + 4 * DAY + 1;
  await assert.rejects(answer(late), refused("CLOCK"));
  for (const by of ["", " ", 7, undefined, "x".repeat(101)]) {
    await assert.rejects(
      at(late, () => client.confirmClock(by)),
      { argument: "by" },
    );
  }
  const before = store.held;
  await at(late, () => client.confirmClock("Zoë Bell"));
  await answer(late);
  const { confirmations, entries } = await client.history();
  assert.deepEqual(confirmations, [{ time: late, reports: 2, by: "Zoë Bell" }]);
  assert.equal(entries.length, 3);
  // Neither the confirmation nor the state before it can be put back alone.
  const after = store.held;
  const opened = (held) => Client.open(WINDOW, new MemoryStore(held));
  await assert.rejects(opened({ ...after, ledger: before.ledger }), withFault("DISAGREES"));
  await assert.rejects(opened({ ...after, witness: before.witness }), withFault("DISAGREES"));
  assert.equal((await (await opened(after)).history()).confirmations.length, 1);
});

test("without a window no clock is far ahead", async (t) => {
  const { client, answer } = await device(t, POLICY);
  await answer(TIME + 9_999 * DAY);
  await answer(TIME - DAY);
  const { entries } = await client.history();
  assert.equal(entries[1].time, TIME - DAY);
});

test("a menu says what is allowed for a purpose or a recipient", async (t) => {
  const menu = [
    { purpose: HEALTH.purpose, per_window: [2, "1 day"] },
    { recipient: HEALTH.recipient, lifetime: 3 },
    { purpose: "Advertising", per_report: 0.5 },
  ];
  const { client, answer } = await device(t, { ...REST, lifetime: 8, menu });
  await assert.rejects(answer(TIME), refused("PURPOSE"));
  await assert.rejects(answer(TIME, { ...HEALTH, purpose: "Advertising" }), refused("TOO_MUCH"));
  await answer(TIME, HEALTH);
  await assert.rejects(answer(TIME + DAY, { ...HEALTH, recipient: "" }), refused("EXHAUSTED"));
  await assert.rejects(answer(TIME + DAY + 1, HEALTH), refused("EXHAUSTED"));
  await answer(TIME + DAY + 1, { ...HEALTH, recipient: "" });
  const standings = (await client.history()).standings(TIME + DAY + 1);
  assert.deepEqual(
    standings.map(({ limit, held, ever }) => [String(limit), String(held), String(ever)]),
    [
      ["ε = 8 ever", "4", "4"],
      ['ε = 2 in any 1 day for the purpose "Health research"', "2", "4"],
      ['ε = 3 ever for the recipient "A hospital"', "2", "2"],
    ],
  );
});

test("limits become stricter by themselves, and looser in somebody's name alone", async (t) => {
  const { client, store, at, answer } = await device(t, POLICY);
  await answer(TIME);
  const strict = { ...POLICY, lifetime: 6, per_window: [4, "1 week"] };
  await at(TIME + 1, () => Client.open(strict, store));
  const before = store.held;
  for (const [policy, fault] of [
    [POLICY, "LIMITS"], // the window is gone
    [{ ...strict, lifetime: 7 }, "LIFETIME"],
    [{ ...strict, lifetime: null }, "LIMITS"],
    [{ ...strict, per_window: [4, "6 days"] }, "LIMITS"],
    [{ ...strict, per_window: [5, "1 week"] }, "LIMITS"],
  ]) {
    await assert.rejects(Client.open(policy, store), withFault(fault));
  }
  const first = Client.open({ ...POLICY, lifetime: 6 }, store);
  await assert.rejects(first, /the policy allows more .* \(“ε = 4 in any 7 days”\)$/);
  assert.equal(store.held, before);
  const raisedBy = "Ada Bell";
  await at(TIME + 2, () => Client.open({ ...strict, lifetime: null }, store, { raisedBy }));
  await at(TIME + 3, () => Client.open(strict, store, { raisedBy }));
  await at(TIME + 3, () => Client.open({ ...strict, lifetime: 1 }, store));
  assert.equal(String((await client.history()).left), "0");
  await at(TIME + 3, () => Client.open(strict, store, { raisedBy }));
  const { changes } = await client.history();
  assert.deepEqual(
    changes.map(({ limits, time, reports, by }) => [limits.length, time - TIME, reports, by]),
    [
      [1, 0, 0, ""],
      [2, 1, 1, ""],
      [1, 2, 1, "Ada Bell"],
      [2, 3, 1, ""],
      [2, 3, 1, ""],
      [2, 3, 1, "Ada Bell"],
    ],
  );
  // The strictest of policy and ledger holds, also for a client that is open.
  await answer(TIME + 4);
  await assert.rejects(answer(TIME + 5), refused("EXHAUSTED"));
});

test("two clients on one store keep to one window", async (t) => {
  const { store, answer } = await device(t);
  const other = await device(t, WINDOW, store);
  await Promise.all([answer(TIME), answer(TIME)]);
  for (const run of [1, 2]) assert.equal((await other.answer(TIME)).length, 16, `${run} again`);
  await assert.rejects(other.answer(TIME + DAY), refused("EXHAUSTED"));
  await other.answer(TIME + DAY + 1);
});

/** A ledger of one decision, with the right links and sums whatever it says. */
function forged(content, decision) {
  const sealed = (value) => {
    const line = JSON.stringify(value);
    return `${line}\n${toHex(sha256(new TextEncoder().encode(line)))}\n`;
  };
  const link = toHex(sha256(new Uint8Array(32), new TextEncoder().encode(content)));
  const seen = { identity: "00".repeat(16), reports: 0, head: link };
  const decisions = [{ time: TIME, reports: 0, by: "", ...decision, link }];
  const state = { ...seen, spent: "0", runs: [], entries: [], decisions };
  return {
    ledger: sealed({ format: "fedsel ledger", version: 3, ...state }),
    witness: sealed({ format: "fedsel witness", version: 3, ...seen }),
  };
}

test("limits that our own code never wrote are refused, also with the right links", () => {
  const fault = (content, decision) => {
    try {
      return new Books(forged(content, decision)).limits.map(String);
    } catch (error) {
      return error.fault;
    }
  };
  const limits = (rows) => {
    return fault(JSON.stringify(["limits", rows, TIME, 0, ""]), { limits: rows });
  };
  assert.deepEqual(limits([["2", HOUR, "Health research", null]]).length, 1);
  for (const row of [
    ["2", 0.5, null, null],
    ["2", 0, null, null],
    ["2", "3600", null, null],
    ["2", HOUR, 7, null],
    ["2", HOUR, null, false],
    ["2", HOUR, null],
    ["2", HOUR, null, null, null],
    ["0", HOUR, null, null],
    ["-2", HOUR, null, null],
    ["4/2", HOUR, null, null],
    ["2.0", HOUR, null, null],
    [2, HOUR, null, null],
  ]) {
    assert.equal(limits([row]), "DAMAGED", JSON.stringify(row));
  }
  for (const time of [TIME, null]) {
    const by = "The owner";
    const content = JSON.stringify(["clock", time, 0, by]);
    assert.equal(fault(content, { limits: null, time, by }), "DAMAGED");
  }
});

test("ledgers of the second version are taken over, also if that is cut off", async () => {
  const golden = new URL("../../../tests/golden/ledger-js-v2.json", import.meta.url);
  const { policy, ledger, witness, behind } = JSON.parse(readFileSync(golden, "utf-8"));
  for (const seen of [witness, behind]) {
    const held = { ledger, witness: seen };
    const { changes, confirmations, entries } = await (
      await Client.open(policy, new MemoryStore(held))
    ).history();
    assert.deepEqual(
      changes.map(({ limits, time, reports, by }) => [...limits.map(String), time, reports, by]),
      [
        ["ε = 4 ever", TIME, 0, ""],
        ["ε = 8 ever", TIME + HOUR, 1, "Zoë Bell"],
      ],
    );
    assert.deepEqual([confirmations, entries.length], [[], 2]);
    await assert.rejects(
      Client.open({ ...policy, lifetime: 9 }, new MemoryStore(held)),
      withFault("LIFETIME"),
    );
    let change = null;
    const noting = new MemoryStore(held);
    noting.update = async (body) => {
      change = body(held);
    };
    const strict = { ...policy, per_window: [2, "1 day"] };
    await Client.open(strict, noting);
    // Each of the steps of the first change, at which a crash may leave the store.
    for (const [step, left] of [
      { ledger, witness: seen },
      { ledger, witness: change.before },
      { ledger: change.ledger, witness: change.before },
      { ledger: change.ledger, witness: change.witness },
    ].entries()) {
      const store = new MemoryStore(left);
      const later = await Client.open(strict, store);
      assert.equal((await later.history()).changes.length, 3, `step ${step}`);
      await later.confirmClock("Zoë Bell");
      await assert.rejects(
        Client.open(strict, new MemoryStore({ ...store.held, ledger })),
        withFault("DISAGREES"),
      );
    }
  }
});

test("ledgers of this version are read for good", async () => {
  const golden = new URL("../../../tests/golden/ledger-js-v3.json", import.meta.url);
  const { policy, ledger, witness, behind } = JSON.parse(readFileSync(golden, "utf-8"));
  for (const seen of [witness, behind]) {
    const client = await Client.open(policy, new MemoryStore({ ledger, witness: seen }));
    const { changes, confirmations, standings } = await client.history();
    assert.deepEqual(
      changes.map(({ limits, time, reports }) => [...limits.map(String), time - TIME, reports]),
      [
        ["ε = 8 ever", 0, 0],
        [
          "ε = 8 ever",
          "ε = 3.5 in any 30 days",
          'ε = 2 in any 1 day for the purpose "Für die Forschung" and the recipient "A hospital"',
          ...[HOUR, 1],
        ],
      ],
    );
    assert.deepEqual(confirmations, [{ time: TIME + 100 * DAY, reports: 1, by: "Zoë Bell" }]);
    assert.deepEqual(
      standings(TIME + 100 * DAY).map(({ held, ever }) => [held, ever].map(String)),
      [
        ["4", "4"],
        ["2", "4"],
        ["2", "4"],
      ],
    );
  }
});

test("sums and standings of thousands of reports are those of one after another", () => {
  const prices = ["1/3", "1/3", "1/7", "2/101", "2/101", "1/103"];
  const limits = [new Limit(new Fraction(2n), DAY), new Limit(new Fraction(500n))];
  const books = new Books(beginning(limits, "00".repeat(16), TIME));
  const place = { epoch: 0, digest: "00".repeat(32), report: "00" };
  books.openRun({ run: "01".repeat(16), task: "00", purpose: "", recipient: "" }, 1);
  const charges = Array.from({ length: 3000 }, (_, i) => prices[(i * i) % 6]);
  const past = charges.map((charge, i) => ({ time: TIME + 60 * i, charge }));
  for (const [round, one] of past.entries()) {
    if (round < 50) books.record({ ...place, ...one, run: "01".repeat(16), round }, null);
  }
  assert.equal(String(books.spent), String(total(charges.slice(0, 50))));
  const [window] = limits;
  const now = TIME + 60 * 2999;
  const within = charges.slice(2999 - DAY / 60);
  assert.equal(String(window.held(past, now)), String(total(within)));
  const { renewals, ever } = window.standing(past, now);
  assert.equal(renewals.length, within.length);
  assert.equal(String(ever), String(total(charges)));
});

test("no interval holds more than its limit, wherever it begins", () => {
  const limit = new Limit(new Fraction(3n, 2n), 5);
  const past = [];
  let seed = 7;
  const below = (n) => (seed = (seed * 1103515245 + 12345) % 2 ** 31) % n;
  for (let time = 0; time < 400; time += below(3)) {
    const charge = ["1/2", "1/3", "1"][below(3)];
    const price = Fraction.parse(charge);
    if (fits([limit], {}, price, () => limit.held(past, time))) past.push({ time, charge });
  }
  for (let begin = -5; begin < 400; begin += 0.5) {
    const inside = past.filter(({ time }) => Math.floor(begin) <= time && time <= begin + 5);
    const sum = total(inside.map(({ charge }) => charge));
    assert.ok(sum.compare(limit.epsilon) <= 0, `${begin}: ${sum}`);
  }
  assert.ok(past.length > 50);
});

test("policies and menus say what is wrong with them", () => {
  assert.throws(
    () => new Policy(REST),
    /lifetime = null: must be set, unless there is a per_window/,
  );
  assert.throws(
    () => new Policy({ ...WINDOW, per_window: [4, "1 month"] }),
    /per_window = "1 month": must be "N hours", "N days" or "N weeks": at most 3650 days/,
  );
  assert.throws(
    () => new Policy({ ...POLICY, clock_tolerance: "1 day" }),
    /clock_tolerance = "1 day": must be omitted without a per_window/,
  );
  assert.throws(() => MenuItem.of("menu[3]", []), /menu\[3\] = \[\]: must be an object/);
  assert.throws(
    () => MenuItem.of("menu[3]", { purpose: "Health research", colour: 1 }),
    /menu\[3\]\.colour = 1: must be one of purpose, recipient, per_report, lifetime, per_window/,
  );
  const menu = [
    { ...HEALTH, per_report: "0.5" },
    { purpose: HEALTH.purpose, per_report: 4 },
  ];
  const policy = new Policy({ ...WINDOW, menu });
  assert.equal(String(policy.mostPerReport(HEALTH)), "1/2");
  assert.equal(String(policy.mostPerReport({ purpose: "", recipient: "" })), "2");
  assert.deepEqual([HOUR, 36 * HOUR, 14 * DAY].map(duration), ["1 hour", "36 hours", "14 days"]);
});
