/** Draws on the edge, which random words hardly ever meet, and small laws by all their draws. */

import assert from "node:assert/strict";
import test from "node:test";

import { Fraction, ZERO } from "../src/exact/fraction.js";
import { BOTTOM, drawDimension, drawSymbol } from "../src/mechanisms/drawing.js";
import { RankLaw, SymbolLaw, Window } from "../src/mechanisms/laws.js";
import { UNIT, jointWeights, signedLaw } from "../src/mechanisms/one_symbol.js";
import { signedSampling, unbiasedJoint } from "../src/mechanisms/reports.js";
import { solutionOf } from "../src/solutions/solution.js";

/** Integers as they are given, one after another. */
function given(...values) {
  const rest = values.map(BigInt);
  return {
    below(n) {
      const value = rest.shift();
      assert.ok(value !== undefined && value >= 0n && value < n, `${value} of ${n}`);
      return value;
    },
  };
}

/** The exact probability of each result, over all integers that are drawn; what takes more than
 * `most` of them is left out, and the rest is scaled up: attempts are alike. */
function lawOf(draw, most) {
  const law = new Map();
  let all = ZERO;
  const explore = (values, share) => {
    let wanted = null;
    const rest = [...values];
    const entropy = {
      below(n) {
        if (rest.length) return rest.shift();
        wanted = n;
        throw new RangeError("more");
      },
    };
    let result;
    try {
      result = draw(entropy);
    } catch (error) {
      if (wanted === null) throw error;
      if (values.length === most) return;
      const each = share.over(wanted);
      for (let value = 0n; value < wanted; value++) explore([...values, value], each);
      return;
    }
    law.set(result, (law.get(result) ?? ZERO).plus(share));
    all = all.plus(share);
  };
  explore([], new Fraction(1n));
  return new Map([...law].map(([result, share]) => [result, String(share.over(all))]).sort());
}

test("a dimension is drawn by the law, ties shared, by rejection", () => {
  const law = new RankLaw([3n, 1n], [1, 3]);
  assert.ok(law.byRejection);
  const drawn = (...vector) =>
    lawOf((entropy) => drawDimension(law, () => Float32Array.from(vector), entropy), 2);
  assert.deepEqual([...drawn(1, 4, 2, 3).values()], ["1/6", "1/2", "1/6", "1/6"]);
  assert.deepEqual([...drawn(5, 5, 0, 0).values()], ["1/3", "1/3", "1/6", "1/6"]);
  assert.deepEqual([...drawn(7, 7, 7, 7).values()], ["1/4", "1/4", "1/4", "1/4"]);
});

test("a dimension is drawn by the law, ties shared, by rank", () => {
  const law = new RankLaw([64n, 2n, 1n], [1, 1, 2]);
  const wide = new RankLaw([64n, 1n], [1, 60]);
  assert.ok(law.byRejection && !wide.byRejection);
  const vector = new Float32Array(61).fill(0.25);
  vector[17] = -0;
  vector[40] = 1;
  const drawn = lawOf((entropy) => drawDimension(wide, () => vector, entropy), 2);
  assert.equal(drawn.get(40), "16/31");
  assert.equal(drawn.get(17), "1/124");
  assert.equal(drawn.size, 61);
});

test("⊥ has a weight of its own", () => {
  const law = new RankLaw([100n, 1n], [1, 19], 17n);
  assert.ok(!law.byRejection);
  const vector = Float32Array.from({ length: 20 }, (_, i) => i % 17);
  const drawn = lawOf((entropy) => drawDimension(law, () => vector, entropy), 3);
  assert.equal(drawn.get(BOTTOM), "1/8");
  assert.equal(drawn.get(16), "25/34");
  assert.equal(drawn.get(0), "1/136");
});

test("a table without runs", () => {
  const law = new RankLaw(BigInt64Array.of(4n, 2n, 1n));
  const ranks = [0n, 3n, 4n, 5n, 6n].map((position) => law.rankAt(position));
  assert.deepEqual(ranks, [0, 0, 1, 1, 2]);
});

test("which way a law is drawn is decided by the expected attempts, sixteen included", () => {
  assert.ok(new RankLaw([16n, 0n], [1, 15]).byRejection);
  assert.ok(!new RankLaw([16n, 0n], [1, 16]).byRejection);
});

test("a symbol is drawn by the law of its window", () => {
  const law = new SymbolLaw([new Window(2n, 1n, 1n, 3n), new Window(1n, 1n, 1n, 2n)], [1n, 2n]);
  // Far from a cell's border the rounding of t is decided by the first draw alone.
  const drawn = (t, half) =>
    lawOf((entropy) => {
      const rounding = { below: (n) => (n === 2n ** 31n ? half : entropy.below(n)) };
      return drawSymbol(law, t, rounding);
    }, 2);
  assert.deepEqual(Object.fromEntries(drawn(-1, 0n)), {
    ...{ 0: "1/5", 1: "1/15", 2: "1/15", 3: "4/9", 4: "2/9" },
  });
  assert.equal(drawn(1, 0n).get(2), "1/5");
  assert.equal(drawn(1, 0n).get(4), "4/9");
});

test("a value is rounded up if the draw is below its remainder", () => {
  const law = new SymbolLaw([new Window(1n, 1n, 1n, 3n)]);
  const steps = 2 ** 30 + 5; // of t a little above 0
  const t = 5 / 2 ** 30;
  assert.equal(drawSymbol(law, t, given(steps - 1, 2)), 1);
  assert.equal(drawSymbol(law, t, given(steps, 2)), 0);
});

test("a vector is negated if the draw is not below its steps", () => {
  const mechanism = signedSampling(new Fraction(1n), 1, 4);
  const scores = { all: () => Float32Array.of(1), norm: () => 1 };
  const steps = 1.25 * 2 ** 30;
  const { maximum, minimum } = signedLaw(new Fraction(1n), 1);
  // The atom + is accepted at the level of the lesser weight only if it ranks first; then − is tried.
  const drawn = (toss) => mechanism.draw(scores, given(toss, minimum, 0, maximum, 0)).symbols[0];
  assert.deepEqual([drawn(steps - 1), drawn(steps)], [0, 1]);
});

test("momentum is added in double precision", () => {
  const recipe = {
    ...{ solution: "PS-Duchi", epsilon: new Fraction(2n), dim: 1, epochs: 1, mu: 0.5 },
    ...{ k: { count: 1 }, clip: 1, momentum: 2 ** -26, ratio: 0.1, seed: 0n, learningRate: 1 },
    ...{ rho: null, words: null, bases: null },
  };
  const solution = solutionOf(recipe, "momentum");
  const [residual, gradient] = [Float32Array.of(0.25), Float32Array.of(0.25)];
  const told = 0.5 + 2 ** -28; // in singles it would be 0.5
  const steps = Math.floor((1 + told) * 2 ** 30 + 0.5);
  assert.notEqual(steps, 1.5 * 2 ** 30);
  const symbolOf = (draw) => {
    const entropy = {
      below: (n) => (n === 2n ** 31n ? BigInt(draw) : n > 2n ** 31n ? n - 1n : 0n),
    };
    return solution.encode(gradient.slice(), residual, 0, entropy).symbols[0];
  };
  assert.deepEqual([symbolOf(steps - 1), symbolOf(steps)], [1, 0]);
});

test("UJ does the same work whatever its report depends on", () => {
  const [size, k, epsilon] = [40, 2, new Fraction(1n)];
  const { low, high } = jointWeights(epsilon, k, size);
  const base = 2n * BigInt(size) * low * BigInt(UNIT);
  const total = base + BigInt(k) * high * BigInt(UNIT);
  const mechanism = unbiasedJoint(epsilon, size, k, 1);
  /** Numbers that note what is computed from them. */
  let noted = [];
  class Counted extends Float64Array {
    map(work) {
      noted.push("map", this.length);
      return super.map(work);
    }
    reduce(...given) {
      noted.push("reduce", this.length);
      return super.reduce(...given);
    }
    [Symbol.iterator]() {
      noted.push("each", this.length);
      return super[Symbol.iterator]();
    }
  }
  const kinds = new Set();
  const all = new Set();
  for (const at of [() => 0, () => 0.01, (j) => j / 20 - 1, () => 1e300]) {
    for (const x of [0n, base - 1n, base, (base + total) / 2n, total - 1n]) {
      const values = Counted.from({ length: size }, (_, j) => at(j));
      noted = [];
      const { slots } = mechanism.draw({ values: () => values }, given(x));
      kinds.add(`${slots[0] === BOTTOM} ${x < base}`);
      all.add(JSON.stringify(noted));
    }
  }
  assert.deepEqual([...kinds].sort(), ["false false", "false true", "true false"]);
  assert.equal(all.size, 1);
  assert.ok([...all][0].length > 30);
});
