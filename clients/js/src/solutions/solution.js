/** A solution: from a client's update to its report, composed from a recipe.
 *
 * @typedef {import("../wire/recipe.js").Recipe} Recipe
 * @typedef {import("./transforms.js").Vector} Vector
 * @typedef {import("../random/entropy.js").Entropy} Entropy
 */

import { exceedsExp, logUpper } from "../exact/exponential.js";
import { Fraction } from "../exact/fraction.js";
import { BOTTOM } from "../mechanisms/drawing.js";
import {
  choice,
  flatPicks,
  signedSampling,
  twoStage,
  unbiasedJoint,
} from "../mechanisms/reports.js";
import {
  countTop,
  exponential,
  perturbedEncoding,
  perturbedSampling,
  publishedPerturbedEncoding,
  thresholdLaw,
} from "../mechanisms/selection.js";
import { symbolLaw } from "../mechanisms/value.js";
import { blocksOf } from "./blocks.js";
import { fresh, freshSizes } from "./fresh.js";
import { PRIVATE, UNSCALED, isPrivate, isQuestion, stagesOf } from "./names.js";
import {
  coordinates,
  projection,
  randomDirections,
  rotated,
  rotationsFor,
  widthFor,
} from "./transforms.js";

/** Slots that the four bytes of a report can tell apart. */
const MOST_SLOTS = 2 ** 32;
/** Entries of a public projection or codebook that a device is asked to hold at most. */
const MOST_PROJECTED = 2 ** 24;
const LARGEST = 3.4028234663852886e38;
const LARGEST_DOUBLE = Number.MAX_VALUE;

const SELECTIONS = {
  EXP: exponential,
  PE: perturbedEncoding,
  PS: perturbedSampling,
  "PE-published": publishedPerturbedEncoding,
};

export class Solution {
  /** @param {Recipe} recipe @param {import("./transforms.js").Transform} transform
   * @param {import("../mechanisms/reports.js").Mechanism} mechanism
   * @param {{ accumulates?: boolean, momentum?: number, rateInside?: boolean }} [feedback] */
  constructor(recipe, transform, mechanism, feedback = {}) {
    this.dim = recipe.dim;
    this.transform = transform;
    this.mechanism = mechanism;
    /** Whether a client keeps what it did not send, for later epochs. */
    this.accumulates = feedback.accumulates ?? false;
    this.momentum = feedback.momentum ?? 0;
    /** Whether clients report on the learning rate times their update (…-O). */
    this.rateInside = feedback.rateInside ?? false;
    /** What one report may cost. */
    this.budget = recipe.epsilon.over(BigInt(recipe.epochs));
    this.slots = transform.bases * transform.size;
    /** What a ledger charges for one report: a rational proved to be at least its exact ε. */
    this.charge = chargeOf(mechanism.lossRatio, this.budget);
  }

  /** A client's report and the residual that it keeps.
   * @param {Float32Array} update @param {Float32Array} residual @param {number} round
   * @param {Entropy} entropy */
  encode(update, residual, round, entropy) {
    const ranked = this.#accumulated(residual, update);
    const reported = this.#told(residual, ranked);
    const { transform } = this;
    const basis = transform.bases > 1 ? Number(entropy.below(BigInt(transform.bases))) : 0;
    const drawn = this.mechanism.draw(
      {
        all: () => finiteScores(transform.scores(ranked, round, basis)),
        value: (slot) => finite(transform.value(reported, slot)),
        values: () =>
          Float64Array.from({ length: transform.size }, (_, slot) => {
            return finite(transform.value(reported, slot));
          }),
        norm: () => norm(ranked),
      },
      entropy,
    );
    if (this.accumulates) for (const slot of drawn.slots) if (slot !== BOTTOM) ranked[slot] = 0;
    const moved = drawn.slots.map((slot) =>
      slot === BOTTOM ? slot : slot + basis * transform.size,
    );
    return { slots: moved, symbols: drawn.symbols, kept: ranked };
  }

  /** What is ranked, finite also where the sum overflows: whether a client answers must not tell.
   * @param {Float32Array} residual @param {Float32Array} update */
  #accumulated(residual, update) {
    if (!this.accumulates) return update;
    return finiteScores(update.map((entry, i) => residual[i] + entry));
  }

  /** What is reported at a slot, before it is clipped: with momentum in double precision.
   * @param {Float32Array} residual @param {Float32Array} ranked
   * @returns {Vector} */
  #told(residual, ranked) {
    if (!this.accumulates || this.momentum === 0) return ranked;
    return Float64Array.from(ranked, (entry, i) => entry + this.momentum * residual[i]);
  }
}

/** The budget where the report nearly uses it up; less where the law loses less, and more where it
 * loses more than it was allowed. @param {Fraction} ratio @param {Fraction} budget */
function chargeOf(ratio, budget) {
  const proved = logUpper(ratio);
  const within = !exceedsExp(ratio, budget);
  return within && budget.compare(proved) < 0 ? budget : proved;
}

/** @type {Map<string, Solution>} */
const built = new Map();
const MOST_BUILT = 16;

/** The solution of a recipe that devices can be asked for; throws where its parameters do not go
 * together, or where it is larger than a device can hold.
 * @param {Recipe} recipe @param {string} key */
export function solutionOf(recipe, key) {
  const known = built.get(key);
  if (known !== undefined) return known;
  const solution = compose(recipe);
  if (built.size >= MOST_BUILT) built.delete(/** @type {string} */ (built.keys().next().value));
  built.set(key, solution);
  return solution;
}

/** @param {Recipe} recipe */
function compose(recipe) {
  const { solution: name, dim, clip, seed } = recipe;
  if (!isPrivate(name))
    throw new RangeError(`not a private solution: one of ${PRIVATE.join(", ")}`);
  const epsilon = recipe.epsilon.over(BigInt(recipe.epochs));
  const stages = stagesOf(name);
  if (stages !== null) return twoStages(recipe, stages, epsilon);
  const plain = coordinates(dim);
  if (name === "UJ") {
    return new Solution(recipe, plain, unbiasedJoint(epsilon, dim, countTop(recipe.k, dim), clip));
  }
  if (name === "J" || name === "RJ" || name === "RC") {
    const transform = name === "J" ? plain : sized(directions(name, recipe, epsilon));
    const mechanism = signedSampling(epsilon, transform.size, recipe.rho);
    return new Solution(recipe, transform, mechanism);
  }
  if (isQuestion(name)) {
    const blocks = blocksOf(recipe);
    const law = thresholdLaw(epsilon, blocks.holding, blocks.size);
    return new Solution(recipe, sized(blocks), choice(law));
  }
  if (name === "FJ") {
    const { codewords, raised, factors } = freshSizes(epsilon, dim);
    const mechanism = signedSampling(epsilon, codewords, recipe.rho, raised);
    return new Solution(recipe, fresh(dim, codewords, factors, seed), mechanism);
  }
  if (name.endsWith("-RP")) {
    const share = Fraction.decimal(recipe.ratio).times(BigInt(dim)).floor();
    const transform = sized(projection(dim, Math.max(1, Number(share)), seed));
    const value = symbolLaw(name.slice(0, -"-RP".length), epsilon);
    return new Solution(recipe, transform, flatPicks(value, transform.size, 1, clip));
  }
  const picks = flatCount(epsilon, dim);
  const value = symbolLaw(
    name.startsWith(UNSCALED) ? name.slice(UNSCALED.length) : name,
    epsilon.over(BigInt(picks)),
  );
  return new Solution(recipe, plain, flatPicks(value, dim, picks, clip));
}

/** @param {string} name @param {Recipe} recipe @param {Fraction} epsilon */
function directions(name, { dim, seed, bases, words }, epsilon) {
  if (name === "RJ") {
    const rotations = bases === null ? 1 : rotationsFor(epsilon, dim);
    return rotated(dim, seed, rotations, bases ?? 1);
  }
  return randomDirections(dim, words ?? defaultCodewords(dim), seed);
}

/** M of RC: the power of two at 8·d or above, at most 2^13. @param {number} dim */
export function defaultCodewords(dim) {
  return Math.min(2 ** 13, widthFor(8 * dim));
}

/** How many dimensions a flat report draws: max(1, min(d, ⌊ε/2.5⌋)). @param {Fraction} epsilon
 * @param {number} dim */
function flatCount(epsilon, dim) {
  const count = Number(epsilon.over(new Fraction(5n, 2n)).floor());
  return Math.max(1, Math.min(dim, count));
}

/** @param {Recipe} recipe @param {NonNullable<ReturnType<typeof stagesOf>>} stages
 * @param {Fraction} epsilon */
function twoStages(recipe, stages, epsilon) {
  const { dim, clip, k, mu, momentum } = recipe;
  // The decimal that was written: μ = 0.1 of ε′ = 2 is 0.2.
  const share = Fraction.decimal(mu).times(epsilon);
  const law = SELECTIONS[/** @type {keyof typeof SELECTIONS} */ (stages.selection)](share, k, dim);
  const value = symbolLaw(stages.value, stages.control ? epsilon : epsilon.minus(share));
  const feedback = { accumulates: true, momentum, rateInside: stages.rateInside };
  return new Solution(recipe, coordinates(dim), twoStage(law, value, clip), feedback);
}

/** A transform that a device can hold and a report can speak of.
 * @param {import("./transforms.js").Transform} transform */
function sized(transform) {
  const slots = transform.bases * transform.size;
  if (transform.entries > MOST_PROJECTED || slots > MOST_SLOTS) {
    throw new RangeError("more than a device can hold");
  }
  return transform;
}

/** Scores without NaN and infinities, in place. @param {Float32Array} scores */
function finiteScores(scores) {
  for (let i = 0; i < scores.length; i++) {
    const score = scores[i];
    scores[i] = score === score ? Math.max(-LARGEST, Math.min(LARGEST, score)) : 0;
  }
  return scores;
}

/** @param {number} value */
function finite(value) {
  return value === value ? Math.max(-LARGEST_DOUBLE, Math.min(LARGEST_DOUBLE, value)) : 0;
}

/** ‖vector‖, in double precision. @param {Float32Array} vector */
function norm(vector) {
  let square = 0;
  for (let i = 0; i < vector.length; i++) square += vector[i] * vector[i];
  return Math.sqrt(square);
}
