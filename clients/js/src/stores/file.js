/** A ledger in a folder, for Node: each change is a new file, flushed to the disk before it counts.
 *
 * The ledger is the file `ledger-N.json` with the largest N. A change is written under another
 * name, flushed, and linked to the next N, which fails if another process was faster: then it is
 * made again from what that process wrote. So no lock is held, and none is left by a crash. The
 * witness is kept in the same way, `witness-N.json`, in this folder or in another one, best on
 * another disk. It is durable before anybody sees what `ledger-N.json` answered, and before N + 1
 * is written.
 */

import { randomBytes } from "node:crypto";
import * as fs from "node:fs/promises";
import * as path from "node:path";

import { LedgerError } from "../device/refusal.js";
import { own } from "../errors.js";

/** @typedef {import("../device/books.js").Held} Held */
/** @typedef {import("../device/books.js").Change} Change */

const ATTEMPTS = 1000;
const TEMPORARY = ".new-";
/** Milliseconds after which what a crash left unfinished is removed. */
const ABANDONED = 3_600_000;

export class FileStore {
  /** @param {string} folder @param {{ witness?: string }} [options] `witness`: another folder */
  constructor(folder, options) {
    const { witness } = own(options);
    this.folder = path.resolve(folder);
    this.witness = witness === undefined ? this.folder : path.resolve(witness);
  }

  async exists() {
    return explained("UNREADABLE", async () => {
      if ((await latest(this.witness, "witness")) !== null) return true;
      return (await names(this.folder)).length > 0;
    });
  }

  /** @param {Held} held */
  async create(held) {
    if (await this.exists()) throw new LedgerError("OCCUPIED");
    await explained("UNWRITABLE", async () => {
      const parent = path.dirname(this.folder);
      await makeFolder(parent);
      // The folder appears whole or not at all.
      const scratch = path.join(parent, `.${path.basename(this.folder)}.${token()}`);
      await fs.mkdir(scratch, own({ mode: 0o700 }));
      try {
        const apart = this.witness !== this.folder;
        if (apart) await makeFolder(this.witness, 0o700);
        const seen = path.join(apart ? this.witness : scratch, "witness-1.json");
        await writeDurably(seen, held.witness);
        await writeDurably(path.join(scratch, "ledger-1.json"), held.ledger);
        await syncFolder(path.dirname(seen));
        await syncFolder(scratch);
        await fs.rename(scratch, this.folder); // fails where another process was faster
        await syncFolder(parent);
      } finally {
        await fs.rm(scratch, { recursive: true, force: true });
      }
    });
  }

  async read() {
    return (await this.#current()).held;
  }

  /** @param {(held: Held) => Change | null} body */
  async update(body) {
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      const { held, generation } = await this.#current();
      const next = body(held);
      if (next === null) return;
      const done = await explained("UNWRITABLE", async () => {
        // A witness that a crash left behind is brought up to date first.
        if (held.witness !== next.before)
          await commit(this.witness, "witness", generation, next.before);
        if (!(await commit(this.folder, "ledger", generation + 1, next.ledger))) return false;
        await commit(this.witness, "witness", generation + 1, next.witness);
        await tidy(this.folder, "ledger");
        await tidy(this.witness, "witness");
        return true;
      });
      if (done) return;
    }
    throw new LedgerError("BUSY");
  }

  /** @returns {Promise<{ held: Held, generation: number }>} */
  async #current() {
    return explained("UNREADABLE", async () => {
      for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
        const found = await latest(this.folder, "ledger");
        const seen = await latest(this.witness, "witness");
        if (found === null) throw new LedgerError((await this.exists()) ? "OCCUPIED" : "MISSING");
        if (seen === null) throw new LedgerError("DISAGREES");
        const ledger = await readIfThere(path.join(this.folder, `ledger-${found}.json`));
        const witness = await readIfThere(path.join(this.witness, `witness-${seen}.json`));
        // Only what is still the newest once it was read: else another process has gone on.
        const still =
          found === (await latest(this.folder, "ledger")) &&
          seen === (await latest(this.witness, "witness"));
        if (still && ledger !== null && witness !== null) {
          return { held: { ledger, witness }, generation: found };
        }
      }
      throw new LedgerError("BUSY");
    });
  }
}

/** Make a text the file of a number, unless there is one of that number or above: then it is false.
 * @param {string} folder @param {string} kind @param {number} number @param {string} text */
async function commit(folder, kind, number, text) {
  const temporary = path.join(folder, TEMPORARY + token());
  const file = path.join(folder, `${kind}-${number}.json`);
  try {
    await writeDurably(temporary, text);
    await fs.link(temporary, file);
    await syncFolder(folder);
  } catch (error) {
    if (codeOf(error) === "EEXIST") return false;
    throw error;
  } finally {
    await fs.rm(temporary, { force: true });
  }
  // Files go only after there is one of a larger number. So whoever finds none was the first.
  if ((await latest(folder, kind)) === number) return true;
  await fs.rm(file, { force: true });
  return false;
}

/** Remove what newer files have replaced, and what a crash has left. @param {string} folder
 * @param {string} kind */
async function tidy(folder, kind) {
  const newest = await latest(folder, kind);
  for (const name of await names(folder)) {
    const number = numberOf(name, kind);
    const file = path.join(folder, name);
    const old = number !== null && newest !== null && number < newest;
    if (old || (name.startsWith(TEMPORARY) && (await isAbandoned(file)))) {
      await fs.rm(file, { force: true });
    }
  }
}

/** @param {string} file */
async function isAbandoned(file) {
  const about = await fs.stat(file).catch(() => null);
  return about !== null && Date.now() - about.mtimeMs > ABANDONED;
}

/** The largest number of a kind of file; null if there is none. @param {string} folder
 * @param {string} kind */
async function latest(folder, kind) {
  const numbers = (await names(folder)).map((name) => numberOf(name, kind) ?? 0);
  return Math.max(0, ...numbers) || null;
}

/** @param {string} name @param {string} kind */
function numberOf(name, kind) {
  const digits = name.startsWith(`${kind}-`)
    ? /^[1-9]\d{0,14}(?=\.json$)/.exec(name.slice(kind.length + 1))
    : null;
  return digits === null ? null : Number(digits[0]);
}

/** @param {string} folder */
async function names(folder) {
  try {
    return await fs.readdir(folder);
  } catch (error) {
    if (codeOf(error) === "ENOENT") return [];
    throw error;
  }
}

/** @param {string} file */
async function readIfThere(file) {
  try {
    return await fs.readFile(file, "utf-8");
  } catch (error) {
    if (codeOf(error) === "ENOENT") return null;
    throw error;
  }
}

/** A file that was not there, for its owner alone. @param {string} file @param {string} text */
async function writeDurably(file, text) {
  const handle = await fs.open(file, "wx", 0o600);
  try {
    await handle.writeFile(text, "utf-8");
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** A folder and those above it, durably, where they are not there. @param {string} folder
 * @param {number} [mode] */
async function makeFolder(folder, mode = 0o777) {
  const first = await fs.mkdir(folder, own({ recursive: true, mode }));
  if (first === undefined) return;
  for (let made = folder; made.length >= first.length; made = path.dirname(made)) {
    await syncFolder(path.dirname(made));
  }
}

/** Make the names in a folder durable, where the platform can. @param {string} folder */
async function syncFolder(folder) {
  if (process.platform === "win32") return;
  const handle = await fs.open(folder, "r");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** Turn what the file system throws into a fault. @template T
 * @param {"UNREADABLE" | "UNWRITABLE"} fault @param {() => Promise<T>} work */
async function explained(fault, work) {
  try {
    return await work();
  } catch (error) {
    throw error instanceof LedgerError ? error : new LedgerError(fault);
  }
}

/** @param {unknown} error */
function codeOf(error) {
  return /** @type {{ code?: string }} */ (error).code;
}

function token() {
  return randomBytes(8).toString("hex");
}
