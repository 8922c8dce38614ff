/** A request in words and numbers that a person can be shown before anything is answered. */

import { solutionOf } from "./solutions/solution.js";
import { toHex } from "./hash.js";
import { Refused } from "./device/refusal.js";
import { decodeRequest } from "./wire/request.js";

/** @typedef {object} Facts
 * @property {number} version
 * @property {string} run in hexadecimal digits
 * @property {number} epoch
 * @property {number} round
 * @property {string} purpose what the server says it asks for; empty where it says nothing
 * @property {string} recipient who gets what is learnt, by what the server says
 * @property {import("./wire/recipe.js").Recipe} recipe
 * @property {string} solution
 * @property {number} dim entries of an update
 * @property {import("./exact/fraction.js").Fraction} epsilon of the whole run, one report an epoch
 * @property {number} epochs
 * @property {import("./exact/fraction.js").Fraction} charge what one report costs, exactly
 * @property {number} reportBytes the length of a report
 * @property {number} slots of which a report names one
 * @property {number} symbols that it can say of a slot
 * @property {boolean} canBeNothing whether a report may say nothing (⊥)
 */

/** What a request says and costs. Throws `Refused` for bytes that no device answers.
 * @param {Uint8Array | ArrayBuffer} bytes
 * @returns {Facts} */
export function readRequest(bytes) {
  const request = decodeRequest(bytes);
  if (request === "version") throw new Refused("VERSION");
  if (request === "malformed") throw new Refused("MALFORMED");
  const { version, run, epoch, round, intent, recipe } = request;
  let solution;
  try {
    solution = solutionOf(recipe, toHex(request.recipeBytes));
  } catch {
    throw new Refused("MALFORMED");
  }
  const { solution: name, dim, epsilon, epochs } = recipe;
  const { picks, symbols, abstains } = solution.mechanism;
  return {
    ...{ version, run: toHex(run), epoch, round, ...intent, recipe },
    ...{ solution: name, dim, epsilon, epochs, charge: solution.charge },
    ...{ reportBytes: 8 + 8 * picks, slots: solution.slots, symbols, canBeNothing: abstains },
  };
}
