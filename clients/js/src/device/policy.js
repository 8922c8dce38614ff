/** The policy: what the owner of a device lets any server have. A server may only ask for less. */

import { InvalidArgument, checkCount, checkPositive, own } from "../errors.js";
import { publicKeyOf, toHex } from "../hash.js";
import { nameOf } from "../models/schema.js";
import { canonical, isPrivate } from "../solutions/names.js";
import { FIELDS, NOTHING_STATED, checkText } from "../wire/intent.js";
import { MOST_DIMENSION } from "../wire/recipe.js";
import { MenuItem, distinct, longestWindow, secondsOf } from "./budget.js";

const MOST_COUNT = 2 ** 32 - 1;

/** The fields of a policy, named as in the TOML file of the Python client.
 *
 * An ε is the decimal that is written, a number or a text: ten reports of 0.1 are exactly 1.
 * @typedef {object} PolicyFields
 * @property {number | string | null} [lifetime] the ε of all reports that this device will ever make;
 *   it may lack only where there is a per_window
 * @property {number | string} per_report the most ε of one report
 * @property {readonly string[]} solutions the names that a task may have, private ones only
 * @property {readonly number[]} dimensions the d that a task may have
 * @property {number} [clip] the most that a task may clip to, against absurd requests
 * @property {number} [reports_per_epoch]
 * @property {number | null} [reports_per_day]
 * @property {number} [runs] how many runs are open at a time; a further one closes the oldest
 * @property {number} [weight_bound] the largest magnitude of a weight that is believed
 * @property {number} [least_seconds] an answer takes at least that long
 * @property {boolean} [require_purpose]
 * @property {boolean} [require_recipient]
 * @property {readonly string[] | null} [purposes] what a request may state, letter by letter
 * @property {readonly string[] | null} [recipients]
 * @property {readonly string[] | null} [columns] the columns of the owner's table that a task may use,
 *   by name, its label among them; every update must then say which columns it is made of
 * @property {string | null} [server_key] reports leave sealed for the holder of this key, 64 digits
 * @property {string | null} [signing_key] requests and weights must be signed by the holder of this key
 * @property {import("./budget.js").Window | null} [per_window] the most ε in any interval of a length,
 *   such as [2, "30 days"]; the reports of many such intervals add up
 * @property {readonly import("./budget.js").MenuFields[] | null} [menu] what is allowed for a purpose or a
 *   recipient: what a request states must be on it, and all entries that fit must allow a report
 * @property {string | null} [clock_tolerance] how far the clock may be ahead of the last report, with
 *   windows; twice the longest of them unless given
 */

const KNOWN = [
  "lifetime",
  "per_report",
  "solutions",
  "dimensions",
  "clip",
  "reports_per_epoch",
  "reports_per_day",
  "runs",
  "weight_bound",
  "least_seconds",
  "require_purpose",
  "require_recipient",
  "purposes",
  "recipients",
  "columns",
  "server_key",
  "signing_key",
  "per_window",
  "menu",
  "clock_tolerance",
];

/** The limits of one device. */
export class Policy {
  /** What it allows for any purpose. */
  #own;

  /** @param {PolicyFields} given */
  constructor(given) {
    if (typeof given !== "object" || given === null) {
      throw new InvalidArgument("policy", given, "an object of its fields");
    }
    const fields = own(given);
    const unknown = Object.keys(fields).find((name) => !KNOWN.includes(name));
    if (unknown !== undefined) {
      const value = /** @type {Record<string, unknown>} */ (fields)[unknown];
      throw new InvalidArgument(unknown, value, `one of ${KNOWN.join(", ")}`);
    }
    const { per_report, lifetime = null, per_window = null } = fields;
    if (lifetime === null && per_window === null) {
      throw new InvalidArgument("lifetime", lifetime, "set, unless there is a per_window");
    }
    this.#own = new MenuItem({ per_report, lifetime, per_window });
    if (this.#own.perReport === null) {
      throw new InvalidArgument("per_report", per_report, "set: it has no default");
    }
    /** @readonly */
    this.lifetime = this.#own.lifetime;
    /** @readonly */
    this.perReport = this.#own.perReport;
    /** @readonly */
    this.perWindow = this.#own.perWindow;
    /** @readonly */
    this.menu = menu("menu", fields.menu ?? null);
    /** @readonly */
    this.solutions = Object.freeze(listed("solutions", fields.solutions).map(privateName));
    /** @readonly */
    this.dimensions = Object.freeze(
      listed("dimensions", fields.dimensions).map((d) =>
        checkCount("dimensions", d, { most: MOST_DIMENSION }),
      ),
    );
    /** @readonly */
    this.clip = checkPositive("clip", fields.clip ?? 1);
    /** @readonly */
    this.reportsPerEpoch = count("reports_per_epoch", fields.reports_per_epoch ?? 1);
    const perDay = fields.reports_per_day ?? null;
    /** @readonly */
    this.reportsPerDay = perDay === null ? null : count("reports_per_day", perDay);
    /** @readonly */
    this.runs = count("runs", fields.runs ?? 1);
    /** @readonly */
    this.weightBound = checkPositive("weight_bound", fields.weight_bound ?? 1e6);
    /** @readonly */
    this.leastSeconds = fields.least_seconds ?? 0;
    if (!(
      typeof this.leastSeconds === "number" &&
      this.leastSeconds >= 0 &&
      this.leastSeconds <= 86400
    )) {
      throw new InvalidArgument("least_seconds", this.leastSeconds, "in 0 … 86400");
    }
    /** @readonly */
    this.required = {
      purpose: flag("require_purpose", fields.require_purpose ?? false),
      recipient: flag("require_recipient", fields.require_recipient ?? false),
    };
    /** @readonly */
    this.stated = {
      purpose: texts("purposes", fields.purposes ?? null, "purpose"),
      recipient: texts("recipients", fields.recipients ?? null, "recipient"),
    };
    /** @readonly */
    this.columns = names("columns", fields.columns ?? null);
    /** @readonly */
    this.serverKey = publicKey("server_key", fields.server_key ?? null);
    /** @readonly */
    this.signingKey = publicKey("signing_key", fields.signing_key ?? null);
    /** Every limit of several reports, those of the menu included. @readonly */
    this.limits = Object.freeze(distinct(this.#items.flatMap(({ limits }) => limits)));
    /** @readonly */
    this.clockTolerance = fields.clock_tolerance ?? null;
    if (this.clockTolerance !== null) {
      if (longestWindow(this.limits) === null) {
        const allowed = "omitted without a per_window";
        throw new InvalidArgument("clock_tolerance", this.clockTolerance, allowed);
      }
      secondsOf("clock_tolerance", this.clockTolerance);
    }
    Object.freeze(this);
  }

  get #items() {
    return [this.#own, ...(this.menu ?? [])];
  }

  /** The most ε of one report that states this. @param {import("../wire/intent.js").Intent} intent */
  mostPerReport(intent) {
    const prices = this.#items.flatMap((item) =>
      item.perReport !== null && item.concerns(intent) ? [item.perReport] : [],
    );
    return prices.reduce((least, price) => (price.compare(least) < 0 ? price : least));
  }

  /** Why the policy forbids a recipe, before anything of its size is built; null if it allows it.
   * @param {import("../wire/recipe.js").Recipe} recipe
   * @param {import("../wire/intent.js").Intent} [intent]
   * @returns {"NOT_ALLOWED" | "PURPOSE" | null} */
  objection(recipe, intent = NOTHING_STATED) {
    const allowed =
      this.solutions.includes(recipe.solution) &&
      this.dimensions.includes(recipe.dim) &&
      recipe.clip <= this.clip;
    if (!allowed) return "NOT_ALLOWED";
    const accepts = FIELDS.every((field) => {
      const [text, known] = [intent[field], this.stated[field]];
      return known === null ? text !== "" || !this.required[field] : known.includes(text);
    });
    const listed = this.menu === null || this.menu.some((item) => item.concerns(intent));
    return listed && accepts ? null : "PURPOSE";
  }

  /** What a task uses although the policy does not allow it; null if it allows all of it. `columns` are
   * those of the owner's table that it uses; null: nobody says which.
   * @param {readonly string[] | null} columns @returns {string | null} */
  forbidden(columns) {
    const allowed = this.columns;
    if (allowed === null) return null;
    if (columns === null) return "columns without names";
    const name = columns.find((column) => !allowed.includes(column));
    return name === undefined ? null : `the column "${name}"`;
  }
}

/** A key as it is written down; `Client.open` tries it. @param {string} name @param {unknown} value */
function publicKey(name, value) {
  if (value === null) return null;
  const key = publicKeyOf(value);
  if (key === null) {
    throw new InvalidArgument(name, value, "64 hexadecimal digits, in lower case");
  }
  return toHex(key);
}

/** @param {string} name @param {unknown} values @returns {unknown[]} */
function listed(name, values) {
  if (!Array.isArray(values) || values.length === 0) {
    throw new InvalidArgument(name, values, "a list of at least one");
  }
  return values;
}

/** The entries of a menu, each named by its place. @param {string} name @param {unknown} values */
function menu(name, values) {
  if (values === null) return null;
  const items = listed(name, values).map((table, i) => MenuItem.of(`${name}[${i}]`, table));
  return Object.freeze(items);
}

/** @param {string} name @param {unknown} value */
function count(name, value) {
  return checkCount(name, value, { most: MOST_COUNT });
}

/** @param {string} name @param {unknown} value */
function flag(name, value) {
  if (typeof value !== "boolean") throw new InvalidArgument(name, value, "true or false");
  return value;
}

/** @param {unknown} name */
function privateName(name) {
  const known = typeof name === "string" ? canonical(name) : null;
  if (known === null || !isPrivate(known)) {
    throw new InvalidArgument("solutions", name, "a private solution, such as FJ, PS-PM or PM");
  }
  return known;
}

/** @param {string} name @param {unknown} values @param {"purpose" | "recipient"} field */
function texts(name, values, field) {
  if (values === null) return null;
  const checked = listed(name, values).map((text) => checkText(name, text, field));
  if (checked.includes("")) throw new InvalidArgument(name, values, "a list of non-empty texts");
  return checked;
}

/** The names of columns, as a schema has them. @param {string} name @param {unknown} values */
function names(name, values) {
  if (values === null) return null;
  return Object.freeze(listed(name, values).map((text) => nameOf(name, text)));
}
