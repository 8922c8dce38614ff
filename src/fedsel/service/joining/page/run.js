/** The open round and the model, as the service publishes them. */

import { showWaiting } from "./keys.js";
import { getJson } from "./service.js";
import { byId } from "./show.js";

export class RunView {
  #etag = "";
  /** The model until it is shown. @type {any} */
  #fetched = null;
  /** So many rounds were over when their answers were shown. */
  #answered = 0;
  /** So many rounds were released, or are over. */
  released = 0;
  /** Called when `released` has changed. @type {() => Promise<void>} */
  changed = async () => {};

  /** @param {import("./model.js").ModelView} model @param {boolean} trains whether there is one */
  constructor(model, trains) {
    this.model = model;
    this.trains = trains;
  }

  /** Show the open round, and fetch a new model; whether the run is over. */
  async fetch() {
    const now = await getJson("rounds/open");
    if (now === null) return false;
    showRound(now);
    showWaiting(now);
    const released = now.round + (now.released && !now.finished ? 1 : 0);
    if (released !== this.released) {
      this.released = released;
      await this.changed();
    }
    const etag = now.model ?? `of round ${now.round}`; // a relay does not know the model
    if (this.trains && etag !== this.#etag) {
      this.#fetched = await getJson("model.json");
      if (this.#fetched !== null) this.#etag = etag;
    }
    if (!this.trains && now.round > this.#answered) {
      const said = (await getJson("answers"))?.answers?.at(-1)?.sentence; // a relay does not know it
      if (said) showAnswer(String(said));
      this.#answered = now.round;
    }
    return now.finished;
  }

  /** Show a new model, while no request waits for it: how long it takes to judge it on the person's
   * records tells how many those are. */
  show() {
    if (this.#fetched !== null) this.model.show(this.#fetched);
    this.#fetched = null;
  }

  /** Look on until the run is over; false if it was stopped before.
   * @param {number} every seconds between two looks, about @param {AbortSignal} signal */
  async follow(every, signal) {
    while (!signal.aborted) {
      if (await this.fetch()) return true;
      this.show();
      await new Promise((resolve) => {
        const timer = setTimeout(resolve, 1000 * every * (0.5 + Math.random()));
        signal.addEventListener("abort", () => (clearTimeout(timer), resolve(undefined)));
      });
    }
    return false;
  }
}

/** @param {string} sentence what all have answered */
function showAnswer(sentence) {
  byId("answer-part").hidden = false;
  byId("answer").textContent = sentence;
}

/** @param {any} now as /v1/rounds/open has it */
function showRound({ finished, round, of, released }) {
  byId("progress-part").hidden = false;
  byId("progress-words").textContent = finished
    ? `All ${of} rounds are over`
    : `Round ${round + 1} of ${of} is ${released ? "released" : "open"}`;
  byId("progress").max = of;
  byId("progress").value = round;
}
