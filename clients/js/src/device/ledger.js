/** The ledger in a store: every report that may have left a device, durable and exact.
 *
 * @typedef {import("./books.js").Held} Held
 * @typedef {import("./books.js").Change} Change
 *
 * @typedef {{ held: Held, state: import("./books.js").State }} Known
 *
 * Where the two texts of a ledger are kept. What `update` writes is durable when its promise is
 * fulfilled; its body may be called more than once, where others were faster.
 * @typedef {object} Store
 * @property {() => Promise<boolean>} exists whether anything is where the ledger should be
 * @property {(held: Held) => Promise<void>} create refused where anything is in its place
 * @property {() => Promise<Held>} read
 * @property {(body: (held: Held) => Change | null) => Promise<void>} update null: no change
 */

import { fromHex, toHex } from "../hash.js";
import { Fraction, ZERO } from "../exact/fraction.js";
import { randomBytes } from "../random/entropy.js";
import { decodeRecipe } from "../wire/recipe.js";
import { Books, beginning } from "./books.js";

export class Ledger {
  #store;
  /** The ledger when it was last checked, or written. @type {Known | null} */
  #known = null;

  /** @param {Store} store */
  constructor(store) {
    this.#store = store;
  }

  /** @param {Fraction} lifetime @param {number} time */
  async create(lifetime, time) {
    if (await this.#store.exists()) return;
    const identity = toHex(randomBytes(16));
    try {
      await this.#store.create(beginning(lifetime, identity, time));
    } catch (error) {
      if (!(await this.#store.exists())) throw error; // else another process or tab was faster
    }
  }

  /** The result of a look at the ledger. @template T @param {(books: Books) => T} body */
  async look(body) {
    const held = await this.#store.read();
    const books = new Books(held, this.#known);
    this.#known = { held, state: books.state };
    return body(books);
  }

  /** The result of a change, once it is durable. @template T @param {(books: Books) => T} body
   * @returns {Promise<T>} */
  async change(body) {
    /** @type {{ result: T } | null} */
    let outcome = null;
    /** @type {Known | null} */
    let after = null;
    await this.#store.update((held) => {
      const books = new Books(held, this.#known);
      outcome = { result: body(books) };
      const change = books.change();
      after = { held: change ?? held, state: books.state };
      return change;
    });
    this.#known = after;
    return /** @type {{ result: T }} */ (/** @type {unknown} */ (outcome)).result;
  }

  /** All that the ledger says; the whole of it is checked. @returns {Promise<History>} */
  async history() {
    this.#known = null;
    return this.look((books) => historyOf(books));
  }
}

/** @typedef {object} HistoryEntry
 * @property {number} number
 * @property {string} run in hexadecimal digits
 * @property {number} epoch
 * @property {number} round
 * @property {number} time seconds since 1970
 * @property {Fraction} charge
 * @property {Uint8Array} digest
 * @property {Uint8Array} report
 *
 * @typedef {object} HistoryLifetime
 * @property {Fraction} epsilon
 * @property {number | null} time since when; null where it is not known
 * @property {number} reports how many there were before
 * @property {string} by who raised it; empty where it was not raised
 *
 * @typedef {object} HistoryRun
 * @property {import("../wire/recipe.js").Recipe} recipe
 * @property {Uint8Array} recipeBytes
 * @property {string} purpose
 * @property {string} recipient
 * @property {boolean} open
 *
 * @typedef {object} History
 * @property {string} identity the random name that the ledger got when it was created
 * @property {Fraction} lifetime
 * @property {Fraction} spent
 * @property {Fraction} left
 * @property {HistoryLifetime[]} lifetimes all that it has had, the present one last
 * @property {HistoryEntry[]} entries
 * @property {Map<string, HistoryRun>} runs by their names in hexadecimal digits
 */

/** @param {Books} books @returns {History} */
function historyOf(books) {
  const { lifetime, spent, state } = books;
  const left = lifetime.minus(spent);
  return {
    identity: state.identity,
    lifetime,
    spent,
    left: left.compare(ZERO) > 0 ? left : ZERO,
    lifetimes: state.lifetimes.map(({ lifetime: epsilon, time, reports, by }) => ({
      epsilon: /** @type {Fraction} */ (Fraction.parse(epsilon)),
      time,
      reports,
      by,
    })),
    entries: state.entries.map(({ link: _, ...entry }) => ({
      ...entry,
      charge: /** @type {Fraction} */ (Fraction.parse(entry.charge)),
      digest: bytes(entry.digest),
      report: bytes(entry.report),
    })),
    runs: new Map(
      state.runs.map(({ run, task, purpose, recipient, open }) => {
        const recipe = decodeRecipe(bytes(task));
        return [
          run,
          {
            recipe: /** @type {NonNullable<typeof recipe>} */ (recipe),
            recipeBytes: bytes(task),
            purpose,
            recipient,
            open,
          },
        ];
      }),
    ),
  };
}

/** @param {string} digits of a ledger that was checked */
function bytes(digits) {
  return /** @type {Uint8Array} */ (fromHex(digits));
}
