/** A ledger in a browser: two databases of IndexedDB, written with strict durability under a lock
 * that all tabs share.
 *
 * A browser may still lose them together: in a private window, when its user clears the site's
 * data, or when it needs room and the storage is not persistent. Then there is no ledger, and the
 * client refuses to answer unless its owner begins anew. See `persist`.
 */

import { InvalidArgument, checkPositive, own } from "../errors.js";
import { LedgerError } from "../device/refusal.js";

/** @typedef {import("../device/books.js").Held} Held */
/** @typedef {import("../device/books.js").Change} Change */

const TABLE = "texts";
const KEY = "text";

export class BrowserStore {
  /** @param {string} [name] one ledger a name and origin
   * @param {{ timeout?: number }} [options] seconds to wait for other tabs */
  constructor(name = "device", options) {
    const { timeout = 60 } = own(options);
    if (typeof name !== "string" || !name) throw new InvalidArgument("name", name, "a text");
    if (!globalThis.navigator?.locks || !globalThis.indexedDB) {
      throw new InvalidArgument(
        "store",
        name,
        "in a secure page (https, or localhost): it needs locks",
      );
    }
    this.name = name;
    this.timeout = checkPositive("timeout", timeout);
    this.ledger = `fedsel ledger ${name}`;
    this.witness = `fedsel witness ${name}`;
  }

  /** Ask the browser not to clear this site's data to make room; whether it promised. Some browsers
   * ask the user. */
  async persist() {
    return (await navigator.storage?.persist?.()) ?? false;
  }

  /** Whether the browser has promised it. */
  async isPersistent() {
    return (await navigator.storage?.persisted?.()) ?? false;
  }

  async exists() {
    return explained("UNREADABLE", async () => {
      return (await get(this.ledger)) !== null || (await get(this.witness)) !== null;
    });
  }

  /** @param {Held} held */
  async create(held) {
    await this.persist().catch(() => false);
    await this.#alone(async () => {
      if (await this.exists()) throw new LedgerError("OCCUPIED");
      await explained("UNWRITABLE", async () => {
        await put(this.witness, held.witness);
        await put(this.ledger, held.ledger);
      });
    });
  }

  /** @returns {Promise<Held>} */
  async read() {
    return this.#alone(() => this.#held());
  }

  /** @param {(held: Held) => Change | null} body */
  async update(body) {
    await this.#alone(async () => {
      const held = await this.#held();
      const next = body(held);
      if (next === null) return;
      await explained("UNWRITABLE", async () => {
        // A witness that a crash left behind is brought up to date first.
        if (held.witness !== next.before) await put(this.witness, next.before);
        await put(this.ledger, next.ledger);
        await put(this.witness, next.witness);
      });
    });
  }

  /** @returns {Promise<Held>} */
  async #held() {
    return explained("UNREADABLE", async () => {
      const [ledger, witness] = [await get(this.ledger), await get(this.witness)];
      if (ledger === null) throw new LedgerError(witness === null ? "MISSING" : "OCCUPIED");
      if (witness === null) throw new LedgerError("DISAGREES");
      if (typeof ledger !== "string" || typeof witness !== "string")
        throw new LedgerError("FOREIGN");
      return { ledger, witness };
    });
  }

  /** One tab at a time; the lock ends with its tab. @template T @param {() => Promise<T>} work
   * @returns {Promise<T>} */
  async #alone(work) {
    const options = own({ signal: AbortSignal.timeout(1000 * this.timeout) });
    let begun = false;
    try {
      return await navigator.locks.request(this.ledger, options, () => {
        begun = true;
        return work();
      });
    } catch (error) {
      throw begun ? error : new LedgerError("BUSY");
    }
  }
}

/** What a database holds; null where there is none. @param {string} name */
async function get(name) {
  const database = await open(name, false);
  if (database === null) return null;
  try {
    const transaction = database.transaction(TABLE, "readonly");
    return (await result(transaction.objectStore(TABLE).get(KEY))) ?? null;
  } finally {
    database.close();
  }
}

/** Write a text, durable once this is fulfilled. @param {string} name @param {string} text */
async function put(name, text) {
  const database = await open(name, true);
  if (database === null) throw new LedgerError("UNWRITABLE");
  try {
    const transaction = database.transaction(TABLE, "readwrite", { durability: "strict" });
    transaction.objectStore(TABLE).put(text, KEY);
    await new Promise((resolve, reject) => {
      transaction.oncomplete = () => resolve(undefined);
      transaction.onabort = () => reject(transaction.error);
      transaction.onerror = () => reject(transaction.error);
    });
  } finally {
    database.close();
  }
}

/** A database; null where it is not there and is not to be made. @param {string} name
 * @param {boolean} create @returns {Promise<IDBDatabase | null>} */
async function open(name, create) {
  const request = indexedDB.open(name, 1);
  request.onupgradeneeded = () => {
    if (create) request.result.createObjectStore(TABLE);
    else request.transaction?.abort(); // nothing is left behind
  };
  try {
    return await result(request);
  } catch (error) {
    if (!create && request.error?.name === "AbortError") return null;
    throw error;
  }
}

/** @template T @param {IDBRequest<T>} request @returns {Promise<T>} */
function result(request) {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

/** Turn what the database throws into a fault. @template T
 * @param {"UNREADABLE" | "UNWRITABLE"} fault @param {() => Promise<T>} work */
async function explained(fault, work) {
  try {
    return await work();
  } catch (error) {
    if (error instanceof LedgerError) throw error;
    const newer = /** @type {{ name?: string }} */ (error)?.name === "VersionError";
    throw new LedgerError(newer ? "FOREIGN" : fault);
  }
}
