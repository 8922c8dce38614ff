/** What every client does with a record before it trains, and what it tells in rounds that prepare:
 * public, and the same for all. Both are given as JSON by the server, beside the weights. */

import { InvalidArgument, checkCount, checkPositive, own } from "../errors.js";

/** A record x in [−1, 1] becomes (clip((x − origin)/spread, −1, 1) − centre, intercept), divided by
 * its norm if `unit`, else multiplied by `factor`; with `mixing`, a public matrix, it is multiplied
 * by that first.
 * @typedef {object} PreparationFields
 * @property {readonly number[]} spread in (0, 2]
 * @property {readonly number[]} centre
 * @property {number} intercept 0 is none
 * @property {boolean} unit
 * @property {number} factor
 * @property {readonly (readonly number[])[]} [mixing]
 * @property {readonly number[]} [origin] zero unless given
 */
export class Preparation {
  /** @param {PreparationFields} fields */
  constructor(fields) {
    const { spread, centre, intercept, unit, factor, mixing, origin } = own(fields);
    /** @readonly */
    this.spread = numbers("spread", spread);
    /** @readonly */
    this.centre = numbers("centre", centre, this.spread.length);
    const zero = new Float64Array(this.spread.length);
    /** @readonly */
    this.origin = origin === undefined ? zero : numbers("origin", origin, this.spread.length);
    if (!this.spread.every((width) => width > 0 && width <= 2)) {
      throw new InvalidArgument("spread", "an entry out of range", "in (0, 2]");
    }
    if (typeof intercept !== "number" || !Number.isFinite(intercept) || intercept < 0) {
      throw new InvalidArgument("intercept", intercept, "a finite number ≥ 0; 0 is none");
    }
    if (typeof unit !== "boolean") throw new InvalidArgument("unit", unit, "true or false");
    /** @readonly */
    this.intercept = intercept;
    /** @readonly */
    this.unit = unit;
    /** @readonly */
    this.factor = checkPositive("factor", factor);
    /** The entries of a prepared record. @readonly */
    this.size = this.spread.length + (intercept > 0 ? 1 : 0);
    /** @readonly */
    this.mixing = mixing === undefined ? null : square(mixing, this.size);
  }

  /** Before anything is learnt: records as they are, with an intercept.
   * @param {number} features
   * @param {{ intercept?: number, unit?: boolean, factor?: number }} [options] */
  static plain(features, options) {
    const { intercept = 1, unit = true, factor = 1 } = own(options);
    const count = checkCount("features", features);
    const [spread, centre] = [new Array(count).fill(1), new Array(count).fill(0)];
    return new Preparation({ spread, centre, intercept, unit, factor });
  }

  /** clip((x − origin)/spread, −1, 1): a record without the centre.
   * @param {ArrayLike<number>} record */
  within(record) {
    return this.spread.map((width, i) => {
      return Math.max(-1, Math.min(1, (record[i] - this.origin[i]) / width));
    });
  }

  /** The norm of a typical record before it is divided; 1 where records keep theirs. */
  get typicalNorm() {
    return this.unit ? Math.hypot(this.intercept, 1 / this.factor) : 1;
  }

  /** What a record is divided by; 1 where it keeps its norm. @param {ArrayLike<number>} record */
  norm(record) {
    const squares = Float32Array.from(this.#wide(record)).reduce((sum, x) => sum + x * x, 0);
    return this.unit && squares > 0 ? Math.sqrt(squares) : 1;
  }

  /** A record as a client trains on it. @param {ArrayLike<number>} record */
  record(record) {
    const wide = this.#wide(record);
    return this.unit ? unitRow(wide) : Float32Array.from(wide, (entry) => this.factor * entry);
  }

  /** (clip((x − origin)/spread, −1, 1) − centre, intercept), mixed. @param {ArrayLike<number>} record */
  #wide(record) {
    let wide = new Float64Array(this.size).fill(this.intercept);
    wide.set(this.within(record).map((entry, i) => entry - this.centre[i]));
    if (this.mixing !== null) wide = Float64Array.from(this.mixing, (row) => product(row, wide));
    return wide;
  }
}

const [MARGIN, KAPPA, REACH, CLOSEST] = [4, 0.1, 0.75, 4];

/** The public parameters of the rounds that prepare. @typedef {object} PlanFields
 * @property {number} features
 * @property {number} dim entries of an update
 * @property {number} spread_rounds
 * @property {number} centre_rounds
 * @property {readonly boolean[]} loose the features whose ranges may be far too wide
 * @property {number} radius the norm of what is reported
 * @property {number} noise that of one decoded report
 * @property {number} [octaves]
 * @property {boolean} [unit]
 * @property {boolean} [intercept]
 * @property {boolean} [scattered] whether a record's entries do not lie side by side
 * @property {readonly ("spread" | "origin")[]} [passes] among which spread_rounds are divided
 */
export class Plan {
  /** @param {PlanFields} given */
  constructor(given) {
    const fields = own(given);
    /** @readonly */
    this.features = checkCount("features", fields.features);
    /** @readonly */
    this.dim = checkCount("dim", fields.dim, { least: this.features + 1 });
    /** @readonly */
    this.spreadRounds = checkCount("spread_rounds", fields.spread_rounds, { least: 0 });
    /** @readonly */
    this.centreRounds = checkCount("centre_rounds", fields.centre_rounds, { least: 0 });
    /** @readonly */
    this.octaves = checkCount("octaves", fields.octaves ?? 16);
    /** @readonly */
    this.radius = checkPositive("radius", fields.radius);
    if (!Array.isArray(fields.loose) || fields.loose.length !== this.features) {
      throw new InvalidArgument("loose", typeof fields.loose, `${this.features} values`);
    }
    /** The places of the loose features. @readonly */
    this.columns = fields.loose.flatMap((loose, i) => (loose ? [i] : []));
    if (this.spreadRounds && !this.columns.length) {
      throw new InvalidArgument("spread_rounds", this.spreadRounds, "0: no range is loose");
    }
    /** @readonly */
    this.passes = passesOf(fields.passes ?? [], this.spreadRounds);
    const order = fields.scattered ? scattered(this.dim) : null;
    /** Where the entries of (x, κ) lie in a vector. @readonly */
    this.places = Array.from({ length: this.features + 1 }, (_, i) => (order ? order[i] : i));
  }

  /** What a round is for. @param {number} round
   * @returns {"spread" | "origin" | "centre" | "training"} */
  stage(round) {
    if (round < this.spreadRounds) return this.passes[this.#done(round)] ?? "spread";
    return round < this.spreadRounds + this.centreRounds ? "centre" : "training";
  }

  /** What one client reports on that holds all these records: the mean over them (dim,).
   * @param {number} round @param {readonly ArrayLike<number>[]} records
   * @param {Preparation} learnt */
  vector(round, records, learnt) {
    const mean = new Float64Array(this.dim);
    for (const record of records) {
      const told =
        this.stage(round) === "spread"
          ? this.#spread(round, record, learnt)
          : this.#centre(round, record, learnt);
      told.forEach((entry, i) => (mean[i] += entry));
    }
    return Float32Array.from(mean, (sum) => sum / records.length);
  }

  /** How many passes are over before a round among the first. @param {number} round */
  #done(round) {
    const ends = this.passes.map((_, i) => {
      return Math.ceil((this.spreadRounds * (i + 1)) / this.passes.length);
    });
    return ends.filter((end) => round >= end).length;
  }

  /** How many octaves each loose range is too wide. @param {number} round
   * @param {ArrayLike<number>} record @param {Preparation} learnt */
  #spread(round, record, learnt) {
    const vector = new Float32Array(this.dim);
    const before = this.passes.slice(0, this.#done(round)).filter((pass) => pass === "spread");
    const closer = this.passes.length ? Math.min(before.length + 2, CLOSEST) : 0;
    const factor = this.radius / ((REACH / 2 ** closer) * Math.sqrt(this.columns.length));
    const magnitudes = this.columns.map((j) => {
      return Math.abs((record[j] - learnt.origin[j]) * (MARGIN / learnt.spread[j]));
    });
    const logs = magnitudes.map((magnitude) => {
      return magnitude > 0 ? Math.max(-1, Math.min(1, -logarithm(magnitude) / this.octaves)) : 0;
    });
    const there = magnitudes.filter((magnitude) => magnitude > 0).length;
    const mean = logs.reduce((sum, log) => sum + log, 0) / Math.max(1, there);
    this.columns.forEach((j, i) => {
      vector[this.places[j]] = factor * (magnitudes[i] > 0 ? logs[i] : mean);
    });
    return vector;
  }

  /** (x, κ) over its norm; for the origin of the loose features alone. @param {number} round
   * @param {ArrayLike<number>} record @param {Preparation} learnt */
  #centre(round, record, learnt) {
    const vector = new Float32Array(this.dim);
    const all = Array.from({ length: this.features }, (_, i) => i);
    const columns = this.stage(round) === "origin" ? this.columns : all;
    const within = learnt.within(record);
    const kappa = KAPPA * Math.sqrt(columns.length);
    const wide = Float64Array.of(...columns.map((j) => within[j]), kappa);
    unitRow(wide).forEach((entry, i) => {
      vector[this.places[columns[i] ?? this.features]] = Math.fround(this.radius) * entry;
    });
    return vector;
  }
}

/** @param {unknown} passes @param {number} most @returns {("spread" | "origin")[]} */
function passesOf(passes, most) {
  const right = Array.isArray(passes) && passes.length <= most;
  if (!right || !passes.every((pass) => pass === "spread" || pass === "origin")) {
    const allowed = `at most ${most} (spread_rounds), each "spread" or "origin"`;
    throw new InvalidArgument("passes", typeof passes, allowed);
  }
  return passes.slice();
}

/** A row over its norm; zeros stay zeros. @param {Float64Array} row */
function unitRow(row) {
  const norm = Math.sqrt(row.reduce((sum, entry) => sum + entry * entry, 0));
  const factor = norm > 0 ? 1 / Math.max(norm, 1e-30) : 1;
  return Float32Array.from(row, (entry) => entry * factor);
}

/** log₂ x for x > 0, linear between powers of two. @param {number} x */
function logarithm(x) {
  if (x === Infinity) return x;
  let exponent = Math.max(-1074, Math.floor(Math.log2(x)));
  while (2 ** exponent > x) exponent -= 1;
  while (2 ** (exponent + 1) <= x) exponent += 1;
  // x/2^exponent is in [1, 2) and exact, also where 2^−exponent overflows.
  const mantissa = exponent < -1000 ? (x * 2 ** 100) / 2 ** (exponent + 100) : x / 2 ** exponent;
  return exponent - 1 + mantissa;
}

/** All entries of a vector in an order without pattern, the same on every machine.
 * @param {number} dim */
function scattered(dim) {
  const word = (1n << 64n) - 1n;
  const keys = Array.from({ length: dim }, (_, i) => {
    const key = (BigInt(i) * 0x9e3779b97f4a7c15n) & word;
    return ((key ^ (key >> 29n)) * 0xbf58476d1ce4e5b9n) & word;
  });
  const before = (/** @type {number} */ a, /** @type {number} */ b) =>
    keys[a] < keys[b] ? -1 : keys[a] > keys[b] ? 1 : a - b;
  return keys.map((_, i) => i).sort(before);
}

/** @param {Float64Array} row @param {Float64Array} vector */
function product(row, vector) {
  return row.reduce((sum, entry, i) => sum + entry * vector[i], 0);
}

/** @param {string} name @param {unknown} values @param {number} [length] */
function numbers(name, values, length) {
  const right =
    (Array.isArray(values) || ArrayBuffer.isView(values)) &&
    Array.from(/** @type {ArrayLike<unknown>} */ (values)).every(Number.isFinite);
  const vector = right ? Float64Array.from(/** @type {ArrayLike<number>} */ (values)) : null;
  if (vector === null || !vector.length || (length !== undefined && vector.length !== length)) {
    throw new InvalidArgument(name, typeof values, `${length ?? "some"} finite numbers`);
  }
  return vector;
}

/** @param {readonly (readonly number[])[]} rows @param {number} size */
function square(rows, size) {
  if (!Array.isArray(rows) || rows.length !== size) {
    throw new InvalidArgument("mixing", typeof rows, `${size} rows of ${size} numbers`);
  }
  return rows.map((row) => numbers("mixing", row, size));
}
