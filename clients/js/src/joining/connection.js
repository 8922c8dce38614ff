/** One service over HTTP: how much a device reads of it, and how long it waits.
 *
 * Why a device takes part no longer. None of these depends on its data. */
export const ENDINGS = Object.freeze({
  FINISHED: "the run is over",
  DONE: "the run asks this device for no further report",
  SPENT: "the budget of this device does not suffice for another report",
  REFUSED: "this device refuses what it is asked",
  UNINVITED: "the service does not let this device take part",
  CONFLICT: "the service has another report from the holder of this invitation",
  UNREACHABLE: "the service does not answer",
  NOT_UNDERSTOOD: "the service does not answer as a service of fedsel would",
  STOPPED: "the owner has stopped it",
});

/** @typedef {keyof typeof ENDINGS} Ending */

/** Taking part is over; `detail` says more to the owner. */
export class Ended extends Error {
  /** @param {Ending} ending @param {string} [detail] */
  constructor(ending, detail = "") {
    super(detail ? `${ENDINGS[ending]}: ${detail}` : ENDINGS[ending]);
    this.name = "Ended";
    this.ending = ending;
    this.detail = detail;
  }
}

/** @typedef {{ status: number, body: Uint8Array }} Reply */

/** How long one exchange may take, and the longest wait that a service can ask for. */
const [SECONDS, MOST_WAIT] = [30, 300];
const [FIRST_PAUSE, LONGEST_PAUSE] = [0.25, 30];
/** An error page may be longer than the answer that was asked for. */
export const SHORT = 1 << 16;

/** Asks one service until it answers, and gives up when it has not for long. */
export class Connection {
  #url;
  #patience;
  #signal;
  #waiting;

  /** @param {string} url @param {number} patience in seconds @param {AbortSignal | undefined} signal
   * @param {(why: string) => unknown} waiting called when an exchange has failed */
  constructor(url, patience, signal, waiting) {
    this.#url = url.replace(/\/+$/, "");
    this.#patience = patience;
    this.#signal = signal;
    this.#waiting = waiting;
  }

  /** The answer to a request, which is made again until there is one: POST with a body, else GET.
   *
   * 408, 429, all failures of the server and every failure on the way are tried again, because none
   * of them says what became of the request. Sending a report again is safe: it is the same bytes.
   * @param {string} path @param {number} most bytes of the answer
   * @param {{ body?: Uint8Array, token?: string }} [options] @returns {Promise<Reply>} */
  async ask(path, most, options = {}) {
    const patience = this.patience();
    for (;;) {
      const found = await this.#exchange(path, Math.max(most, SHORT), options, patience.left);
      if ("status" in found) return found;
      await patience.wait(found.why, found.wait);
    }
  }

  /** A patience of its own, for something that may be tried again. */
  patience() {
    return new Patience(this.#patience, this.#signal, this.#waiting);
  }

  /** @param {string} path @param {number} most @param {{ body?: Uint8Array, token?: string }} options
   * @param {number} left seconds @returns {Promise<Reply | { why: string, wait: number }>} */
  async #exchange(path, most, { body, token }, left) {
    /** @type {Record<string, string>} */
    const headers = {};
    if (token !== undefined) headers.Authorization = `Bearer ${token}`;
    if (body !== undefined) headers["Content-Type"] = "application/octet-stream";
    let answer, content;
    try {
      answer = await fetch(this.#url + path, {
        method: body === undefined ? "GET" : "POST",
        body: /** @type {BodyInit | undefined} */ (/** @type {unknown} */ (body)),
        headers,
        signal: AbortSignal.timeout(Math.ceil(1000 * Math.max(0, Math.min(SECONDS, left)))),
        credentials: "omit",
        redirect: "manual",
      });
      content = await readAtMost(answer, most);
    } catch (error) {
      if (error instanceof Ended) throw error;
      const late = error instanceof DOMException && error.name === "TimeoutError";
      return { why: late ? "no answer in time" : "the connection was cut", wait: 0 };
    }
    const { status } = answer;
    if (status !== 408 && status !== 429 && status < 500) return { status, body: content };
    const asked = answer.headers.get("retry-after") ?? "";
    const wait = /^\d{1,6}$/.test(asked) ? Math.min(Number(asked), MOST_WAIT) : 0;
    return { why: `status ${status}`, wait };
  }
}

/** The body of an answer; one that is too long is not read to its end.
 * @param {Response} answer @param {number} most */
async function readAtMost(answer, most) {
  const parts = [];
  let size = 0;
  const reader = answer.body?.getReader();
  for (let part = await reader?.read(); part && !part.done; part = await reader?.read()) {
    parts.push(part.value);
    size += part.value.length;
    if (size > most) {
      void reader?.cancel().catch(() => {});
      throw new Ended("NOT_UNDERSTOOD", "its answer is too long");
    }
  }
  const whole = new Uint8Array(size);
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

/** Waits longer from failure to failure, at random, and ends when nothing has worked for long. */
class Patience {
  #most;
  #signal;
  #waiting;
  #failures = 0;
  #since = performance.now();

  /** @param {number} most in seconds @param {AbortSignal | undefined} signal
   * @param {(why: string) => unknown} waiting */
  constructor(most, signal, waiting) {
    this.#most = most;
    this.#signal = signal;
    this.#waiting = waiting;
  }

  /** Seconds until it ends. */
  get left() {
    return this.#most - (performance.now() - this.#since) / 1000;
  }

  /** After a failure: wait, for as long as the service asks at least. Gives up where that would leave
   * no time for another try. @param {string} why @param {number} [asked] seconds */
  async wait(why, asked = 0) {
    // "Full jitter": devices that failed together come back spread over the whole time.
    const longest = Math.min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** Math.min(this.#failures, 16));
    const seconds = asked + longest * Math.random();
    if (seconds >= this.left) throw new Ended("UNREACHABLE", why);
    this.#failures += 1;
    this.#waiting(why);
    await pause(seconds, this.#signal, true);
  }
}

/** Wait so long, or until the network is back; `Ended` when the owner stops it.
 * @param {number} seconds @param {AbortSignal | undefined} signal @param {boolean} [offline] */
export function pause(seconds, signal, offline = false) {
  return new Promise((resolve, reject) => {
    const end = () => {
      clearTimeout(timer);
      if (offline) globalThis.removeEventListener?.("online", end);
      signal?.removeEventListener("abort", end);
      if (signal?.aborted) reject(new Ended("STOPPED"));
      else resolve(undefined);
    };
    const timer = setTimeout(end, 1000 * seconds);
    if (offline) globalThis.addEventListener?.("online", end);
    signal?.addEventListener("abort", end);
    if (signal?.aborted) end();
  });
}
