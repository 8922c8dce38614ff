/** Private, unbiased reports of one number in [−1, 1]: the laws of Duchi, PM, HM and OW. */

import { WEIGHT_BUDGET, expLower } from "../exact/exponential.js";
import { exp, expm1 } from "../exact/floats.js";
import { Fraction } from "../exact/fraction.js";
import { roundHalfEven } from "../exact/integers.js";
import { SymbolLaw, Window } from "./laws.js";

/** Below this ε HM is Duchi alone. The comparison is exact, with the float that this is. */
const HYBRID_THRESHOLD = Fraction.exactly(0.609352);
/** The finest grid: a symbol fits into 16 bits. */
const MOST_CELLS = 1 << 15;
/** Below this an integer law cannot tell values apart. */
const LEAST_EPSILON = Fraction.exactly(1e-12);
const ALL_PAIRS = 1024;
const NEIGHBOURS = 2;
const COINS = 2 ** 32;

/** The window on G cells of width W with integer weights H/L ≤ e^ε, as close as 59 bits allow.
 * @param {Fraction} growth a lower bound of e^ε @param {bigint} G @param {bigint} W */
function privateWindow(growth, G, W) {
  const room = new Fraction(WEIGHT_BUDGET).over(growth.times(W).plus(new Fraction(G))).floor();
  const low = room > 1n ? room : 1n;
  const wanted = growth.times(low).floor();
  const most = (WEIGHT_BUDGET - G * low) / W;
  return new Window(G, W, low, wanted < most ? wanted : most);
}

/** PM's window: fine enough for PM's variance. @param {Fraction} epsilon @param {Fraction} growth */
function piecewiseWindow(epsilon, growth) {
  const rough = epsilon.toNumber();
  const doublings = 2 * Math.max(0, Math.ceil((rough - 2) / 2));
  const cells = 256 << Math.min(doublings, 7);
  const width = Math.max(1, roundHalfEven(cells * exp(-rough / 2)));
  return privateWindow(growth, BigInt(cells), BigInt(width));
}

/** @type {Record<string, (epsilon: Fraction, growth: Fraction) => SymbolLaw>} */
const LAWS = {
  Duchi: (_, growth) => new SymbolLaw([privateWindow(growth, 1n, 1n)]),
  PM: (epsilon, growth) => new SymbolLaw([piecewiseWindow(epsilon, growth)]),
  HM: (epsilon, growth) => {
    const duchi = privateWindow(growth, 1n, 1n);
    if (epsilon.compare(HYBRID_THRESHOLD) <= 0) return new SymbolLaw([duchi]);
    // The coin does not depend on the data: rounding it costs no privacy.
    const rounded = roundHalfEven(-expm1(-epsilon.toNumber() / 2) * COINS);
    const heads = BigInt(Math.min(rounded, COINS - 1));
    const coins = [heads, BigInt(COINS) - heads];
    return new SymbolLaw([piecewiseWindow(epsilon, growth), duchi], coins);
  },
  OW: (epsilon, growth) => new SymbolLaw([leastVarianceWindow(epsilon, growth)]),
};

/** The law of a value mechanism. @param {string} name @param {Fraction} epsilon */
export function symbolLaw(name, epsilon) {
  if (epsilon.compare(LEAST_EPSILON) < 0) throw new RangeError("ε is too small for a value");
  return LAWS[name](epsilon, expLower(epsilon));
}

/** The window with the least worst-case variance: all W ≤ G ≤ 1024, and widths near the best ratio
 * up to 2^15 cells, compared in floating point first and those within 1e-9 of the best exactly. The
 * fewest symbols win a tie. @param {Fraction} epsilon @param {Fraction} growth */
function leastVarianceWindow(epsilon, growth) {
  const rough = epsilon.toNumber();
  const decay = exp(-rough);
  const ratio = Math.cbrt(2 * decay);
  /** @type {[number, number, number][]} */
  const candidates = [];
  let best = Infinity;
  const consider = (/** @type {number} */ cells, /** @type {number} */ width) => {
    const worst = worstVariance(decay, cells, width);
    if (worst > best * (1 + 1e-9)) return;
    if (worst < best) best = worst;
    candidates.push([worst, cells, width]);
  };
  for (let cells = 1; cells <= ALL_PAIRS; cells++) {
    for (let width = 1; width <= cells; width++) consider(cells, width);
  }
  for (let cells = ALL_PAIRS + 1; cells <= MOST_CELLS; cells++) {
    const near = roundHalfEven(cells * ratio);
    for (let off = -NEIGHBOURS; off <= NEIGHBOURS; off++) consider(cells, Math.max(1, near + off));
  }
  const close = candidates.filter(([worst]) => worst <= best * (1 + 1e-9));
  const exact = close.map(([, cells, width]) => {
    const window = privateWindow(growth, BigInt(cells), BigInt(width));
    return { window, variance: window.worstVariance() };
  });
  return exact.reduce((least, other) => {
    const order = other.variance.compare(least.variance);
    const better = order < 0 || (order === 0 && other.window.symbols < least.window.symbols);
    return better ? other : least;
  }).window;
}

const BUDGET = Number(WEIGHT_BUDGET);

/** `Window.worstVariance` in floating point. @param {number} decay @param {number} G @param {number} W */
function worstVariance(decay, G, W) {
  const symbols = G + W;
  // L/H: e^−ε, or what 59 bits allow.
  const inverse = Math.max(decay, W / BUDGET);
  const eta = (W * (1 - inverse)) / (W + G * inverse);
  const spread = eta * (W * W - 1) + (1 - eta) * (symbols * symbols - 1);
  const a = 1 / eta;
  const b = spread / (3 * (eta * G) ** 2);
  const low = 1 - 2 / G;
  const t = Math.min(Math.max((a * (low + 1)) / 2, low), 1);
  return a * ((low + 1) * t - low) + b - t * t;
}
