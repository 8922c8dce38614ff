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
import { ZERO } from "../exact/fraction.js";
import { randomBytes } from "../random/entropy.js";
import { decodeRecipe } from "../wire/recipe.js";
import { Books, beginning } from "./books.js";
import { Limit, latest } from "./budget.js";
import { written } from "./spending.js";

/** @typedef {import("../exact/fraction.js").Fraction} Fraction */

export class Ledger {
  #store;
  /** The ledger when it was last checked, or written. @type {Known | null} */
  #known = null;

  /** @param {Store} store */
  constructor(store) {
    this.#store = store;
  }

  /** @param {readonly Limit[]} limits @param {number} time */
  async create(limits, time) {
    if (await this.#store.exists()) return;
    const identity = toHex(randomBytes(16));
    try {
      await this.#store.create(beginning(limits, identity, time));
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
 * @typedef {object} HistoryChange
 * @property {readonly Limit[]} limits
 * @property {number | null} time since when; null where it is not known
 * @property {number} reports how many there were before
 * @property {string} by who allowed them; empty where nobody had to
 *
 * @typedef {object} Confirmation
 * @property {number} time that the owner has confirmed
 * @property {number} reports how many there were before
 * @property {string} by the owner's name
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
 * @property {Fraction} spent
 * @property {readonly Limit[]} limits the present ones
 * @property {Fraction | null} lifetime null where windows alone limit the reports
 * @property {Fraction | null} left of the lifetime
 * @property {HistoryChange[]} changes all limits that it has had, the present ones last
 * @property {Confirmation[]} confirmations the times that its owner has confirmed
 * @property {(now: number) => import("./budget.js").Standing[]} standings what each limit counts at a
 *   time by the device's clock, in seconds since 1970, and what it gives back when
 * @property {number | null} knownTime the latest that it knows: of its creation, a report, a confirmation
 * @property {import("./budget.js").Past[]} past the reports as limits see them
 * @property {HistoryEntry[]} entries
 * @property {Map<string, HistoryRun>} runs by their names in hexadecimal digits
 */

/** @param {Books} books @returns {History} */
function historyOf(books) {
  const { limits, spent, state, past, knownTime } = books;
  const lifetime = limits.find((limit) => limit.isLifetime)?.epsilon ?? null;
  const rest = lifetime === null ? null : lifetime.minus(spent);
  return {
    identity: state.identity,
    spent,
    limits,
    lifetime,
    left: rest !== null && rest.compare(ZERO) < 0 ? ZERO : rest,
    changes: state.decisions.flatMap(({ limits: rows, time, reports, by }) => {
      return rows === null ? [] : [{ limits: rows.map(Limit.of), time, reports, by }];
    }),
    confirmations: state.decisions.flatMap(({ limits: rows, time, reports, by }) => {
      return rows !== null || time === null ? [] : [{ time, reports, by }];
    }),
    knownTime,
    past,
    standings: (now) => limits.map((limit) => limit.standing(past, latest(now, knownTime))),
    entries: state.entries.map(({ link: _, ...entry }) => ({
      ...entry,
      charge: written(entry.charge),
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
