/** Vectors of laws, of draws from them, and of what both ends derive from public parameters. */

import { expLower, logUpper } from "../../src/exact/exponential.js";
import { Fraction } from "../../src/exact/fraction.js";
import { BOTTOM, drawDimension, drawDistinct, drawSymbol } from "../../src/mechanisms/drawing.js";
import { jointWeights, signedLaw } from "../../src/mechanisms/one_symbol.js";
import * as selection from "../../src/mechanisms/selection.js";
import { symbolLaw } from "../../src/mechanisms/value.js";
import { PublicBits } from "../../src/random/philox.js";
import { defaultCodewords, solutionOf } from "../../src/solutions/solution.js";
import { blocksOf } from "../../src/solutions/blocks.js";
import { fresh, freshSizes, mixingsFor } from "../../src/solutions/fresh.js";
import {
  projection,
  randomDirections,
  rotated,
  rotationsFor,
  widthFor,
} from "../../src/solutions/transforms.js";
import { Words, exact, floats, hexOf, same, text } from "./reading.js";

const SELECTIONS = {
  EXP: selection.exponential,
  PE: selection.perturbedEncoding,
  PS: selection.perturbedSampling,
  "PE-published": selection.publishedPerturbedEncoding,
};

function lawFields(law) {
  const counts = law.counts ?? law.weights.length;
  return {
    weights: text(law.weights),
    counts: typeof counts === "number" ? new Array(counts).fill("1") : text(counts),
    bottom: String(law.bottom),
    total: String(law.total),
    by_rejection: law.byRejection,
  };
}

function sameLaw(law, one) {
  const { weights, counts, bottom, total, by_rejection } = one;
  same(lawFields(law), { weights, counts, bottom, total, by_rejection }, "law");
}

export const laws = {
  exp_lower: ({ x, times_2_128 }) => {
    const bound = expLower(exact(x));
    same(String(bound.times(1n << 128n)), times_2_128);
  },
  log_upper: ({ ratio, log }) => same(String(logUpper(exact(ratio))), log),
  budget: ({ epsilon, epochs, mu, per_report, selection: share, value }) => {
    const each = exact(epsilon).over(BigInt(epochs));
    const own = Fraction.decimal(mu).times(each);
    same([String(each), String(own), String(each.minus(own))], [per_report, share, value]);
  },
  flat_picks: ({ epsilon, d, picks }) => {
    const recipe = { ...RECIPE, solution: "PM", epsilon: exact(epsilon), dim: d };
    same(solutionOf(recipe, `picks ${epsilon} ${d}`).mechanism.picks, picks);
  },
  selection: (one) => {
    const law = SELECTIONS[one.mechanism](exact(one.epsilon), one.k ?? { count: 1 }, one.d);
    sameLaw(law, one);
  },
  value: ({ mechanism, epsilon, coins, windows, symbols }) => {
    const law = symbolLaw(mechanism, exact(epsilon));
    same(text(law.coins), coins, "coins");
    const got = law.windows.map(({ G, W, L, H, total }) => {
      return { G: Number(G), W: Number(W), L: String(L), H: String(H), total: String(total) };
    });
    same(got, windows, "windows");
    same(Number(law.symbols), symbols, "symbols");
  },
  J: (one) => {
    const law = signedLaw(exact(one.epsilon), one.slots);
    if (law.counts.length > 1) same(law.counts[0], one.top, "top");
    sameLaw(law, one);
  },
  UJ: ({ epsilon, d, k, top, L, H }) => {
    same(selection.countTop(k, d), top, "top");
    const { low, high } = jointWeights(exact(epsilon), top, d);
    same([String(low), String(high)], [L, H]);
  },
  rotations: ({ epsilon, dim, width, rotations }) => {
    same(widthFor(dim), width, "width");
    same(rotationsFor(exact(epsilon), dim), rotations, "rotations");
  },
  fresh: ({ epsilon, dim, share, codewords, top, factors }) => {
    same(freshSizes(exact(epsilon), dim), { share, codewords, raised: top, factors });
  },
  codewords: ({ dim, codewords }) => {
    same(defaultCodewords(dim), codewords);
  },
  blocks: (one) => {
    const blocks = blocksOf({ ...one, k: { count: one.k } });
    same([blocks.size, blocks.holding], [one.slots, one.top], "sizes");
    sameLaw(selection.thresholdLaw(exact(one.epsilon), one.top, one.slots), one);
  },
};

const RECIPE = {
  epochs: 1,
  mu: 0.1,
  k: { count: 1 },
  clip: 1,
  momentum: 0,
  ratio: 0.1,
  seed: 0n,
  learningRate: 1,
  rho: null,
  words: null,
  bases: null,
};

export const draws = {
  below: ({ n, words, value }) => {
    const entropy = new Words(words);
    same(String(entropy.below(BigInt(n))), value);
    entropy.end();
  },
  dimension: ({ mechanism, epsilon, top, vector_f32, words, draws: drawn, dimension }) => {
    const vector = floats(vector_f32, 4).map(Math.abs);
    const law = SELECTIONS[mechanism](exact(epsilon), { count: top }, vector.length);
    const entropy = new Words(words);
    const slot = drawDimension(law, () => vector, entropy);
    same(slot === BOTTOM ? null : slot, dimension);
    entropy.end(drawn);
  },
  symbol: ({ mechanism, epsilon, t_f64, words, draws: drawn, symbol }) => {
    const entropy = new Words(words);
    same(drawSymbol(symbolLaw(mechanism, exact(epsilon)), floats(t_f64, 8)[0], entropy), symbol);
    entropy.end(drawn);
  },
  distinct: ({ d, picks, words, draws: drawn, slots }) => {
    const entropy = new Words(words);
    same([...drawDistinct(d, picks, entropy)], slots);
    entropy.end(drawn);
  },
};

export const publics = {
  bits: ({ seed, purpose, words }) => {
    const bits = new PublicBits(BigInt(seed), purpose);
    const drawn = words.map(() => {
      bits.next();
      return ((BigInt(bits.high) << 32n) | BigInt(bits.low)).toString(16).padStart(16, "0");
    });
    same(drawn, words);
  },
  signs: () => {}, // a part of the scores
  hadamard: () => {},
  scores: (one) => {
    const { dim, seed, round, rotations, bases, basis, vector_f32, scores_f32 } = one;
    const transform = rotated(dim, BigInt(seed), rotations, bases);
    same(hexOf(transform.scores(floats(vector_f32, 4), round, basis)), scores_f32);
  },
  fresh: (one) => {
    const factors = mixingsFor(one.dim, one.top);
    const transform = fresh(one.dim, one.codewords, factors, BigInt(one.seed));
    same(transform.bases, one.bases, "bases");
    const scores = transform.scores(floats(one.vector_f32, 4), one.round, one.basis);
    same(hexOf(scores), one.scores_f32, "scores");
  },
  blocks: ({ dim, k, words, bases, slots, answers }) => {
    const blocks = blocksOf({ dim, k: { count: k }, words, bases });
    const some = new Set([0, 1, dim - 1, ...answers.flat().filter((x) => x < dim)].slice(0, 60));
    for (const answer of some) {
      const vector = Float32Array.from({ length: dim }, (_, i) => Number(i === answer));
      const held = new Map();
      for (const [i, slot] of slots.entries()) {
        const basis = Math.floor(slot / blocks.size);
        if (!held.has(basis)) held.set(basis, blocks.scores(vector, 0, basis));
        const wanted = Number(answers[i].includes(answer));
        same(held.get(basis)[slot % blocks.size], wanted, `answer ${answer} in slot ${slot}`);
      }
    }
  },
  directions: (one) => sameRows(randomDirections(one.dim, one.codewords, BigInt(one.seed)), one),
  projection: (one) => sameRows(projection(one.dim, one.rows_f32.length, BigInt(one.seed)), one),
};

/** The rows of a matrix, bit by bit, whatever their tolerance: by products with unit vectors. */
function sameRows(transform, { dim, rows_f32 }) {
  const columns = Array.from({ length: dim }, (_, j) => {
    return transform.scores(
      Float32Array.from({ length: dim }, (_unused, i) => Number(i === j)),
      0,
      0,
    );
  });
  rows_f32.forEach((row, i) => same(hexOf(columns.map((column) => column[i])), row, `row ${i}`));
}
