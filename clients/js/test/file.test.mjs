import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "node:test";

import { toHex } from "../src/hash.js";
import { Client } from "../src/index.js";
import { FileStore } from "../src/node.js";
import { POLICY, UPDATE, WEIGHTS, requestOf } from "./support.js";

const WORKER = new URL("./worker.mjs", import.meta.url).pathname;

function folderOf(t) {
  const folder = mkdtempSync(join(tmpdir(), "fedsel-"));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  return join(folder, "store");
}

const opened = (store, policy = POLICY) => Client.open(policy, store, { create: true });
const fault = (attempt) =>
  attempt.then(
    () => "none",
    (error) => error.fault ?? String(error),
  );

/** Run a device; its lines, as far as it got. */
async function device(folder, from, to, { killAfter, limits = {} } = {}) {
  const child = spawn(process.execPath, [WORKER, folder, from, to, JSON.stringify(limits)], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  let printed = "";
  child.stdout.on("data", (data) => {
    printed += data;
    if (killAfter !== undefined && printed.split("\n").length > killAfter) child.kill("SIGKILL");
  });
  await once(child, "close");
  return new Map(
    printed
      .split("\n")
      .slice(1, -1)
      .map((line) => line.split(" ")),
  );
}

test("a ledger in a folder", async (t) => {
  const folder = folderOf(t);
  assert.equal(await fault(Client.open(POLICY, new FileStore(folder))), "MISSING");
  const client = await opened(new FileStore(folder));
  const report = await client.answer(requestOf(), WEIGHTS, UPDATE);
  const later = await Client.open(POLICY, new FileStore(folder));
  assert.deepEqual(await later.answer(requestOf(), WEIGHTS, UPDATE), report);
  assert.deepEqual(readdirSync(folder).sort(), ["ledger-2.json", "witness-2.json"]);
  if (process.platform !== "win32") {
    assert.equal(statSync(folder).mode & 0o777, 0o700);
    for (const name of readdirSync(folder))
      assert.equal(statSync(join(folder, name)).mode & 0o777, 0o600);
  }
});

test("nothing begins where something else is, and nothing is mended silently", async (t) => {
  const folder = folderOf(t);
  mkdirSync(folder);
  writeFileSync(join(folder, "notes.txt"), "mine");
  assert.equal(await fault(opened(new FileStore(folder))), "OCCUPIED");
  rmSync(join(folder, "notes.txt"));
  const client = await opened(new FileStore(folder));
  await client.answer(requestOf(), WEIGHTS, UPDATE);
  cpSync(folder, `${folder}-old`, { recursive: true });
  await client.answer(requestOf({ epoch: 1, round: 1 }), WEIGHTS, UPDATE);
  // An old copy of the ledger alone is noticed; the client that runs notices it, too.
  rmSync(join(folder, "ledger-3.json"));
  cpSync(join(`${folder}-old`, "ledger-2.json"), join(folder, "ledger-2.json"));
  assert.equal(await fault(opened(new FileStore(folder))), "DISAGREES");
  assert.equal(await fault(client.answer(requestOf({ run: 2 }), WEIGHTS, UPDATE)), "DISAGREES");
  rmSync(join(folder, "ledger-2.json"));
  assert.equal(await fault(opened(new FileStore(folder))), "OCCUPIED");
  rmSync(join(folder, "witness-3.json"));
  assert.equal(await fault(Client.open(POLICY, new FileStore(folder))), "MISSING");
  rmSync(folder, { recursive: true });
  writeFileSync(folder, "a file");
  assert.equal(await fault(opened(new FileStore(folder))), "UNREADABLE");
});

test("a witness in another folder notices that the whole store was put back", async (t) => {
  const folder = folderOf(t);
  const store = () => new FileStore(folder, { witness: `${folder}-witness` });
  const client = await opened(store());
  cpSync(folder, `${folder}-old`, { recursive: true });
  await client.answer(requestOf(), WEIGHTS, UPDATE);
  await client.answer(requestOf({ epoch: 1, round: 1 }), WEIGHTS, UPDATE);
  rmSync(folder, { recursive: true });
  cpSync(`${folder}-old`, folder, { recursive: true });
  assert.equal(await fault(opened(store())), "DISAGREES");
  rmSync(folder, { recursive: true });
  assert.equal(await fault(opened(store())), "OCCUPIED");
});

test("a crash between ledger and witness is brought to its end", async (t) => {
  const folder = folderOf(t);
  const client = await opened(new FileStore(folder));
  await client.answer(requestOf(), WEIGHTS, UPDATE);
  const behind = readFileSync(join(folder, "witness-2.json"));
  const second = await client.answer(requestOf({ epoch: 1, round: 1 }), WEIGHTS, UPDATE);
  rmSync(join(folder, "witness-3.json"));
  writeFileSync(join(folder, "witness-2.json"), behind);
  const later = await Client.open(POLICY, new FileStore(folder));
  assert.deepEqual(await later.answer(requestOf({ epoch: 1, round: 1 }), WEIGHTS, UPDATE), second);
  await later.answer(requestOf({ run: 2 }), WEIGHTS, UPDATE);
  assert.deepEqual(readdirSync(folder).sort(), ["ledger-4.json", "witness-4.json"]);
});

test("who was overtaken twice does not take the place of what was there", async (t) => {
  const [folder, ahead] = [folderOf(t), folderOf(t)];
  await (await opened(new FileStore(folder))).answer(requestOf(), WEIGHTS, UPDATE);
  cpSync(folder, ahead, { recursive: true });
  const other = await Client.open(POLICY, new FileStore(ahead));
  await other.answer(requestOf({ epoch: 1, round: 1 }), WEIGHTS, UPDATE);
  await other.answer(requestOf({ run: 2 }), WEIGHTS, UPDATE);
  // Between reading and writing, two changes of another process: number 3 is free again.
  const seen = [];
  await new FileStore(folder).update((held) => {
    seen.push(JSON.parse(held.ledger.split("\n")[0]).reports);
    if (seen.length > 1) return null;
    for (const name of readdirSync(ahead)) cpSync(join(ahead, name), join(folder, name));
    for (const kind of ["ledger", "witness"]) rmSync(join(folder, `${kind}-2.json`));
    return { ...held, before: held.witness };
  });
  assert.deepEqual(seen, [1, 3]);
  assert.deepEqual(readdirSync(folder).sort(), ["ledger-4.json", "witness-4.json"]);
});

test("processes that answer at once make one charge and the same bytes", async (t) => {
  const folder = folderOf(t);
  const rounds = 12;
  const all = await Promise.all([1, 2, 3].map(() => device(folder, 0, rounds)));
  for (const printed of all) {
    assert.equal(printed.size, rounds);
    assert.deepEqual(printed, all[0]);
  }
  const client = await Client.open({ ...POLICY, lifetime: 500 }, new FileStore(folder));
  assert.equal((await client.history()).entries.length, rounds);
});

test("processes that answer at once keep to one window, also if one is killed", async (t) => {
  const [folder, limits] = [folderOf(t), { per_window: [4, "1 day"] }];
  await device(folder, 0, 1000, { killAfter: 3, limits });
  const all = await Promise.all([1, 2, 3].map(() => device(folder, 0, 12, { limits })));
  for (const printed of all) assert.deepEqual(printed, all[0]);
  const refused = [...all[0].values()].filter((said) => said === "EXHAUSTED");
  assert.equal(refused.length, 12 - 8); // ε = 1/2 each
  const client = await Client.open({ ...POLICY, lifetime: 500, ...limits }, new FileStore(folder));
  assert.equal((await client.history()).entries.length, 8);
});

test("a device that is killed answers the same afterwards, for one charge", async (t) => {
  const folder = folderOf(t);
  const known = new Map();
  for (const killAfter of [1, 2, 4, 7, 11, 16]) {
    const printed = await device(folder, 0, 1000, { killAfter });
    for (const [round, report] of printed) {
      assert.equal(known.get(round) ?? report, report);
      known.set(round, report);
    }
  }
  const client = await Client.open({ ...POLICY, lifetime: 500 }, new FileStore(folder));
  const { entries } = await client.history();
  const reports = new Map(entries.map(({ round, report }) => [String(round), toHex(report)]));
  for (const [round, report] of known) assert.equal(reports.get(round), report);
  assert.equal(reports.size, entries.length);
});
