/** What a ledger must not lose, and how old the witness beside it may be. */

import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createRequire, syncBuiltinESMExports } from "node:module";
import { tmpdir } from "node:os";
import * as path from "node:path";
import test from "node:test";

import { Client } from "../src/index.js";
import { FileStore } from "../src/node.js";
import { MemoryStore } from "./memory.js";
import { POLICY, UPDATE, WEIGHTS, requestOf } from "./support.js";

const rounds = [0, 1, 2, 3].map((round) => requestOf({ epoch: round, epochs: 4, round }));
const opened = (store) => Client.open({ ...POLICY, lifetime: 500 }, store, { create: true });
const fault = (held) =>
  opened(new MemoryStore(held)).then(
    () => "none",
    (error) => error.fault,
  );

test("a witness is as old as its ledger, or one report older", async () => {
  const store = new MemoryStore();
  const client = await opened(store);
  const states = [store.held];
  for (const request of rounds) {
    await client.answer(request, WEIGHTS, UPDATE);
    states.push(store.held);
  }
  for (const [made, { ledger }] of states.entries()) {
    for (const [seen, { witness }] of states.entries()) {
      const right = seen === made || seen === made - 1;
      assert.equal(
        await fault({ ledger, witness }),
        right ? "none" : "DISAGREES",
        `${made} ${seen}`,
      );
    }
  }
});

test("a witness of another report in the same place is refused", async () => {
  const store = new MemoryStore();
  await (await opened(store)).answer(rounds[0], WEIGHTS, UPDATE);
  const copies = [new MemoryStore(store.held), new MemoryStore(store.held)];
  for (const [number, copy] of copies.entries()) {
    const client = await opened(copy);
    await client.answer(rounds[number + 1], WEIGHTS, UPDATE);
  }
  const [one, other] = copies.map(({ held }) => held);
  assert.equal(await fault({ ...one, witness: other.witness }), "DISAGREES");
  const client = await opened(copies[0]);
  await client.answer(rounds[3], WEIGHTS, UPDATE);
  assert.equal(await fault({ ...copies[0].held, witness: other.witness }), "DISAGREES");
});

/** A disk that keeps, when the power fails, what was flushed and nothing else: contents of files,
 * and names in folders. It notes what it would keep after each change. */
class Disk {
  /** The number of a file or folder by its name. */
  names = new Map();
  /** Contents by number: a text, or the numbers of a folder by their names. */
  flushed = new Map();
  kept = [];
  #numbers = 1;

  constructor(root) {
    this.root = root;
    this.names.set(root, 1);
  }

  made(file) {
    if (!this.names.has(file)) this.names.set(file, (this.#numbers += 1));
  }

  moved(from, to) {
    for (const [file, number] of [...this.names]) {
      if (file !== from && path.dirname(file) !== from) continue;
      this.names.delete(file);
      this.names.set(to + file.slice(from.length), number);
    }
  }

  flush(number, content) {
    this.flushed.set(number, content);
    this.note();
  }

  flushFolder(folder) {
    const inside = [...this.names].filter(([file]) => path.dirname(file) === folder);
    this.flush(
      this.names.get(folder),
      new Map(inside.map(([file, number]) => [path.basename(file), number])),
    );
  }

  /** A name that is removed may be gone at once. */
  removed(file) {
    const folder = this.flushed.get(this.names.get(path.dirname(file)));
    this.names.delete(file);
    if (folder?.delete(path.basename(file))) this.note();
  }

  note() {
    const files = (folder, number) =>
      [...(this.flushed.get(number) ?? [])].flatMap(([name, inside]) => {
        const [file, content] = [path.join(folder, name), this.flushed.get(inside)];
        return content instanceof Map ? files(file, inside) : [[file, content]];
      });
    this.kept.push(new Map(files(this.root, 1)));
    return this.kept.at(-1);
  }
}

/** Have the disk notice what is done with files. */
function watch(t, disk) {
  const { promises } = createRequire(import.meta.url)("node:fs");
  const original = { ...promises };
  Object.assign(promises, {
    async open(file, flags, mode) {
      const handle = await original.open(file, flags, mode);
      if (flags === "wx") disk.made(file);
      const [number, { writeFile, sync }] = [disk.names.get(file), handle];
      let content;
      handle.writeFile = (text, ...rest) => writeFile.call(handle, (content = text), ...rest);
      handle.sync = async () => {
        await sync.call(handle);
        if (flags === "wx") disk.flush(number, content);
        else disk.flushFolder(file);
      };
      return handle;
    },
    async mkdir(folder, options) {
      const first = await original.mkdir(folder, options);
      for (let one = folder; one !== disk.root; one = path.dirname(one)) disk.made(one);
      return first;
    },
    async link(from, to) {
      await original.link(from, to);
      disk.names.set(to, disk.names.get(from));
    },
    async rename(from, to) {
      await original.rename(from, to);
      disk.moved(from, to);
    },
    async rm(file, options) {
      await original.rm(file, options);
      disk.removed(file);
    },
  });
  syncBuiltinESMExports();
  t.after(() => {
    Object.assign(promises, original);
    syncBuiltinESMExports();
    rmSync(disk.root, { recursive: true, force: true });
  });
}

/** The newest text of a kind that a disk has kept; empty where it is lost. */
function newest(kept, folder, kind) {
  const number = (file) => Number(path.basename(file).slice(kind.length + 1, -".json".length));
  const files = [...kept.keys()].filter(
    (file) => path.dirname(file) === folder && path.basename(file).startsWith(`${kind}-`),
  );
  return kept.get(files.sort((a, b) => number(a) - number(b)).at(-1)) ?? "";
}

for (const apart of [false, true]) {
  test(`a power cut loses no report (witness ${apart ? "apart" : "inside"})`, async (t) => {
    const disk = new Disk(mkdtempSync(path.join(tmpdir(), "fedsel-")));
    watch(t, disk);
    const folder = path.join(disk.root, "some", "where", "store");
    const witness = apart ? path.join(disk.root, "else", "where") : folder;
    const held = (kept) => ({
      ledger: newest(kept, folder, "ledger"),
      witness: newest(kept, witness, "witness"),
    });
    const client = await opened(new FileStore(folder, apart ? { witness } : {}));
    const begun = disk.kept.length;
    for (const [number, request] of rounds.entries()) {
      await client.answer(request, WEIGHTS, UPDATE);
      // Once an answer may leave, the disk has it.
      const later = await opened(new MemoryStore(held(disk.note())));
      assert.equal((await later.history()).entries.length, number + 1);
    }
    // What the owner decides is as durable.
    await client.confirmClock("Zoë Bell");
    const confirmed = await (await opened(new MemoryStore(held(disk.note())))).history();
    assert.equal(confirmed.confirmations.length, 1);
    // And in between there is always a ledger that can be used.
    for (const kept of disk.kept.slice(begun)) assert.equal(await fault(held(kept)), "none");
  });
}

for (const version of [1, 2]) {
  test(`a power cut spoils no ledger of version ${version}`, async (t) => {
    const file = new URL(`../../../tests/golden/ledger-js-v${version}.json`, import.meta.url);
    const { policy, ...old } = JSON.parse(readFileSync(file, "utf-8"));
    const disk = new Disk(mkdtempSync(path.join(tmpdir(), "fedsel-")));
    watch(t, disk);
    const folder = path.join(disk.root, "store");
    const store = new FileStore(folder);
    await store.create(old);
    const begun = disk.kept.length;
    await Client.open({ ...policy, per_window: [2, "1 day"] }, store);
    for (const kept of disk.kept.slice(begun)) {
      const left = {
        ledger: newest(kept, folder, "ledger"),
        witness: newest(kept, folder, "witness"),
      };
      const client = await Client.open(
        { ...policy, per_window: [2, "1 day"] },
        new MemoryStore(left),
      );
      assert.equal((await client.history()).entries.length, 2);
    }
  });
}
