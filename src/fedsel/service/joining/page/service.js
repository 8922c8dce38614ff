/** The service that the page came from: the only one that it speaks to. Its addresses are relative to
 * the page's own, which may lie below any path. */

/** The service cannot be reached, or fails for now: the same can be tried again. */
export class Unreachable extends Error {
  /** @param {number} [seconds] to wait at least */
  constructor(seconds = 0) {
    super("the service cannot be reached");
    this.seconds = seconds;
  }
}

/** The service answers as none of fedsel would: to ask again is of no use. */
export class NotUnderstood extends Error {
  constructor() {
    super("the service does not answer as a service of fedsel would");
  }
}

const UNINVITED = [401, 403];
/** Beside all failures of the server (500 and above). */
const AGAIN = [408, 429];
const [TIMEOUT, MOST_WAIT] = [30_000, 300];

/** A whole answer; what may be asked again is `Unreachable`.
 * @param {string} path @param {RequestInit} [options] */
async function ask(path, options) {
  let answer, body;
  try {
    const signal = AbortSignal.timeout(TIMEOUT);
    answer = await fetch(`v1/${path}`, {
      ...options,
      signal,
      credentials: "omit",
      redirect: "manual",
    });
    body = new Uint8Array(await answer.arrayBuffer());
  } catch {
    throw new Unreachable(); // also where the connection ended within the answer
  }
  const { status, headers } = answer;
  if (status >= 500 || AGAIN.includes(status)) {
    throw new Unreachable(Math.min(MOST_WAIT, Number(headers.get("retry-after")) || 1));
  }
  return { status, body };
}

/** @param {Uint8Array} body @returns {any} */
function parsed(body) {
  try {
    return JSON.parse(new TextDecoder().decode(body));
  } catch {
    throw new NotUnderstood();
  }
}

/** @param {string} path */
export async function getJson(path) {
  const { status, body } = await ask(path);
  if (status !== 200) throw new NotUnderstood();
  return parsed(body);
}

/** Request, weights or preparing of a round; null when it is over. @param {string | number} round
 * @param {"request" | "weights" | "preparing"} part */
export async function getPart(round, part) {
  const { status, body } = await ask(`rounds/${round}/${part}`);
  if (status === 410) return null;
  if (status !== 200) throw new NotUnderstood();
  return body;
}

/** Whether a token is an invitation for devices: asked before anything is paid for.
 * @param {string} token */
export async function isInvited(token) {
  const { status, body } = await ask("invitation", {
    headers: { Authorization: `Bearer ${token}` },
  });
  if (UNINVITED.includes(status)) return false;
  if (status !== 200) throw new NotUnderstood();
  return parsed(body)?.kind === "device";
}

/** Send a report; what became of it. @param {Uint8Array} report @param {string} token
 * @returns {Promise<"accepted" | "late" | "conflict" | "uninvited">} */
export async function send(report, token) {
  const headers = {
    Authorization: `Bearer ${token}`,
    "Content-Type": "application/octet-stream",
  };
  const content = /** @type {BodyInit} */ (/** @type {unknown} */ (report));
  const { status, body } = await ask("reports", { method: "POST", headers, body: content });
  if (status === 200) return "accepted";
  if (status === 410) return "late";
  if (UNINVITED.includes(status)) return "uninvited";
  if (status !== 409) throw new NotUnderstood();
  // "Early": the service has gone back to an earlier round, and will come to this one.
  if (isEarly(body)) throw new Unreachable();
  return "conflict";
}

/** @param {Uint8Array} body */
function isEarly(body) {
  try {
    return parsed(body)?.error === "early";
  } catch {
    return false;
  }
}
