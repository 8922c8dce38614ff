/** The bytes of a recipe: what devices must know of it. Integers are little-endian and unsigned.
 *
 * @typedef {object} Recipe
 * @property {string} solution
 * @property {Fraction} epsilon ε in total over all epochs
 * @property {number} dim
 * @property {number} epochs
 * @property {number} mu the selection's share of ε
 * @property {import("../mechanisms/selection.js").Top} k
 * @property {number} clip
 * @property {number} momentum
 * @property {number} ratio
 * @property {bigint} seed of public projections and codebooks
 * @property {number} learningRate
 * @property {number | null} rho the public radius; null for none
 * @property {number | null} words
 * @property {number | null} bases
 */

import { Fraction } from "../exact/fraction.js";
import { gcd } from "../exact/integers.js";
import { isCount } from "../mechanisms/selection.js";
import { canonical } from "../solutions/names.js";

const NAME_BYTES = 24;
export const RECIPE_BYTES = 121;
export const LONG_RECIPE_BYTES = RECIPE_BYTES + 4;
export const MOST_DIMENSION = 2 ** 32;
const MOST_EPSILON = new Fraction(500n);
const MOST_BASES = 2 ** 16;
const [COUNT, SHARE] = [0, 1];

/** The recipe of these bytes; null for any others. One recipe has one encoding, and nothing of its
 * size is built. @param {Uint8Array} data @returns {Recipe | null} */
export function decodeRecipe(data) {
  if (data.length !== RECIPE_BYTES && data.length !== LONG_RECIPE_BYTES) return null;
  const view = new DataView(data.buffer, data.byteOffset, data.length);
  const solution = nameOf(data.subarray(0, NAME_BYTES));
  const [numerator, denominator] = [view.getBigUint64(24, true), view.getBigUint64(32, true)];
  if (solution === null || gcd(numerator, denominator) !== 1n) return null;
  if (numerator === 0n || denominator === 0n) return null;
  const recipe = {
    solution,
    epsilon: new Fraction(numerator, denominator),
    dim: Number(view.getBigUint64(40, true)),
    epochs: view.getUint32(48, true),
    mu: view.getFloat64(52, true),
    k: topOf(view),
    clip: view.getFloat64(69, true),
    momentum: view.getFloat64(77, true),
    ratio: view.getFloat64(85, true),
    seed: view.getBigUint64(93, true),
    learningRate: view.getFloat64(101, true),
    rho: view.getBigUint64(109, true) === 0n ? null : view.getFloat64(109, true),
    words: view.getUint32(117, true) || null,
    bases: data.length > RECIPE_BYTES ? view.getUint32(RECIPE_BYTES, true) : null,
  };
  return isRecipe(recipe) ? recipe : null;
}

/** A known name in its own spelling, padded with zeros. @param {Uint8Array} field */
function nameOf(field) {
  const name = String.fromCharCode(...field).replace(/\0+$/, "");
  return canonical(name) === name ? name : null;
}

/** @param {DataView} view */
function topOf(view) {
  const kind = view.getUint8(60);
  if (kind === COUNT) return { count: Number(view.getBigUint64(61, true)) };
  return kind === SHARE ? { share: view.getFloat64(61, true) } : null;
}

/** @param {Omit<Recipe, "k"> & { k: Recipe["k"] | null }} recipe @returns {recipe is Recipe} */
function isRecipe(recipe) {
  const { k, dim } = recipe;
  if (k === null) return false;
  const top = isCount(k) ? k.count >= 1 && k.count <= dim : k.share > 0 && k.share <= 1;
  return (
    top &&
    recipe.epsilon.compare(MOST_EPSILON) <= 0 &&
    dim >= 1 &&
    dim <= MOST_DIMENSION &&
    recipe.epochs >= 1 &&
    recipe.mu >= 0 &&
    recipe.mu < 1 &&
    isPositive(recipe.clip) &&
    Number.isFinite(recipe.momentum) &&
    recipe.ratio > 0 &&
    recipe.ratio <= 1 &&
    isPositive(recipe.learningRate) &&
    (recipe.rho === null || isPositive(recipe.rho)) &&
    (recipe.bases === null || (recipe.bases >= 1 && recipe.bases <= MOST_BASES))
  );
}

/** @param {number} x */
function isPositive(x) {
  return Number.isFinite(x) && x > 0;
}
