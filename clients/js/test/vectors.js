/** The test vectors of every language, case by case: the same checks in Node and in a page. */

import { replaceSurroundings, Client } from "../src/device/client.js";
import { Policy } from "../src/device/policy.js";
import { Refused } from "../src/device/refusal.js";
import { added } from "../src/device/spending.js";
import { evaluated, saturated } from "../src/device/updates.js";
import { exceedsExp, expLower, logUpper } from "../src/exact/exponential.js";
import { Fraction } from "../src/exact/fraction.js";
import { fromHex, toHex } from "../src/hash.js";
import { BOTTOM, drawDimension, drawDistinct, drawSymbol } from "../src/mechanisms/drawing.js";
import { jointWeights, signedLaw } from "../src/mechanisms/one_symbol.js";
import * as selection from "../src/mechanisms/selection.js";
import { symbolLaw } from "../src/mechanisms/value.js";
import { FeatureScale, LinearModel, LinearRecords, Plan, Preparation } from "../src/index.js";
import { Entropy } from "../src/random/entropy.js";
import { PublicBits } from "../src/random/philox.js";
import { defaultCodewords, solutionOf } from "../src/solutions/solution.js";
import { projection, randomDirections, rotated, rotationsFor, widthFor } from "../src/solutions/transforms.js";
import { checkText } from "../src/wire/intent.js";
import { decodeRequest, encodeReport } from "../src/wire/request.js";
import { canBeSeen, isMark } from "../src/wire/unicode.js";
import { MemoryStore } from "./memory.js";

export const KINDS = [
  "laws", "draws", "reports", "requests", "messages", "policies", "public", "ledgers", "updates",
];

const SELECTIONS = {
  EXP: selection.exponential,
  PE: selection.perturbedEncoding,
  PS: selection.perturbedSampling,
  "PE-published": selection.publishedPerturbedEncoding,
};

class Mismatch extends Error {}

/** Failures of a file of vectors, and how many cases there were. */
export async function failures(kind, cases) {
  const wrong = [];
  for (const [number, one] of cases.entries()) {
    const check = CHECKS[kind][one.kind ?? kind];
    try {
      if (check === undefined) throw new Mismatch("nothing checks cases of this kind");
      await check(one);
    } catch (error) {
      wrong.push(`${kind} ${number} (${one.kind ?? ""} ${one.shows ?? ""}): ${error.message}`);
    }
  }
  return wrong;
}

function same(got, wanted, what = "") {
  const [a, b] = [JSON.stringify(got), JSON.stringify(wanted)];
  if (a !== b) throw new Mismatch(`${what}: ${a?.slice(0, 300)} is not ${b?.slice(0, 300)}`);
}

function near(got, wanted, tolerance, what) {
  const largest = Math.max(...wanted.map(Math.abs), 1e-300);
  got.forEach((x, i) => {
    if (!(Math.abs(x - wanted[i]) <= tolerance * largest)) {
      throw new Mismatch(`${what} ${i}: ${x} is not ${wanted[i]}`);
    }
  });
  same(got.length, wanted.length, what);
}

const exact = (text) => Fraction.parse(text);
const text = (values) => Array.from(values, String);

export function floats(digits, bytes) {
  const view = new DataView(fromHex(digits).buffer);
  const read = (_, i) => (bytes === 4 ? view.getFloat32(4 * i, true) : view.getFloat64(8 * i, true));
  const made = Array.from({ length: view.byteLength / bytes }, read);
  return bytes === 4 ? Float32Array.from(made) : Float64Array.from(made);
}

export function hexOf(vector) {
  const bytes = new Uint8Array(4 * vector.length);
  const view = new DataView(bytes.buffer);
  vector.forEach((x, i) => view.setFloat32(4 * i, x, true));
  return toHex(bytes);
}

/** `Entropy` from given words, which must be used up in the end. */
export class Words extends Entropy {
  constructor(words) {
    const rest = words.map((word) => BigInt(`0x${word}`));
    super(() => {
      const word = rest.shift();
      if (word === undefined) throw new Mismatch("more words are drawn than were given");
      return word;
    });
    this.rest = rest;
    this.draws = [];
  }

  below(n) {
    const value = super.below(n);
    this.draws.push([String(n), String(value)]);
    return value;
  }

  end(draws) {
    if (draws !== undefined) same(this.draws, draws, "draws");
    same(this.rest.length, 0, "words left");
  }
}

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

const laws = {
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
  codewords: ({ dim, codewords }) => {
    same(defaultCodewords(dim), codewords);
  },
};

const RECIPE = {
  epochs: 1, mu: 0.1, k: { count: 1 }, clip: 1, momentum: 0, ratio: 0.1, seed: 0n, learningRate: 1,
  rho: null, words: null, bases: null,
};

const draws = {
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

/** A run of one device, by its parts: the wire, the update, the report, the residual. */
async function run({ run: name, recipe: fields, charge, report_bytes, steps }) {
  const recipe = recipeOf(fields);
  const solution = solutionOf(recipe, JSON.stringify(fields));
  same(String(solution.charge), charge, "charge");
  for (const [number, step] of steps.entries()) {
    const update = floats(step.update_f64, 8);
    let gradient = await evaluated(update, new Float64Array(update.length), recipe.dim);
    if (solution.rateInside) gradient = saturated(gradient, recipe.learningRate);
    same(hexOf(gradient), step.gradient_f32, "gradient");
    const entropy = new Words(step.words);
    const before = floats(step.residual_before_f32, 4);
    const drawn = solution.encode(gradient, before, step.round, entropy);
    entropy.end(step.draws);
    const pairs = drawn.slots.flatMap((slot, i) => (slot === BOTTOM ? [] : [[slot, drawn.symbols[i]]]));
    same(pairs, step.pairs, `pairs of step ${number}`);
    const after = solution.accumulates ? drawn.kept : before;
    same(hexOf(after), step.residual_after_f32, `residual after step ${number}`);
    const report = encodeReport(fromHex(name), step.round, drawn.slots, drawn.symbols);
    same(toHex(report), step.report, `report of step ${number}`);
    same(report.length, report_bytes, "length");
  }
}

/** A recipe of the fields that vectors write. */
export function recipeOf({ epsilon, seed, learning_rate: learningRate, ...rest }) {
  return { ...rest, epsilon: exact(epsilon), seed: BigInt(seed), learningRate };
}

function requestFields(request) {
  const { version, epoch, round, intent, recipe } = request;
  const { epsilon, seed, learningRate, ...rest } = recipe;
  const { solution, dim, epochs, mu, k, clip, momentum, ratio, rho, words, bases } = rest;
  return {
    ...{ version, run: toHex(request.run), epoch, round, ...intent },
    recipe: {
      ...{ solution, epsilon: String(epsilon), dim, epochs, mu, k, clip, momentum, ratio },
      ...{ seed: String(seed), learning_rate: learningRate, rho, words, bases },
    },
  };
}

const REASONS_OF = { version: "VERSION", malformed: "MALFORMED" };

const requests = {
  requests: ({ request, fields, reason }) => {
    const decoded = decodeRequest(fromHex(request));
    if (typeof decoded === "string") return same(REASONS_OF[decoded], reason, "reason");
    if (fields !== undefined) return same(requestFields(decoded), fields, "fields");
    let found = null;
    try {
      solutionOf(decoded.recipe, request);
    } catch (error) {
      found = error instanceof RangeError ? "MALFORMED" : String(error);
    }
    return same(found, reason, "reason");
  },
};

function ranges(belongs) {
  const found = [];
  for (let code = 0; code < 0x110000; code++) {
    if (!belongs(code)) continue;
    const last = found[found.length - 1];
    if (last && last[1] === code - 1) last[1] = code;
    else found.push([code, code]);
  }
  return found;
}

const messages = {
  report: () => {}, // devices write reports, servers read them
  visible: ({ ranges: wanted }) => same(ranges(canBeSeen), wanted),
  marks: ({ ranges: wanted }) => {
    const seen = wanted.flatMap(([first, last]) => {
      const codes = Array.from({ length: last - first + 1 }, (_, i) => first + i);
      return codes.filter(canBeSeen);
    });
    const marks = new Set(seen);
    same(ranges((code) => marks.has(code)), ranges(isMark));
  },
  text: ({ field, text: value, accepted, reason }) => {
    let right = true;
    try {
      checkText(field ?? "purpose", value, field ?? "purpose");
    } catch {
      right = false;
    }
    same(right, accepted ?? reason === undefined);
  },
};

export function fieldsOf(policy) {
  return {
    lifetime: String(policy.lifetime),
    per_report: String(policy.perReport),
    solutions: policy.solutions,
    dimensions: policy.dimensions,
    clip: policy.clip,
    reports_per_epoch: policy.reportsPerEpoch,
    reports_per_day: policy.reportsPerDay,
    runs: policy.runs,
    weight_bound: policy.weightBound,
    least_seconds: policy.leastSeconds,
    require_purpose: policy.required.purpose,
    require_recipient: policy.required.recipient,
    purposes: policy.stated.purpose,
    recipients: policy.stated.recipient,
  };
}

const policies = {
  charge: ({ request, ratio, charge }) => {
    const { recipe, recipeBytes } = decodeRequest(fromHex(request));
    const solution = solutionOf(recipe, toHex(recipeBytes));
    same(String(solution.mechanism.lossRatio), ratio, "ratio");
    same(String(solution.charge), charge, "charge");
    if (exceedsExp(solution.mechanism.lossRatio, solution.charge)) throw new Mismatch("too little");
  },
  verdict: async ({ policy, request, reason }) => {
    const { recipe } = decodeRequest(fromHex(request));
    const client = await Client.open(policy, new MemoryStore(), { create: true });
    const weights = new Float64Array(recipe.dim);
    same(await outcome(client.answer(fromHex(request), weights, weights)), reason ?? "answered");
  },
  table: ({ values, policy, wrong }) => {
    let found = null;
    try {
      same(fieldsOf(new Policy(values)), policy, "fields");
    } catch (error) {
      if (error instanceof Mismatch && wrong === undefined) throw error;
      found = error.argument;
    }
    same(found, wrong ?? null, "wrong");
  },
};

async function outcome(answer) {
  try {
    await answer;
    return "answered";
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    return error.reason;
  }
}

const publics = {
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
  directions: (one) => sameRows(randomDirections(one.dim, one.codewords, BigInt(one.seed)), one),
  projection: (one) => sameRows(projection(one.dim, one.rows_f32.length, BigInt(one.seed)), one),
};

/** The rows of a matrix, bit by bit, whatever its tolerance: by their products with unit vectors. */
function sameRows(transform, { dim, rows_f32 }) {
  const columns = Array.from({ length: dim }, (_, j) => {
    return transform.scores(Float32Array.from({ length: dim }, (_unused, i) => Number(i === j)), 0, 0);
  });
  rows_f32.forEach((row, i) => same(hexOf(columns.map((column) => column[i])), row, `row ${i}`));
}

const ledgers = {
  grid: () => {}, // a part of the sums
  added: ({ spent, charge, total }) => same(String(added(exact(spent), exact(charge))), total),
  ledger: async ({ policy, calls }) => {
    const store = new MemoryStore();
    const client = await Client.open(policy, store, { create: true });
    for (const [number, call] of calls.entries()) {
      const entropy = new Words(call.words ?? []);
      replaceSurroundings(client, { entropy, now: () => call.time });
      const answer = await reply(client, call);
      const wanted = call.report === undefined ? call.reason : call.report;
      same(answer, wanted, `call ${number}`);
      entropy.end();
      const { spent, entries } = await client.history();
      same([entries.length, String(spent)], [call.reports, call.spent], `ledger after ${number}`);
      sameRun(store, call);
    }
  },
};

/** What the ledger says of the run and the round of a call that was answered. */
function sameRun(store, call) {
  if (call.report === undefined) return;
  const { runs, entries } = JSON.parse(store.held.ledger.split("\n")[0]);
  const request = decodeRequest(fromHex(call.request));
  const run = runs.find((known) => known.run === toHex(request.run));
  const entry = entries.find((made) => made.run === run?.run && made.round === request.round);
  same(entry?.digest ?? null, call.digest, "digest");
  same(run?.open ?? null, call.open, "open");
  const kept = run.residual?.slice(0, -64) ?? "00".repeat(4 * request.recipe.dim);
  same(kept, call.residual_f32, "residual");
}

async function reply(client, call) {
  const update = call.update_f64 ? floats(call.update_f64, 8) : new Float64Array(0);
  try {
    const report = await client.answer(fromHex(call.request), fromHex(call.weights), update);
    return toHex(report);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    return error.reason;
  }
}

const updates = {
  saturated: ({ values_f64, factor, result_f32 }) => {
    same(hexOf(saturated(floats(values_f64, 8), factor)), result_f32);
  },
  evaluated: async ({ dim, update_f64, result_f32 }) => {
    const update = update_f64 === null || update_f64 === undefined ? null : floats(update_f64, 8);
    const value = update ?? (() => Promise.reject(new Error("secret")));
    same(hexOf(await evaluated(value, new Float64Array(dim), dim)), result_f32);
  },
  scale: ({ low, high, centre, factor, records_f64, rows_f32, tolerance }) => {
    const scale = new FeatureScale(low, high);
    same([...scale.centre], centre, "centre");
    same([...scale.factor], factor, "factor");
    records_f64.forEach((record, i) => {
      near(scale.apply(floats(record, 8)), [...floats(rows_f32[i], 4)], tolerance, `record ${i}`);
    });
  },
  prepared: ({ preparation, records_f64, rows_f32, tolerance }) => {
    const learnt = new Preparation(preparation);
    records_f64.forEach((record, i) => {
      const row = learnt.record(floats(record, 8));
      near(row, [...floats(rows_f32[i], 4)], tolerance, `record ${i}`);
    });
  },
  gradient: ({ loss, reg, preparation, records_f64, y, weights_f64, gradient, tolerance }) => {
    const model = new LinearModel({ loss, reg });
    const records = new LinearRecords(records_f64.map((r) => floats(r, 8)), y, { model });
    const told = records.update(0, new Preparation(preparation))(floats(weights_f64, 8));
    near([...told], gradient, tolerance, "entry");
  },
  place: ({ plan, round, stage, preparation, records_f64, update_f32, tolerance }) => {
    const planned = new Plan(plan);
    same(planned.stage(round), stage, "stage");
    const X = records_f64.map((r) => floats(r, 8));
    const records = new LinearRecords(X, X.map(() => 1), { plan: planned });
    const told = records.update(round, new Preparation(preparation))(new Float64Array(plan.dim));
    near([...told], [...floats(update_f32, 4)], tolerance, "entry");
  },
};

const CHECKS = {
  laws, draws, requests, messages, policies, ledgers, updates, reports: { reports: run }, public: publics,
};
