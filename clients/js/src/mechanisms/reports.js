/** Mechanisms on a vector of M scores: what they cost, what they may say, and how they draw.
 *
 * @typedef {import("../random/entropy.js").Entropy} Entropy
 * @typedef {import("../exact/fraction.js").Fraction} Fraction
 *
 * What a mechanism may ask of a client's transformed update.
 * @typedef {object} Scores
 * @property {() => Float32Array} all the scores (M,) by which slots are ranked, finite
 * @property {(slot: number) => number} value what is to be reported at a slot
 * @property {() => Float64Array} values what is to be reported at every slot
 * @property {() => number} norm the norm of the update itself
 *
 * @typedef {{ slots: number[], symbols: number[] }} Drawn
 *
 * @typedef {object} Mechanism
 * @property {Fraction} lossRatio the largest ratio of probabilities of one report
 * @property {number} symbols how many symbols there are
 * @property {number} picks how many slots a report tells of
 * @property {boolean} abstains whether a report can be ⊥
 * @property {(scores: Scores, entropy: Entropy) => Drawn} draw one client's report
 */

import { Fraction as Ratio } from "../exact/fraction.js";
import { BOTTOM, drawDimension, drawDistinct, drawSymbol } from "./drawing.js";
import { HALF_STEPS, INPUT_STEPS } from "./laws.js";
import { UNIT, jointWeights, signedLaw } from "./one_symbol.js";

const [PLUS, MINUS] = [0, 1];
const NOTHING = { slots: [BOTTOM], symbols: [0] };

/** J: the right sign of each of the top k slots with weight e^ε, all else with weight 1. With a
 * radius the vector is first negated with probability ½ − ‖v‖/(2·radius).
 * @param {Fraction} epsilon @param {number} size @param {number | null} radius
 * @param {number} [k] the best one where not given
 * @returns {Mechanism} */
export function signedSampling(epsilon, size, radius, k) {
  const law = signedLaw(epsilon, size, k);
  return {
    lossRatio: /** @type {Fraction} */ (law.lossRatio()),
    symbols: 2,
    picks: 1,
    abstains: false,
    draw(scores, entropy) {
      const y = scores.all();
      let sign = 1;
      if (radius !== null) {
        const share = Math.min(1, scores.norm() / radius);
        const steps = BigInt(Math.floor((1 + share) * HALF_STEPS + 0.5));
        sign = entropy.below(INPUT_STEPS) < steps ? 1 : -1;
      }
      const signed = new Float32Array(2 * size);
      for (let j = 0; j < size; j++) {
        const score = sign * y[j];
        signed[j] = Math.max(score, 0);
        signed[size + j] = Math.max(-score, 0);
      }
      return atom(
        drawDimension(law, () => signed, entropy),
        size,
      );
    },
  };
}

/** Slot and sign of an atom 0 … 2M−1: the slots with +, then those with −.
 * @param {number} number @param {number} size */
function atom(number, size) {
  return { slots: [number % size], symbols: [number < size ? PLUS : MINUS] };
}

/** BR: the slot that a law over ranks chooses, and nothing else.
 * @param {import("./laws.js").RankLaw} law
 * @returns {Mechanism} */
export function choice(law) {
  const lossRatio = law.lossRatio();
  if (lossRatio === null) throw new RangeError("not private");
  return {
    ...{ lossRatio, symbols: 1, picks: 1, abstains: false },
    draw(scores, entropy) {
      return { slots: [drawDimension(law, () => scores.all(), entropy)], symbols: [0] };
    },
  };
}

/** UJ: P[(j, s)] = (1 + (e^ε − 1)·max(0, s·v_j))/Z, the rest of the mass ⊥.
 * @param {Fraction} epsilon @param {number} size @param {number} k @param {number} clip
 * @returns {Mechanism} */
export function unbiasedJoint(epsilon, size, k, clip) {
  const { low, high } = jointWeights(epsilon, k, size);
  const unit = BigInt(UNIT);
  const base = 2n * BigInt(size) * low * unit;
  const total = base + BigInt(k) * high * unit;
  return {
    lossRatio: new Ratio(high, low),
    symbols: 2,
    picks: 1,
    abstains: true,
    draw(scores, entropy) {
      const x = entropy.below(total);
      // All of this also where the report does not depend on it: the time must not tell.
      const values = scores.values();
      const units = unitEntries(values, k * UNIT, clip);
      const sum = units.reduce((all, one) => all + one, 0);
      const place = high > low ? Number((x - base) / (high - low)) : sum;
      let chosen = 0;
      let seen = 0;
      for (const entry of units) {
        seen += entry;
        chosen += Number(seen <= place);
      }
      if (x < base) return atom(Number(x / (low * unit)), size);
      if (chosen === size) return NOTHING;
      return { slots: [chosen], symbols: [values[chosen] > 0 ? PLUS : MINUS] };
    },
  };
}

/** The magnitudes as integers: |v_j|/clip in units, shortened to a sum of so many.
 * @param {Float64Array} values @param {number} most @param {number} clip */
function unitEntries(values, most, clip) {
  const units = values.map((value) => Math.min(UNIT, Math.floor((Math.abs(value) / clip) * UNIT)));
  const sum = units.reduce((all, one) => all + one, 0);
  const total = Math.max(most, sum);
  if (UNIT * most <= Number.MAX_SAFE_INTEGER)
    return units.map((u) => Math.floor((u * most) / total));
  return units.map((u) => Number((BigInt(u) * BigInt(most)) / BigInt(total)));
}

/** Select a slot by a law over ranks, report its value by one over symbols.
 * @param {import("./laws.js").RankLaw} selection @param {import("./laws.js").SymbolLaw} value
 * @param {number} clip
 * @returns {Mechanism} */
export function twoStage(selection, value, clip) {
  const chosen = selection.lossRatio();
  const told = value.lossRatio();
  if (chosen === null || told === null) throw new RangeError("not private");
  return {
    lossRatio: chosen.times(told),
    symbols: Number(value.symbols),
    picks: 1,
    abstains: selection.bottom > 0n,
    draw(scores, entropy) {
      const slot = drawDimension(selection, () => scores.all().map(Math.abs), entropy);
      if (slot === BOTTOM) return NOTHING;
      const symbol = drawSymbol(value, clipped(scores.value(slot), clip), entropy);
      return { slots: [slot], symbols: [symbol] };
    },
  };
}

/** So many slots at random, without replacement, each value by its own law.
 * @param {import("./laws.js").SymbolLaw} value @param {number} size @param {number} picks
 * @param {number} clip
 * @returns {Mechanism} */
export function flatPicks(value, size, picks, clip) {
  const told = value.lossRatio();
  if (told === null) throw new RangeError("not private");
  return {
    lossRatio: told.power(picks),
    symbols: Number(value.symbols),
    picks,
    abstains: false,
    draw(scores, entropy) {
      const [slots, symbols] = [/** @type {number[]} */ ([]), /** @type {number[]} */ ([])];
      for (const slot of drawDistinct(size, picks, entropy)) {
        slots.push(slot);
        symbols.push(drawSymbol(value, clipped(scores.value(slot), clip), entropy));
      }
      return { slots, symbols };
    },
  };
}

/** A value in [−1, 1]: clipped last of all, whatever was added to it before.
 * @param {number} value @param {number} clip */
function clipped(value, clip) {
  return Math.max(-clip, Math.min(clip, value)) / clip;
}
