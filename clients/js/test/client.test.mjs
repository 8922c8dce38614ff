import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";

import { Client, LedgerError, Refused } from "../src/index.js";
import { toHex } from "../src/hash.js";
import { MemoryStore } from "./memory.js";
import { POLICY, UPDATE, WEIGHTS, requestOf } from "./support.js";

const opened = (store = new MemoryStore(), policy = POLICY) =>
  Client.open(policy, store, { create: true });
const refused = (reason) => (error) => error instanceof Refused && error.reason === reason;

test("a request that was answered before gets the same bytes, and costs nothing", async () => {
  const client = await opened();
  let calls = 0;
  const update = (weights) => {
    calls += 1;
    assert.deepEqual(weights, WEIGHTS);
    weights.fill(7); // its own copy
    return UPDATE;
  };
  const first = await client.answer(requestOf(), WEIGHTS, update);
  const again = await client.answer(requestOf(), WEIGHTS, update);
  assert.equal(first.length, 16);
  assert.deepEqual(again, first);
  assert.equal(calls, 1);
  const { entries, spent, left, runs } = await client.history();
  assert.equal(entries.length, 1);
  assert.equal(toHex(entries[0].report), toHex(first));
  assert.deepEqual([String(spent), String(left)], ["2", "6"]);
  assert.equal(runs.get(entries[0].run).recipe.solution, "PS-PM");
});

test("a missing ledger is refused, and create never resets one", async () => {
  const store = new MemoryStore();
  await assert.rejects(Client.open(POLICY, store), (error) => error.fault === "MISSING");
  const client = await opened(store);
  await client.answer(requestOf(), WEIGHTS, UPDATE);
  const later = await opened(store);
  assert.equal((await later.history()).entries.length, 1);
});

test("a policy with another lifetime is noted, and holds", async () => {
  const store = new MemoryStore();
  await (await opened(store)).answer(requestOf(), WEIGHTS, UPDATE);
  const client = await Client.open({ ...POLICY, lifetime: "3.5" }, store);
  assert.equal(String((await client.history()).lifetime), "7/2");
  const next = requestOf({ epoch: 1, round: 1 });
  await assert.rejects(client.answer(next, WEIGHTS, UPDATE), refused("EXHAUSTED"));
});

test("an update that fails counts as zeros, and nothing of it is told", async (t) => {
  const warned = t.mock.method(console, "warn", () => {});
  const secret = "a private number";
  const failing = [
    () => {
      throw new Error(secret);
    },
    async () => {
      throw secret;
    },
    () => ({ length: 6 }),
    () => [1, 2, 3],
    () => ["1", "2", "3", "4", "5", "6"],
    () =>
      new Proxy([], {
        get() {
          throw new Error(secret);
        },
      }),
    null,
    "123456",
  ];
  for (const [round, update] of failing.entries()) {
    const client = await opened();
    const report = await client.answer(requestOf({ round }), WEIGHTS, update);
    assert.equal(report.length, 16);
  }
  assert.equal(warned.mock.callCount(), failing.length);
  for (const call of warned.mock.calls) assert.ok(!String(call.arguments).includes(secret));
});

test("what is not finite in an update is zero or the largest, and no reason to be silent", async () => {
  for (const update of [
    [NaN, Infinity, -Infinity, 1e300, 0, 1],
    new Float32Array(6).fill(NaN),
    [true, false, 0, 0, 0, 0],
  ]) {
    const client = await opened();
    assert.equal((await client.answer(requestOf(), WEIGHTS, update)).length, 16);
  }
});

test("an error of the machinery is refused without its text", async () => {
  const store = new MemoryStore();
  const client = await opened(store);
  store.update = () => Promise.reject(new Error("/home/somebody"));
  await assert.rejects(client.answer(requestOf(), WEIGHTS, UPDATE), (error) => {
    return refused("INTERNAL")(error) && !String(error.stack).includes("somebody");
  });
});

test("refusals come in the order of the checks", async () => {
  const client = await opened();
  const answer = (request, weights = WEIGHTS) => client.answer(request, weights, UPDATE);
  await assert.rejects(answer("text"), refused("MALFORMED"));
  const unknown = requestOf();
  unknown[4] = 9;
  await assert.rejects(answer(unknown), refused("VERSION"));
  await assert.rejects(answer(requestOf({ solution: "HM" }), null), refused("NOT_ALLOWED"));
  await assert.rejects(answer(requestOf({ dim: 5 }), null), refused("NOT_ALLOWED"));
  await assert.rejects(answer(requestOf({ epsilon: [400n, 1n] }), null), refused("WEIGHTS"));
  for (const bad of [
    [0, 0, 0, 0, 0, 0],
    new Float64Array(5),
    new Float64Array(6).fill(NaN),
    new Uint8Array(25),
    new Int32Array(6),
  ]) {
    await assert.rejects(answer(requestOf(), bad), refused("WEIGHTS"));
  }
  await assert.rejects(answer(requestOf({ epsilon: [400n, 1n] })), refused("TOO_MUCH"));
  assert.equal((await client.history()).entries.length, 0);
});

test("an update is made of columns that the policy allows, and says so", async () => {
  const client = await opened(undefined, { ...POLICY, columns: ["age", "job"] });
  const answer = (columns, request = requestOf()) =>
    client.answer(request, WEIGHTS, UPDATE, columns);
  await assert.rejects(answer(["age"], "text"), refused("MALFORMED"));
  for (const columns of [undefined, null, ["age", "income"]]) {
    await assert.rejects(answer(columns), refused("NOT_ALLOWED"));
  }
  assert.equal((await client.history()).entries.length, 0);
  const report = await answer(["job"]);
  assert.deepEqual(await answer(["age", "job"]), report);
  for (const columns of ["age", [], [""], ["a\nge"], [3]]) {
    await assert.rejects(opened(undefined, { ...POLICY, columns }), /columns = /);
  }
});

test("weights are within the bound in their own precision, and never infinite", async () => {
  const answered = async (weight_bound, weight) => {
    const client = await opened(new MemoryStore(), { ...POLICY, weight_bound });
    return client.answer(requestOf(), new Float32Array(6).fill(weight), UPDATE).then(
      () => true,
      (error) => error.reason,
    );
  };
  assert.equal(await answered(0.1, 0.1), true);
  assert.equal(await answered(0.1, 0.1001), "WEIGHTS");
  assert.equal(await answered(1e300, 3e38), true);
  assert.equal(await answered(1e300, Infinity), "WEIGHTS");
  assert.equal(await answered(1e300, NaN), "WEIGHTS");
});

test("weights are the same as an array and as bytes", async () => {
  const client = await opened();
  const first = await client.answer(requestOf(), Float32Array.of(1, 2, 3, 4, 5, 6), UPDATE);
  const bytes = Float32Array.of(1, 2, 3, 4, 5, 6).buffer;
  assert.deepEqual(await client.answer(requestOf(), bytes, UPDATE), first);
  const wide = Float64Array.of(1, 2, 3, 4, 5, 6);
  await assert.rejects(client.answer(requestOf(), wide, UPDATE), refused("CONFLICT"));
});

test("two answers at once are one charge", async () => {
  const store = new MemoryStore();
  const [one, other] = [await opened(store), await opened(store)];
  const slow = () => new Promise((resolve) => setTimeout(resolve, 20, UPDATE));
  const reports = await Promise.all(
    [one, other, one].map((c) => c.answer(requestOf(), WEIGHTS, slow)),
  );
  assert.equal(new Set(reports.map(toHex)).size, 1);
  assert.equal((await one.history()).entries.length, 1);
});

test("an answer and a refusal take at least as long as the policy says", async () => {
  const client = await opened(new MemoryStore(), { ...POLICY, least_seconds: 0.05 });
  for (const request of [requestOf(), requestOf({ solution: "HM" })]) {
    const begin = performance.now();
    await client.answer(request, WEIGHTS, UPDATE).catch(() => {});
    assert.ok(performance.now() - begin >= 50);
  }
});

test("damaged, foreign and rolled back ledgers are refused", async () => {
  const store = new MemoryStore();
  const client = await opened(store);
  await client.answer(requestOf(), WEIGHTS, UPDATE);
  const old = store.held;
  await client.answer(requestOf({ epoch: 1, round: 1 }), WEIGHTS, UPDATE);
  const now = store.held;
  const fault = async (held) => {
    const error = await Client.open(POLICY, new MemoryStore(held)).catch((thrown) => thrown);
    return error instanceof LedgerError ? error.fault : "none";
  };
  assert.equal(await fault(now), "none");
  // What a crash between the two parts of a commit leaves is right: the report counts.
  assert.equal(await fault({ ...now, witness: old.witness }), "none");
  assert.equal(await fault({ ...old, witness: now.witness }), "DISAGREES");
  const begun = new MemoryStore();
  await opened(begun);
  assert.equal(await fault({ ...now, witness: begun.held.witness }), "DISAGREES");
  assert.equal(await fault({ ...begun.held, witness: old.witness }), "DISAGREES");
  assert.equal(await fault({ ...now, ledger: "hello" }), "FOREIGN");
  assert.equal(
    await fault({ ...now, ledger: now.ledger.replace('"version":3', '"version":4') }),
    "FOREIGN",
  );
  assert.equal(await fault({ ledger: now.witness, witness: now.witness }), "FOREIGN");
  // Each character of both texts, changed.
  for (const name of ["ledger", "witness"]) {
    for (let at = 0; at < now[name].length; at += 1) {
      const other = now[name][at] === "7" ? "8" : "7";
      const changed = now[name].slice(0, at) + other + now[name].slice(at + 1);
      const found = await fault({ ...now, [name]: changed });
      assert.ok(["DAMAGED", "FOREIGN"].includes(found), `${name} ${at}: ${found}`);
    }
    assert.equal(await fault({ ...now, [name]: now[name].slice(0, -1) }), "DAMAGED");
  }
});

test("a ledger that was edited is refused also with a new sum of its text", async () => {
  const store = new MemoryStore();
  const client = await opened(store);
  await client.answer(requestOf(), WEIGHTS, UPDATE);
  const { sha256 } = await import("../src/hash.js");
  const edited = (change) => {
    const state = JSON.parse(store.held.ledger.split("\n")[0]);
    change(state);
    const line = JSON.stringify(state);
    return `${line}\n${toHex(sha256(new TextEncoder().encode(line)))}\n`;
  };
  const changes = [
    (state) => {
      state.spent = "0";
    },
    (state) => {
      state.entries[0].link = "0".repeat(64);
    },
    (state) => {
      state.spent = "1/1000";
      state.entries[0].charge = "1/1000";
    },
    (state) => {
      state.entries[0].time -= 90_000;
    },
    (state) => {
      state.entries = [];
      state.reports = 0;
      state.spent = "0";
      state.head = "0".repeat(64);
    },
    (state) => {
      state.runs = [];
    },
    (state) => {
      state.runs[0].task = "00";
    },
    (state) => {
      state.runs[0].residual = `11${state.runs[0].residual.slice(2)}`;
    },
    (state) => {
      state.entries[0].round = 0.5;
    },
    ...["much", "80", "1", "-4", 4].map((epsilon) => (state) => {
      state.decisions[0].limits[0][0] = epsilon;
    }),
    ...[[], null, "much", [[]], [["8", 60, null, null]], [["8", null, null, "Somebody"]]].map(
      (limits) => (state) => {
        state.decisions[0].limits = limits;
      },
    ),
    (state) => {
      state.decisions[0].by = "Somebody";
    },
    (state) => {
      state.decisions[0].time -= 1;
    },
    (state) => {
      state.decisions = [];
    },
    (state) => {
      const limits = [["80", null, null, null]];
      state.decisions.push({ ...state.decisions[0], limits, by: "Somebody" });
    },
    (state) => {
      state.decisions.push({ ...state.decisions[0], reports: 7 });
    },
    (state) => {
      state.decisions.push({ ...state.decisions[0], limits: null, by: "Somebody" });
    },
  ];
  for (const [number, change] of changes.entries()) {
    const held = { ...store.held, ledger: edited(change) };
    const attempt = Client.open(POLICY, new MemoryStore(held)).then((c) => {
      return c.answer(requestOf({ epoch: 1, round: 1 }), WEIGHTS, UPDATE);
    });
    await assert.rejects(attempt, (error) => error instanceof LedgerError, `change ${number}`);
  }
});

test("with a server's key a report leaves sealed, each time in other bytes, for one charge", async () => {
  const server_key = "8f40c5adb68f25624ae5b214ea767a6ec94d829d3d7b5e1ad1ba6f3e2138285f";
  const client = await opened(new MemoryStore(), { ...POLICY, server_key });
  const first = await client.answer(requestOf(), WEIGHTS, UPDATE);
  const again = await client.answer(requestOf(), WEIGHTS, UPDATE);
  assert.deepEqual([first.length, again.length], [97, 97]);
  assert.deepEqual(again.slice(0, 33), first.slice(0, 33));
  assert.notDeepEqual(again.slice(33), first.slice(33));
  const { entries } = await client.history();
  assert.deepEqual(
    entries.map(({ report }) => report.length),
    [16],
  );
  for (const bad of ["12", server_key.toUpperCase(), 7, "0".repeat(64), `01${"0".repeat(62)}`]) {
    await assert.rejects(
      opened(new MemoryStore(), { ...POLICY, server_key: bad }),
      /server_key = /,
    );
  }
});

const changesOf = async (client) => (await client.history()).changes;
const withFault = (name) => (error) => error instanceof LedgerError && error.fault === name;

test("a lifetime is raised in somebody's name alone, and on record for ever", async () => {
  const store = new MemoryStore();
  const client = await opened(store, { ...POLICY, lifetime: 2 });
  await client.answer(requestOf(), WEIGHTS, UPDATE);
  const before = store.held;
  await assert.rejects(Client.open({ ...POLICY, lifetime: 80 }, store), withFault("LIFETIME"));
  for (const raisedBy of [" ", "two\nlines", "x".repeat(101), 7, null]) {
    const attempt = Client.open({ ...POLICY, lifetime: 80 }, store, { raisedBy });
    await assert.rejects(attempt, /raisedBy = /);
  }
  assert.equal(store.held, before);
  const begun = Math.floor(Date.now() / 1000);
  await Client.open({ ...POLICY, lifetime: 80 }, store, { raisedBy: "Ada Bell" });
  await Client.open({ ...POLICY, lifetime: 3 }, store, { raisedBy: "Ada Bell" });
  await Client.open({ ...POLICY, lifetime: 4 }, store, { raisedBy: "Grace" });
  const changes = await changesOf(client);
  assert.deepEqual(
    changes.map(({ limits, reports, by }) => [...limits.map(String), reports, by]),
    [
      ["ε = 2 ever", 0, ""],
      ["ε = 80 ever", 1, "Ada Bell"],
      ["ε = 3 ever", 1, ""],
      ["ε = 4 ever", 1, "Grace"],
    ],
  );
  assert.ok(changes.every(({ time }, i) => i === 0 || time >= begun));
  // The stricter of policy and ledger holds, also for a client that is open.
  const next = requestOf({ epoch: 1, round: 1 });
  await assert.rejects(client.answer(next, WEIGHTS, UPDATE), refused("EXHAUSTED"));
  const richer = await Client.open({ ...POLICY, lifetime: 4 }, store);
  await Client.open({ ...POLICY, lifetime: 3 }, store);
  await assert.rejects(richer.answer(next, WEIGHTS, UPDATE), refused("EXHAUSTED"));
});

test("ledgers of the first version are read, and taken over also if that is cut off", async () => {
  const golden = new URL("../../../tests/golden/ledger-js-v1.json", import.meta.url);
  const { policy, ledger, witness, behind } = JSON.parse(readFileSync(golden, "utf-8"));
  for (const seen of [witness, behind]) {
    const held = { ledger, witness: seen };
    const client = await Client.open(policy, new MemoryStore(held));
    const [{ limits, time, reports }] = await changesOf(client);
    assert.deepEqual([limits.map(String), time, reports], [["ε = 8 ever"], null, 2]);
    const attempt = Client.open({ ...policy, lifetime: 9 }, new MemoryStore(held));
    await assert.rejects(attempt, withFault("LIFETIME"));
    // Each of the three steps of the first change, at which a crash may leave the store.
    for (const raisedBy of [undefined, "Ada Bell"]) {
      let change = null;
      const noting = new MemoryStore(held);
      noting.update = async (body) => {
        change = body(held);
      };
      if (raisedBy) await Client.open({ ...policy, lifetime: 9 }, noting, { raisedBy });
      else {
        const writer = await Client.open(policy, noting);
        await writer.answer(requestOf({ run: 2 }), WEIGHTS, UPDATE);
      }
      for (const [step, left] of [
        { ledger, witness: change.before },
        { ledger: change.ledger, witness: change.before },
        { ledger: change.ledger, witness: change.witness },
      ].entries()) {
        const store = new MemoryStore(left);
        const later = await Client.open({ ...policy, lifetime: 8 }, store);
        await later.answer(requestOf({ run: 3 }), WEIGHTS, UPDATE);
        const { entries, changes } = await later.history();
        assert.equal(entries.length, 3 + (step > 0 && !raisedBy ? 1 : 0));
        assert.equal(changes.length, step > 0 && raisedBy ? 3 : 1);
        // Neither goes back to what was there before.
        await assert.rejects(
          Client.open(policy, new MemoryStore({ ...store.held, ledger })),
          withFault("DISAGREES"),
        );
      }
      const stale = { ledger: change.ledger, witness: behind };
      await assert.rejects(Client.open(policy, new MemoryStore(stale)), withFault("DISAGREES"));
    }
  }
});
