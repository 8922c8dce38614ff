/** Takes part in a run as a device, and says what came of it; for a test that scripts the service.
 *
 * Nobody waits for long: pauses are noted, and cut short. Works in Node and in a page. */

import { Client, join } from "../src/index.js";
import { toHex } from "../src/hash.js";
import { MemoryStore } from "./memory.js";

const later = globalThis.setTimeout;
const timeout = AbortSignal.timeout.bind(AbortSignal);
const POLICY = { lifetime: 2, per_report: 2, solutions: ["RJ"], dimensions: [3] };

/** @param {{ url: string, patience: number, silence: boolean, policy: object, chance: number | null,
 * times: number }} options `chance` in [0, 1) decides in place of the system's, and the last of so many
 * `times` is told */
export async function takePart({ url, patience, silence, policy, chance, times }) {
  const { random } = Math;
  if (chance != null) Math.random = () => chance;
  const pauses = [];
  globalThis.setTimeout = (work, milliseconds, ...rest) => {
    const ours = new Error().stack.includes("/joining/connection.js"); // Node's fetch has timers, too
    if (!ours) return later(work, milliseconds, ...rest);
    pauses.push(milliseconds / 1000);
    return later(work, Math.min(milliseconds, 2));
  };
  AbortSignal.timeout = (given) => timeout(silence && given === 30_000 ? 1_000 : given);
  const client = await Client.open({ ...POLICY, ...policy }, new MemoryStore(), { create: true });
  let [reads, early] = [0, 0];
  const noted = (rows) => new Proxy(rows, { get: (all, name) => ((reads += 1), all[name]) });
  const table = [
    { age: 30, pay: "50" },
    { age: "60", pay: 20 },
  ];
  const records = { X: noted(table), y: noted(["yes", "no"]) };
  // No record is read but while a client answers.
  const answered = async (...given) => {
    early += reads;
    try {
      return await client.answer(...given);
    } finally {
      reads = 0;
    }
  };
  const watched = new Proxy(client, {
    get: (target, name) => {
      if (name === "answer") return answered;
      const found = Reflect.get(target, name, target);
      return typeof found === "function" ? found.bind(target) : found;
    },
  });
  const events = [];
  const tell = (event) => events.push([event.kind, pauses.length]);
  const options = { token: "invitation", every: 0.01, patience, tell };
  try {
    for (let before = 1; before < times; before++) await join(url, watched, records, options);
    const found = await join(url, watched, records, options);
    const { ending, detail, accepted, late, history } = found;
    const reports = history.entries.map(({ report }) => toHex(report));
    const longest = Math.max(0, ...pauses);
    // An owner's own work is hidden in a pause: it begins before that.
    const idle = events.every(([kind, begun]) => kind !== "idle" || begun > 0);
    return { ending, detail, accepted, late, reports, longest, early, idle };
  } catch (error) {
    return { ending: `${error.name}: ${error.message}` };
  } finally {
    Math.random = random;
    globalThis.setTimeout = later;
    AbortSignal.timeout = timeout;
  }
}
