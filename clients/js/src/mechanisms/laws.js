/** The two kinds of law that every mechanism is made of, as integer weights.
 *
 * The weights are the mechanism: they are what a device draws from, and what its charge is computed
 * from. They are integers of up to 59 bits, so they are BigInt.
 */

import { WEIGHT_BUDGET } from "../exact/exponential.js";
import { Fraction } from "../exact/fraction.js";

/** A value t in [−1, 1] enters a mechanism as the integer nearest to (t + 1)/2 · INPUT_STEPS. */
export const INPUT_STEPS = 1n << 31n;
export const HALF_STEPS = 2 ** 30;

/** Up to this many expected attempts a dimension is drawn first and accepted by its rank. */
const REJECTION_LIMIT = 16n;

/** The probability of reporting the dimension of rank 0 … d−1 (0 = largest), or ⊥.
 *
 * Equal weights are runs: weights[i] holds for counts[i] ranks in a row, for one without counts. */
export class RankLaw {
  /** @param {readonly bigint[] | BigInt64Array} weights
   * @param {readonly number[] | null} [counts]
   * @param {bigint} [bottom] */
  constructor(weights, counts = null, bottom = 0n) {
    this.weights = weights;
    this.counts = counts;
    this.bottom = bottom;
    let d = 0;
    let total = 0n;
    let maximum = weights[0];
    let minimum = weights[0];
    for (let i = 0; i < weights.length; i++) {
      const count = counts ? counts[i] : 1;
      const weight = weights[i];
      if (weight < 0n || count < 1)
        throw new RangeError("a rank law needs weights ≥ 0, counts ≥ 1");
      d += count;
      total += weight * BigInt(count);
      if (weight > maximum) maximum = weight;
      if (weight < minimum) minimum = weight;
    }
    if (total <= 0n || total > WEIGHT_BUDGET || bottom < 0n || bottom > WEIGHT_BUDGET) {
      throw new RangeError("the weights of a rank law must sum to 1 … 2^59");
    }
    this.d = d;
    this.total = total;
    this.maximum = maximum;
    this.minimum = minimum;
    this.uniform = maximum === minimum;
    /** Whether a dimension is drawn first, else a rank: a public choice. */
    this.byRejection = BigInt(d) * maximum <= REJECTION_LIMIT * total;
    /** The weight of all ranks of the runs 0 … i; long tables are made when they are first used.
     * @type {BigInt64Array | null} */
    this.cumulative = null;
  }

  /** @param {number} rank */
  weight(rank) {
    const { weights, counts } = this;
    if (!counts) return weights[rank];
    let run = 0;
    for (let end = counts[0]; rank >= end; end += counts[run]) run += 1;
    return weights[run];
  }

  /** The rank whose stretch of weight holds a position in 0 … total−1. @param {bigint} position */
  rankAt(position) {
    const { weights, counts } = this;
    if (!counts) return this.#run(position);
    let run = 0;
    let start = 0;
    while (position >= weights[run] * BigInt(counts[run])) {
      position -= weights[run] * BigInt(counts[run]);
      start += counts[run];
      run += 1;
    }
    return start + Number(position / weights[run]);
  }

  /** The first entry of a table without runs whose cumulative weight is above a position.
   * @param {bigint} position */
  #run(position) {
    if (this.cumulative === null) {
      this.cumulative = new BigInt64Array(this.weights.length);
      let sum = 0n;
      for (let i = 0; i < this.weights.length; i++) this.cumulative[i] = sum += this.weights[i];
    }
    let low = 0;
    let high = this.weights.length - 1;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.cumulative[middle] > position) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  /** max/min of the law: every dimension can hold every rank. Null where it is infinite. */
  lossRatio() {
    return this.minimum === 0n ? null : new Fraction(this.maximum, this.minimum);
  }
}

/** Input cells 0 … G, symbols 0 … G+W−1; weight H for g ≤ symbol < g + W, else L. */
export class Window {
  /** @param {bigint} G @param {bigint} W @param {bigint} L @param {bigint} H */
  constructor(G, W, L, H) {
    this.G = G;
    this.W = W;
    this.L = L;
    this.H = H;
    this.symbols = G + W;
    this.total = W * H + G * L;
    if (!(G >= 1n && G <= INPUT_STEPS && W >= 1n && L >= 0n && L < H)) {
      throw new RangeError("a window needs 1 ≤ G ≤ 2^31, W ≥ 1 and 0 ≤ L < H");
    }
    if (this.total > WEIGHT_BUDGET) {
      throw new RangeError("the weights of a window must sum to at most 2^59");
    }
  }

  /** The largest variance over t in [−1, 1]: that of the outermost cell. */
  worstVariance() {
    const eta = new Fraction(this.W * (this.H - this.L), this.total);
    const a = ONE.over(eta);
    const n = this.symbols;
    const spread = eta.times(this.W ** 2n - 1n).plus(ONE.minus(eta).times(n ** 2n - 1n));
    const b = spread.over(eta.times(this.G).power(2)).over(3n);
    const low = ONE.minus(new Fraction(2n, this.G));
    const middle = low.plus(ONE).over(2n).times(a);
    const t = larger(low, middle).compare(ONE) > 0 ? ONE : larger(low, middle);
    const up = t.minus(low).times(this.G).over(2n);
    const second = a.times(ONE.minus(up).times(low.power(2)).plus(up)).plus(b);
    return second.minus(t.power(2));
  }
}

const ONE = new Fraction(1n);

/** @param {Fraction} a @param {Fraction} b */
function larger(a, b) {
  return a.compare(b) >= 0 ? a : b;
}

/** A public coin between windows, which does not depend on the data. Symbols are numbered
 * through. */
export class SymbolLaw {
  /** @param {readonly Window[]} windows @param {readonly bigint[]} [coins] */
  constructor(windows, coins = [1n]) {
    this.windows = windows;
    this.coins = coins;
    this.tosses = coins.reduce((sum, coin) => sum + coin, 0n);
    if (coins.some((coin) => coin < 1n) || this.tosses > WEIGHT_BUDGET) {
      throw new RangeError("the coins of a symbol law must be ≥ 1 and sum to at most 2^59");
    }
    this.symbols = windows.reduce((sum, window) => sum + window.symbols, 0n);
  }

  /** The largest H/L; null where it is infinite. */
  lossRatio() {
    if (this.windows.some((window) => window.L === 0n)) return null;
    return this.windows.map((w) => new Fraction(w.H, w.L)).reduce(larger);
  }
}
