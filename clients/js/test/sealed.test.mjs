import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";

import { Client, Refused, Session } from "../src/index.js";
import { fromHex, joined, sha256, toHex } from "../src/hash.js";
import { decodeRequest, encodeRequest } from "../src/wire/request.js";
import { SIGNED_BYTES } from "../src/wire/signed.js";
import { MemoryStore } from "./memory.js";
import { POLICY, UPDATE, WEIGHTS, requestOf } from "./support.js";

const { subtle } = globalThis.crypto;
const SERVER_KEY = "8f40c5adb68f25624ae5b214ea767a6ec94d829d3d7b5e1ad1ba6f3e2138285f";
const LIMITS = { ...POLICY, server_key: SERVER_KEY };
const open = (policy, store = new MemoryStore()) => Client.open(policy, store, { create: true });
const refused = (reason) => (error) => error instanceof Refused && error.reason === reason;

/** A key of a service: its public half, and how it signs parts. */
async function signer() {
  const pair = await subtle.generateKey({ name: "Ed25519" }, true, ["sign", "verify"]);
  const sign = async (parts) => {
    const time = new DataView(new ArrayBuffer(8));
    time.setBigUint64(0, 1_800_000_000n, true);
    const digests = parts.map((part) => sha256(part));
    const content = joined("FSSR\x01", new Uint8Array(time.buffer), ...digests);
    const message = joined("fedsel signed round 1", content);
    return joined(content, new Uint8Array(await subtle.sign("Ed25519", pair.privateKey, message)));
  };
  const key = toHex(new Uint8Array(await subtle.exportKey("raw", pair.publicKey)));
  return { key, sign };
}

test("with a signing key, request and weights must be signed together", async () => {
  const [{ key, sign }, other] = [await signer(), await signer()];
  const weights = new Uint8Array(WEIGHTS.buffer);
  const nothing = new Uint8Array(0);
  const client = await open({ ...POLICY, signing_key: key });
  const answer = (signed) => client.answer(requestOf(), WEIGHTS, UPDATE, null, signed);
  const right = await sign([nothing, requestOf(), weights, nothing]);
  assert.equal(right.length, SIGNED_BYTES);
  for (const wrong of [
    ...[undefined, null, "FSSR", nothing, right.slice(1)],
    await other.sign([nothing, requestOf(), weights, nothing]),
    await sign([nothing, requestOf({ round: 1 }), weights, nothing]),
    await sign([nothing, requestOf(), new Uint8Array(48).fill(1), nothing]),
  ]) {
    await assert.rejects(answer(wrong), refused("SIGNATURE"));
  }
  // Where two things are wrong, the first of the order is said.
  const dear = { ...POLICY, per_report: 1, signing_key: key };
  await assert.rejects(
    (await open(dear)).answer(requestOf(), WEIGHTS, UPDATE),
    refused("SIGNATURE"),
  );
  await assert.rejects(
    client.answer(requestOf(), new Float64Array(6).fill(NaN), UPDATE),
    refused("WEIGHTS"),
  );
  assert.equal((await client.history()).entries.length, 0);
  const report = await answer(right);
  assert.deepEqual(await answer(right), report);
  await assert.rejects(answer(null), refused("SIGNATURE"));
  assert.equal((await client.history()).entries.length, 1);
});

test("a key that is none is refused, also where the platform cannot verify", async (t) => {
  const { key } = await signer();
  for (const bad of ["", "12", key.toUpperCase(), 7, `${key}00`]) {
    await assert.rejects(open({ ...POLICY, signing_key: bad }), /^InvalidArgument: signing_key = /);
  }
  t.mock.method(Object.getPrototypeOf(subtle), "verify", async () => {
    throw new DOMException("Unrecognized name.", "NotSupportedError");
  });
  const store = new MemoryStore();
  await assert.rejects(open({ ...POLICY, signing_key: key }, store), /Cryptography and Ed25519/);
  assert.equal(store.held, null); // nothing was begun
});

test("requests are rebuilt to the byte from what a ledger holds of them", () => {
  const file = new URL("../../../vectors/requests.json", import.meta.url);
  const { cases } = JSON.parse(readFileSync(file, "utf-8"));
  const decoded = cases.map((one) => decodeRequest(fromHex(one.request)));
  const known = decoded.filter((request) => typeof request !== "string");
  assert.deepEqual(new Set(known.map(({ version }) => version)), new Set([1, 2, 3]));
  for (const { bytes, run, epoch, round, intent, recipeBytes } of known) {
    assert.deepEqual(encodeRequest({ run, epoch, round }, intent, recipeBytes), bytes);
  }
});

test("what was paid for and not sent leaves sealed later, too", async (t) => {
  const store = new MemoryStore();
  const message = requestOf();
  const first = await (await open(LIMITS, store)).answer(message, WEIGHTS, UPDATE);
  const shuffle = { n_min: 10, dishonest: 0.1, delta: 1e-6, epsilon: 1, server_key: SERVER_KEY };
  const [{ key }, run] = [await signer(), toHex(message.slice(5, 21))];
  const task = {
    ...{ name: "test", run, invitations: "signed", rounds_per_epoch: 1, schema: null, loss: null },
    ...{ close_after: { reports: 1 }, shuffle: { ...shuffle, signing_key: key } },
  };
  const sent = [];
  t.mock.method(globalThis, "fetch", async (url, { body }) => {
    const path = new URL(url).pathname;
    if (path === "/v1/reports") sent.push(body);
    if (path === "/v1/task") return Response.json(task);
    if (path === "/v1/invitation") return Response.json({ kind: "device" });
    if (path === "/v1/reports") return Response.json({ outcome: "accepted" });
    return new Response(message);
  });
  const deliver = async (policy) => {
    const client = await Client.open(policy, store);
    return new Session("http://relay.example", { token: "invitation" }).deliver(client, [0]);
  };
  const plain = await deliver(POLICY);
  assert.deepEqual([plain.ending, plain.accepted, sent.length], ["REFUSED", 0, 0]);
  const { ending, accepted } = await deliver({ ...LIMITS, signing_key: key });
  assert.deepEqual([ending, accepted], ["DONE", 1]);
  const [{ length }] = sent;
  assert.deepEqual([sent.length, length], [1, 97]);
  assert.deepEqual(sent[0].slice(0, 33), first.slice(0, 33)); // of the same request
});
