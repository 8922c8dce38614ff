/** Blocks of answers: a report names a set of answers, more likely one that holds the client's own.
 *
 * Every two answers share equally many blocks, so a server's estimate of every share is unbiased. The
 * blocks are all subsets of k of the answers or, for a prime v, sets of residues that are made of the
 * classes of the indices modulo e.
 *
 * @typedef {import("./transforms.js").Transform & { holding: number }} Blocks with `holding`, how many
 *   blocks of a basis hold an answer
 */

import { isCount } from "../mechanisms/selection.js";

export const MOST_ANSWERS = 2 ** 16;
/** The most blocks that are all subsets of more than one answer. */
const MOST_SUBSETS = 2 ** 13;
/** The most members that the blocks of shift 0 of all bases have together. */
const MOST_MEMBERS = 2 ** 20;

/** The blocks of a recipe; throws where its numbers do not give any.
 * @param {import("../wire/recipe.js").Recipe} recipe
 * @returns {Blocks} */
export function blocksOf({ dim, k, words, bases }) {
  const taken = isCount(k) ? k.count : 0;
  wanted(dim >= 2 && dim <= MOST_ANSWERS && taken >= 1);
  if (bases === null) return subsets(dim, taken);
  const points = words ?? 0;
  wanted(points >= Math.max(3, dim) && points <= 2 * MOST_ANSWERS && isPrime(points));
  wanted(bases >= 2 && (points - 1) % bases === 0);
  wanted(taken < bases && taken * (points - 1) <= MOST_MEMBERS);
  return cyclotomic(dim, taken, points, bases);
}

/** @param {boolean} condition */
function wanted(condition) {
  if (!condition) throw new RangeError("no blocks of answers");
}

/** All subsets of k answers, in lexicographic order. @param {number} dim @param {number} k
 * @returns {Blocks} */
function subsets(dim, k) {
  wanted(k < dim);
  const size = k === 1 ? dim : choose(dim, k);
  wanted(k === 1 || size <= MOST_SUBSETS);
  const holding = (size * k) / dim;
  return scored(dim, size, 1, holding, (held, answer) => {
    if (k === 1) {
      for (let block = 0; block < size; block++) held[block] = Number(block === answer);
      return;
    }
    const members = Int32Array.from({ length: k }, (_, i) => i);
    for (let block = 0; block < size; block++) {
      let found = 0;
      for (let i = 0; i < k; i++) found |= Number(members[i] === answer);
      held[block] = found;
      advance(members, dim);
    }
  });
}

/** How many subsets of k of n there are; beyond the limit, some number that is. @param {number} n
 * @param {number} k */
function choose(n, k) {
  const few = Math.min(k, n - k);
  let count = 1;
  for (let i = 1; i <= few && count <= MOST_SUBSETS; i++) count = (count * (n - few + i)) / i;
  return count;
}

/** The next subset; the last one stays. @param {Int32Array} members @param {number} dim */
function advance(members, dim) {
  let place = members.length - 1;
  while (place >= 0 && members[place] === dim - members.length + place) place -= 1;
  if (place < 0) return;
  members[place] += 1;
  for (let i = place + 1; i < members.length; i++) members[i] = members[i - 1] + 1;
}

/** For each shift c the residues x whose index of x − c is one of u in a row modulo e, from the number of
 * the basis on. @param {number} dim @param {number} taken @param {number} points
 * @param {number} classes
 * @returns {Blocks} */
function cyclotomic(dim, taken, points, classes) {
  const holding = (taken * (points - 1)) / classes;
  return scored(dim, points, classes, holding, (held, answer, basis) => {
    const index = indicesOf(points, classes);
    for (let shift = 0; shift < points; shift++) {
      const x = (answer - shift + points) % points;
      const place = (index[x] - basis + classes) % classes;
      held[shift] = Number(x !== 0) & Number(place < taken);
    }
  });
}

/** @param {number} n */
function isPrime(n) {
  for (let p = 2; p * p <= n; p++) if (n % p === 0) return false;
  return n > 1;
}

/** The last indices that were computed: a device needs those of one prime at a time.
 * @type {{ points: number, classes: number, index: Int32Array } | null} */
let known = null;

/** The index of each residue modulo `classes`, to the smallest primitive root. @param {number} points
 * @param {number} classes */
function indicesOf(points, classes) {
  if (known?.points !== points || known.classes !== classes) {
    const index = new Int32Array(points);
    const root = primitiveRoot(points);
    for (let i = 0, x = 1; i < points - 1; i++, x = (x * root) % points) index[x] = i % classes;
    known = { points, classes, index };
  }
  return known.index;
}

/** The smallest number whose powers are all residues but 0. @param {number} points */
function primitiveRoot(points) {
  for (let root = 2; ; root++) {
    let order = 1;
    for (let x = root; x !== 1; x = (x * root) % points) order += 1;
    if (order === points - 1) return root;
  }
}

/** @param {number} dim @param {number} size @param {number} bases @param {number} holding
 * @param {(held: Float32Array, answer: number, basis: number) => void} hold
 * @returns {Blocks} */
function scored(dim, size, bases, holding, hold) {
  return {
    ...{ size, bases, holding, entries: 0 },
    /** The largest entry at each block that holds it; an update without one above 0 is no answer. */
    scores(vector, _, basis) {
      let answer = 0;
      let largest = vector[0];
      for (let i = 1; i < dim; i++) {
        const above = vector[i] > largest;
        answer = above ? i : answer;
        largest = above ? vector[i] : largest;
      }
      const scores = new Float32Array(size);
      hold(scores, answer, basis);
      const score = Math.max(largest, 0);
      for (let block = 0; block < size; block++) scores[block] *= score;
      return scores;
    },
    value() {
      throw new RangeError("blocks are reported without a value");
    },
  };
}
