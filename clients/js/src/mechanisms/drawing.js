/** How a device draws from a law: integers only, in an order that every implementation shares.
 *
 * Passes over magnitudes take the same steps whatever the data are: no loop ends early.
 *
 * @typedef {import("../random/entropy.js").Entropy} Entropy
 */

import { HALF_STEPS, INPUT_STEPS } from "./laws.js";

/** The slot of a report that says nothing, ⊥. */
export const BOTTOM = -1;

/** A dimension by the law over the ranks of its magnitude; BOTTOM for ⊥. A uniform law does not
 * look at the magnitudes.
 * @param {import("./laws.js").RankLaw} law @param {() => Float32Array} magnitudes
 * @param {Entropy} entropy */
export function drawDimension(law, magnitudes, entropy) {
  if (law.bottom && entropy.below(law.total + law.bottom) >= law.total) return BOTTOM;
  if (!law.byRejection) {
    const rank = law.rankAt(entropy.below(law.total));
    return drawSharing(rank, magnitudes(), entropy);
  }
  const all = law.uniform ? null : magnitudes();
  for (;;) {
    const x = entropy.below(BigInt(law.d) * law.maximum);
    const j = Number(x / law.maximum);
    if (all === null) return j;
    const level = x % law.maximum;
    const pivot = all[j];
    let larger = 0;
    let equal = 0;
    for (let i = 0; i < all.length; i++) {
      larger += Number(all[i] > pivot);
      equal += Number(all[i] === pivot);
    }
    if (level < law.weight(larger + Number(entropy.below(BigInt(equal))))) return j;
  }
}

/** One of the entries whose magnitude is that of a rank, 0 the largest.
 *
 * Floats ≥ 0 are ordered as the integers of their bits: they are compared byte by byte from the
 * most significant, each by a histogram over all entries.
 * @param {number} rank @param {Float32Array} magnitudes @param {Entropy} entropy */
function drawSharing(rank, magnitudes, entropy) {
  const n = magnitudes.length;
  // Added 0 turns −0 into 0: the same number, and not the largest of all by its bits.
  const bits = new Uint32Array(magnitudes.map((magnitude) => magnitude + 0).buffer);
  const sharing = new Uint8Array(n).fill(1);
  for (let place = 24; place >= 0; place -= 8) {
    const counts = new Uint32Array(256);
    for (let i = 0; i < n; i++) counts[(bits[i] >>> place) & 255] += sharing[i];
    let digit = 255;
    while (rank >= counts[digit]) rank -= counts[digit--];
    for (let i = 0; i < n; i++) sharing[i] &= Number(((bits[i] >>> place) & 255) === digit);
  }
  let all = 0;
  for (let i = 0; i < n; i++) all += sharing[i];
  const pick = Number(entropy.below(BigInt(all)));
  let chosen = 0;
  let seen = 0;
  for (let i = 0; i < n; i++) {
    seen += sharing[i];
    chosen += Number(seen <= pick);
  }
  return chosen;
}

/** Dimensions drawn without replacement: each uniform among those not drawn before.
 * @param {number} d @param {number} picks @param {Entropy} entropy */
export function* drawDistinct(d, picks, entropy) {
  /** @type {number[]} */
  const drawn = [];
  for (let p = 0; p < picks; p++) {
    let j = Number(entropy.below(BigInt(d - p)));
    for (const earlier of drawn) j += Number(j >= earlier);
    drawn.push(j);
    drawn.sort((a, b) => a - b);
    yield j;
  }
}

/** A symbol by the law at t in [−1, 1].
 * @param {import("./laws.js").SymbolLaw} law @param {number} t @param {Entropy} entropy */
export function drawSymbol(law, t, entropy) {
  let which = 0;
  let offset = 0n;
  if (law.windows.length > 1) {
    let toss = entropy.below(law.tosses);
    while (toss >= law.coins[which]) {
      toss -= law.coins[which];
      offset += law.windows[which].symbols;
      which += 1;
    }
  }
  const window = law.windows[which];
  const scaled = BigInt(Math.floor((t + 1) * HALF_STEPS + 0.5)) * window.G;
  const up = entropy.below(INPUT_STEPS) < scaled % INPUT_STEPS;
  const cell = scaled / INPUT_STEPS + (up ? 1n : 0n);
  const x = entropy.below(window.total);
  const base = window.symbols * window.L;
  const inside = x < base ? x / window.L : cell + (x - base) / (window.H - window.L);
  return Number(offset + inside);
}
