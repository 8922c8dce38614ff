/** The true privacy loss of Perturbed Encoding, and its calibration.
 *
 * With f(x) = (1−p+px)^(k−1) (p+(1−p)x)^(d−k−1) on [0, 1] the loss is
 * ε₀ + ln(1 + (2p−1) ∫(1−x) f dx / ∫(1−p+px) f dx), by a quadrature of 96 nodes.
 */

import { BigFloat, ONE, ZERO } from "../exact/bigfloat.js";

const NODES = 96;
/** Beyond y = DECAY/rate the integrand is below e^−60 of its peak. */
const DECAY = BigFloat.of(60n);
const PRECISE = BigFloat.of(10n).power(30);
const MOST_STEPS = 100;

/** The loss of PE whose bits are flipped at ε₀, with k of d top dimensions.
 * @param {number} flip @param {number} k @param {number} d */
export function trueEpsilon(flip, k, d) {
  return trueLoss(BigFloat.of(flip), k, d).toNumber();
}

/** The ε₀ at which the bits must be flipped for a true loss of ε.
 * @param {number} epsilon @param {number} k @param {number} d */
export function calibratedEpsilon(epsilon, k, d) {
  if (k === d || epsilon === 0) return epsilon;
  const wanted = BigFloat.of(epsilon);
  let before = wanted.over(BigFloat.of(2n));
  let here = wanted;
  let offBefore = trueLoss(before, k, d).minus(wanted);
  let off = trueLoss(here, k, d).minus(wanted);
  for (let step = 0; step < MOST_STEPS; step++) {
    const moved = here.minus(before).abs();
    if (moved.times(PRECISE).compare(wanted) <= 0 || off.compare(offBefore) === 0) break;
    const next = here.minus(off.times(here.minus(before)).over(off.minus(offBefore)));
    [before, here] = [here, next];
    [offBefore, off] = [off, trueLoss(here, k, d).minus(wanted)];
  }
  return here.toNumber();
}

/** P[⊥] = (1−p)^k p^(d−k): the same for every input.
 * @param {number} flip @param {number} k @param {number} d */
export function bottomProbability(flip, k, d) {
  const [p, q] = chances(BigFloat.of(flip));
  return q
    .power(k)
    .times(p.power(d - k))
    .toNumber();
}

/** p, the probability that a bit stays, and q = 1 − p. @param {BigFloat} flip */
function chances(flip) {
  const odds = flip.negated().exp();
  const all = ONE.plus(odds);
  return [ONE.over(all), odds.over(all)];
}

/** @param {BigFloat} flip @param {number} k @param {number} d */
function trueLoss(flip, k, d) {
  if (k === d) return ZERO;
  const [p, q] = chances(flip);
  const rate = times(p, k - 1).plus(times(q, d - k - 1));
  const short = rate.sign() > 0 && DECAY.compare(rate) < 0;
  const reach = short ? DECAY.over(rate) : ONE;
  let gap = ZERO;
  let norm = ZERO;
  for (const { node, weight } of quadrature()) {
    const y = reach.times(node);
    const stays = ONE.minus(p.times(y));
    const f = weight.times(stays.power(k - 1)).times(ONE.minus(q.times(y)).power(d - k - 1));
    gap = gap.plus(y.times(f));
    norm = norm.plus(stays.times(f));
  }
  return flip.plus(ONE.plus(p.minus(q).times(gap).over(norm)).ln());
}

/** @param {BigFloat} x @param {number} n */
function times(x, n) {
  return x.times(BigFloat.of(BigInt(n)));
}

/** @typedef {{ node: BigFloat, weight: BigFloat }} Rule */
/** @type {Rule[] | null} */
let rules = null;

/** Nodes and weights of Gauss and Legendre on [0, 1], by Newton's method. */
function quadrature() {
  if (rules !== null) return rules;
  const two = BigFloat.of(2n);
  rules = [];
  for (let number = 1; number <= NODES / 2; number++) {
    let x = BigFloat.of(Math.cos(((4 * number - 1) * Math.PI) / (4 * NODES + 2)));
    let slope = ZERO;
    for (let step = ONE; step.abs().times(PRECISE).compare(ONE) > 0;) {
      const here = legendre(x);
      step = here.value.over(here.slope);
      x = x.minus(step);
    }
    slope = legendre(x).slope;
    const weight = ONE.over(ONE.minus(x.times(x)).times(slope).times(slope));
    rules.push({ node: ONE.minus(x).over(two), weight }, { node: ONE.plus(x).over(two), weight });
  }
  return rules;
}

/** The Legendre polynomial of the degree NODES at x, and its derivative. @param {BigFloat} x */
function legendre(x) {
  let before = ONE;
  let here = x;
  for (let n = 1; n < NODES; n++) {
    const next = times(x.times(here), 2 * n + 1).minus(times(before, n));
    [before, here] = [here, next.over(BigFloat.of(BigInt(n + 1)))];
  }
  const slope = times(x.times(here).minus(before), NODES).over(x.times(x).minus(ONE));
  return { value: here, slope };
}
