/** The service that the page came from: the only one that it speaks to. Its addresses are relative to
 * the page's own, which may lie below any path. */

/** The service cannot be reached, or is too busy: the same can be tried again. */
export class Unreachable extends Error {
  /** @param {number} [seconds] to wait at least */
  constructor(seconds = 0) {
    super("the service cannot be reached");
    this.seconds = seconds;
  }
}

/** What a report is answered with that has arrived, or never will. @type {Record<number, string>} */
const OUTCOMES = { 200: "accepted", 409: "conflict", 410: "late" };
const UNINVITED = [401, 403];
const BUSY = [429, 502, 503, 504];

/** @param {string} path @param {RequestInit} [options] */
async function ask(path, options) {
  let answer;
  try {
    const signal = AbortSignal.timeout(30_000);
    answer = await fetch(`v1/${path}`, {
      ...options,
      signal,
      credentials: "omit",
    });
  } catch {
    throw new Unreachable();
  }
  if (BUSY.includes(answer.status)) {
    throw new Unreachable(Number(answer.headers.get("retry-after")) || 1);
  }
  return answer;
}

/** @template T @param {Promise<T>} body */
async function read(body) {
  try {
    return await body;
  } catch {
    throw new Unreachable(); // the connection ended within the answer
  }
}

/** @param {string} path */
export async function getJson(path) {
  const answer = await ask(path);
  if (!answer.ok) throw new Unreachable();
  return read(answer.json());
}

/** Request, weights or preparing of a round; null when it is over. @param {string | number} round
 * @param {"request" | "weights" | "preparing"} part */
export async function getPart(round, part) {
  const answer = await ask(`rounds/${round}/${part}`);
  if (answer.status === 410) return null;
  if (!answer.ok) throw new Unreachable();
  return new Uint8Array(await read(answer.arrayBuffer()));
}

/** Whether a token is an invitation for devices: asked before anything is paid for.
 * @param {string} token */
export async function isInvited(token) {
  const answer = await ask("invitation", { headers: { Authorization: `Bearer ${token}` } });
  if (UNINVITED.includes(answer.status)) return false;
  if (!answer.ok) throw new Unreachable();
  return (await read(answer.json())).kind === "device";
}

/** Send a report: what became of it, or "refused" where the invitation is not known.
 * @param {Uint8Array} report @param {string} token */
export async function send(report, token) {
  const headers = {
    Authorization: `Bearer ${token}`,
    "Content-Type": "application/octet-stream",
  };
  const body = /** @type {BodyInit} */ (/** @type {unknown} */ (report));
  const answer = await ask("reports", { method: "POST", headers, body });
  if (answer.status === 409 && (await read(answer.json())).error === "early") {
    throw new Unreachable(); // the service has gone back to an earlier round: it will come
  }
  return OUTCOMES[answer.status] ?? "refused";
}
