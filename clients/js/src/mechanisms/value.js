/** Private, unbiased reports of one number in [−1, 1]: the laws of Duchi, PM, HM and OW. */

import { BigFloat } from "../exact/bigfloat.js";
import { WEIGHT_BUDGET, expLower, nearestDecay } from "../exact/exponential.js";
import { Fraction } from "../exact/fraction.js";
import { ceilDivide, roundHalfEven } from "../exact/integers.js";
import { SymbolLaw, Window } from "./laws.js";

/** Below this ε HM is Duchi alone. The comparison is exact, with the float that this is. */
const HYBRID_THRESHOLD = Fraction.exactly(0.609352);
/** The finest grid: a symbol fits into 16 bits. */
const MOST_CELLS = 1 << 15;
/** Below this an integer law cannot tell values apart. */
const LEAST_EPSILON = Fraction.exactly(1e-12);
const ALL_PAIRS = 1024;
const NEIGHBOURS = 2;
const COINS = 1n << 32n;

/** The window on G cells of width W with integer weights H/L ≤ e^ε, as close as 59 bits allow.
 * @param {Fraction} growth a lower bound of e^ε @param {bigint} G @param {bigint} W */
function privateWindow(growth, G, W) {
  const room = new Fraction(WEIGHT_BUDGET).over(growth.times(W).plus(new Fraction(G))).floor();
  const low = room > 1n ? room : 1n;
  const wanted = growth.times(low).floor();
  const most = (WEIGHT_BUDGET - G * low) / W;
  return new Window(G, W, low, wanted < most ? wanted : most);
}

/** PM's window: fine enough for PM's variance.
 * @param {Fraction} epsilon @param {Fraction} growth */
function piecewiseWindow(epsilon, growth) {
  const half = epsilon.over(2n);
  const doublings = 2 * Math.max(0, Number(ceilDivide(half.numerator, half.denominator) - 1n));
  const cells = BigInt(256 << Math.min(doublings, 7));
  const width = nearestDecay(cells, half);
  return privateWindow(growth, cells, width > 1n ? width : 1n);
}

/** @type {Record<string, (epsilon: Fraction, growth: Fraction) => SymbolLaw>} */
const LAWS = {
  Duchi: (_, growth) => new SymbolLaw([privateWindow(growth, 1n, 1n)]),
  PM: (epsilon, growth) => new SymbolLaw([piecewiseWindow(epsilon, growth)]),
  HM: (epsilon, growth) => {
    const duchi = privateWindow(growth, 1n, 1n);
    if (epsilon.compare(HYBRID_THRESHOLD) <= 0) return new SymbolLaw([duchi]);
    // The coin does not depend on the data: rounding it costs no privacy.
    const nearest = nearestDecay(COINS, epsilon.over(2n));
    const tails = nearest > 1n ? nearest : 1n;
    return new SymbolLaw([piecewiseWindow(epsilon, growth), duchi], [COINS - tails, tails]);
  },
  OW: (epsilon, growth) => new SymbolLaw([leastVarianceWindow(epsilon, growth)]),
};

/** The law of a value mechanism. @param {string} name @param {Fraction} epsilon */
export function symbolLaw(name, epsilon) {
  if (epsilon.compare(LEAST_EPSILON) < 0) throw new RangeError("ε is too small for a value");
  return LAWS[name](epsilon, expLower(epsilon));
}

/** The window with the least worst-case variance: all W ≤ G ≤ 1024, and widths near the best ratio
 * up to 2^15 cells, compared in floating point first, which is right to 1e-12, and those within
 * 1e-9 of the best exactly. The fewest symbols win a tie.
 * @param {Fraction} epsilon @param {Fraction} growth */
function leastVarianceWindow(epsilon, growth) {
  const decay = Math.exp(-epsilon.toNumber());
  // (2e^(−ε))^(1/3), the same on every machine.
  const exact = BigFloat.ratio(epsilon.numerator, epsilon.denominator);
  const two = BigFloat.of(2n);
  const ratio = two.ln().minus(exact).over(BigFloat.of(3n)).exp().toNumber();
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
  const windows = close.map(([, cells, width]) => {
    const window = privateWindow(growth, BigInt(cells), BigInt(width));
    return { window, variance: window.worstVariance() };
  });
  return windows.reduce((least, other) => {
    const order = other.variance.compare(least.variance);
    const better = order < 0 || (order === 0 && other.window.symbols < least.window.symbols);
    return better ? other : least;
  }).window;
}

const BUDGET = Number(WEIGHT_BUDGET);

/** `Window.worstVariance` in floating point. With 1/η = 1 + δ no two numbers that are nearly alike
 * are subtracted. @param {number} decay @param {number} G @param {number} W */
function worstVariance(decay, G, W) {
  const symbols = G + W;
  // L/H: e^−ε, or what 59 bits allow.
  const inverse = Math.max(decay, W / BUDGET);
  const inside = W * (1 - inverse);
  const whole = W + G * inverse;
  const delta = (inverse * symbols) / inside;
  const eta = inside / whole;
  const spread = eta * (W * W - 1) + ((inverse * symbols) / whole) * (symbols * symbols - 1);
  const b = spread / (3 * (eta * G) ** 2);
  const [low, step] = [1 - 2 / G, 1 / G];
  // How far the worst input lies from the middle of the outermost cell.
  const beyond = Math.min(delta * (1 - step), step);
  const t = 1 - step + beyond;
  return delta * ((low + 1) * t - low) + (step + beyond) * (step - beyond) + b;
}
