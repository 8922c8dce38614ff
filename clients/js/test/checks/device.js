/** Vectors of what a device does: reports, messages, policies, ledgers, updates. */

import { Client } from "../../src/device/client.js";
import { Policy } from "../../src/device/policy.js";
import { Refused } from "../../src/device/refusal.js";
import { added } from "../../src/device/spending.js";
import { evaluated, saturated } from "../../src/device/updates.js";
import { exceedsExp } from "../../src/exact/exponential.js";
import { fromHex, toHex } from "../../src/hash.js";
import { FeatureScale, LinearModel, LinearRecords, Plan, Preparation } from "../../src/index.js";
import { BOTTOM } from "../../src/mechanisms/drawing.js";
import { schedule, sealed, tagOf } from "../../src/sealing/sealing.js";
import { solutionOf } from "../../src/solutions/solution.js";
import { checkText } from "../../src/wire/intent.js";
import { decodeRequest, encodeReport } from "../../src/wire/request.js";
import { Shuffled } from "../../src/wire/shuffled.js";
import { SignedRound } from "../../src/wire/signed.js";
import { canBeSeen, isMark } from "../../src/wire/unicode.js";
import { MemoryStore } from "../memory.js";
import { Mismatch, Words, exact, floats, hexOf, near, same } from "./reading.js";

/** A run of one device, by its parts: the wire, the update, the report, the residual. */
export async function run({ run: name, recipe: fields, charge, report_bytes, steps }) {
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
    const pairs = drawn.slots.flatMap((slot, i) =>
      slot === BOTTOM ? [] : [[slot, drawn.symbols[i]]],
    );
    same(pairs, step.pairs, `pairs of step ${number}`);
    const after = solution.accumulates ? drawn.kept : before;
    same(hexOf(after), step.residual_after_f32, `residual after step ${number}`);
    const report = encodeReport(fromHex(name), step.round, drawn.slots, drawn.symbols);
    same(toHex(report), step.report, `report of step ${number}`);
    same(report.length, report_bytes, "length");
  }
}

/** A recipe of the fields that vectors write. */
function recipeOf({ epsilon, seed, learning_rate: learningRate, ...rest }) {
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

export const requests = {
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

const PKCS8 = fromHex("302e020100300506032b656e04220420"); // of an X25519 key, up to its bytes

/** The report of a message, as the server opens it. */
async function opened(message, request, serverKey, privateKey) {
  const { subtle } = globalThis.crypto;
  const curve = { name: "X25519" };
  const [encapsulated, content] = [message.slice(33, 65), message.slice(65)];
  const own = Uint8Array.of(...PKCS8, ...privateKey);
  const secret = await subtle.importKey("pkcs8", own, curve, false, ["deriveBits"]);
  const theirs = await subtle.importKey("raw", encapsulated, curve, false, []);
  const shared = new Uint8Array(await subtle.deriveBits({ ...curve, public: theirs }, secret, 256));
  const tag = tagOf(request, serverKey);
  const { key, nonce } = await schedule(shared, encapsulated, serverKey, tag);
  const cipher = await subtle.importKey("raw", key, "AES-GCM", false, ["decrypt"]);
  const report = await subtle.decrypt({ name: "AES-GCM", iv: nonce }, cipher, content);
  return toHex(new Uint8Array(report));
}

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

export const messages = {
  report: () => {}, // devices write reports, servers read them
  sealed: async ({ request, server_key, tag, private_key, message, report }) => {
    const [asked, key] = [fromHex(request), fromHex(server_key)];
    same(toHex(tagOf(asked, key)), tag, "tag");
    if (message === undefined) return;
    const secret = fromHex(private_key);
    same(await opened(fromHex(message), asked, key, secret), report, "report");
    const own = await sealed(fromHex(report), asked, key);
    same(own.length, message.length / 2, "length");
    same(await opened(own, asked, key, secret), report, "own report");
  },
  signed: async ({ key, message, time, reason, kind: _, shows: __, ...parts }) => {
    const signed = await SignedRound.verify(fromHex(message), fromHex(key));
    if (typeof signed === "string") return same(signed, reason, "reason");
    same(signed.time, time, "time");
    for (const [name, part] of Object.entries(parts)) {
      const bytes = fromHex(part);
      same(signed.covers({ [name]: bytes }), true, name);
      same(signed.covers({ [name]: Uint8Array.of(...bytes, 32) }), false, name);
    }
  },
  shuffled: ({ values, local, said, condition }) => {
    const shuffled = new Shuffled(values);
    same([shuffled.honest, shuffled.said(exact(local))], [values.honest, said], "both numbers");
    same(shuffled.condition, condition, "condition");
  },
  visible: ({ ranges: wanted }) => same(ranges(canBeSeen), wanted),
  marks: ({ ranges: wanted }) => {
    const seen = wanted.flatMap(([first, last]) => {
      const codes = Array.from({ length: last - first + 1 }, (_, i) => first + i);
      return codes.filter(canBeSeen);
    });
    const marks = new Set(seen);
    same(
      ranges((code) => marks.has(code)),
      ranges(isMark),
    );
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

function fieldsOf(policy) {
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
    server_key: policy.serverKey,
  };
}

export const policies = {
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

export const ledgers = {
  grid: () => {}, // a part of the sums
  added: ({ spent, charge, total }) => same(String(added(exact(spent), exact(charge))), total),
  ledger: async ({ policy, calls }) => {
    const store = new MemoryStore();
    globalThis.scripted.now = calls[0].time;
    const client = await Client.open(policy, store, { create: true });
    for (const [number, call] of calls.entries()) {
      const entropy = new Words(call.words ?? []);
      Object.assign(globalThis.scripted, { words: entropy.take, now: call.time });
      const answer = await reply(client, call);
      Object.assign(globalThis.scripted, { words: null, now: null });
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
  const update = call.answer ?? floats(call.update_f64, 8);
  try {
    const report = await client.answer(fromHex(call.request), fromHex(call.weights), update);
    return toHex(report);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    return error.reason;
  }
}

export const updates = {
  saturated: ({ values_f64, factor, result_f32 }) => {
    same(hexOf(saturated(floats(values_f64, 8), factor)), result_f32);
  },
  evaluated: async ({ dim, update_f64, result_f32 }) => {
    const update = update_f64 === null || update_f64 === undefined ? null : floats(update_f64, 8);
    const value = update ?? (() => Promise.reject(new Error("secret")));
    same(hexOf(await evaluated(value, new Float64Array(dim), dim)), result_f32);
  },
  answered: async ({ dim, answer, result_f32 }) => {
    for (const value of [BigInt(answer), Number(answer), () => Promise.resolve(Number(answer))]) {
      same(hexOf(await evaluated(value, new Float64Array(3), dim, true)), result_f32);
    }
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
    const records = new LinearRecords(
      records_f64.map((r) => floats(r, 8)),
      y,
      { model },
    );
    const told = records.update(0, new Preparation(preparation))(floats(weights_f64, 8));
    near([...told], gradient, tolerance, "entry");
  },
  place: ({ plan, round, stage, preparation, records_f64, update_f32, tolerance }) => {
    const planned = new Plan(plan);
    same(planned.stage(round), stage, "stage");
    const X = records_f64.map((r) => floats(r, 8));
    const records = new LinearRecords(
      X,
      X.map(() => 1),
      { plan: planned },
    );
    const told = records.update(round, new Preparation(preparation))(new Float64Array(plan.dim));
    near([...told], [...floats(update_f32, 4)], tolerance, "entry");
  },
};
