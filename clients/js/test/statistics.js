/** Reports of clients as their owners have them, counted: for Node and for a page. */

import { Fraction } from "../src/exact/fraction.js";
import { signedLaw } from "../src/mechanisms/one_symbol.js";
import { requestOf } from "./support.js";

/** Σ (count − expected)²/expected. */
export function chiSquare(counts, law) {
  const all = counts.reduce((sum, count) => sum + count, 0);
  return counts.reduce((sum, count, i) => sum + (count - all * law[i]) ** 2 / (all * law[i]), 0);
}

/** Reports of J at ε = 1 on three entries, by the whole client: how often each signed entry was
 * told, and the exact probabilities. */
export async function reportsOfJ(Client, storeOf, reports) {
  const policy = { lifetime: 100, per_report: 1, solutions: ["J"], dimensions: [3] };
  const vector = [0.5, -2, 0.1]; // longer than the radius: never negated
  const counts = new Array(6).fill(0);
  let client = null;
  for (let made = 0; made < reports; made++) {
    if (made % 100 === 0) client = await Client.open(policy, storeOf(made), { create: true });
    const round = made % 100;
    const recipe = { solution: "J", epsilon: [100n, 1n], dim: 3, epochs: 100, epoch: round, round };
    const bytes = await client.answer(requestOf(recipe), new Float32Array(3), vector);
    const view = new DataView(bytes.buffer);
    counts[view.getUint32(8, true) + 3 * view.getUint32(12, true)] += 1;
  }
  // The signed entries by rank: −2 at the second, 0.5 at the first, 0.1 at the third, then the ties.
  const weights = signedLaw(new Fraction(1n), 3);
  const share = (rank) => Number(weights.weight(rank)) / Number(weights.total);
  const rest = (share(3) + share(4) + share(5)) / 3;
  return { counts, law: [share(1), rest, share(2), rest, share(0), rest] };
}
