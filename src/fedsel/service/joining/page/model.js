/** The model as it learns, and how good it is on a person's own records: computed here. */

import { RecordPipeline } from "./client/index.js";
import { featureNames, isRegression } from "./data.js";
import { byId, coefficientTable, curve, percent } from "./show.js";

export class ModelView {
  #task;
  /** Public bounds of the features, if the service still tells them.
   * @type {import("./client/index.js").FeatureScale | null} */
  #scale = null;
  /** @type {any} */
  #model = null;
  /** @type {import("./data.js").Records | null} */
  #records = null;
  /** Accuracy on the person's records by round. @type {[number, number][]} */
  #seen = [];

  /** @param {import("./client/wire/contract.js").Announcement} task @param {Uint8Array | null} preparing as told */
  constructor(task, preparing) {
    this.#task = task;
    const features = featureNames(task).length;
    if (preparing !== null && features) {
      this.#scale = RecordPipeline.parse(new TextDecoder().decode(preparing), features + 1).scale;
    }
  }

  /** @param {import("./data.js").Records} records */
  use(records) {
    this.#records = records;
    this.#seen = [];
    if (this.#model) this.show(this.#model);
  }

  /** @param {any} model as /v1/model.json has it */
  show(model) {
    this.#model = model;
    const { linear, rounds } = model;
    if (!linear || !linear.coefficients.some(Boolean)) return;
    this.#showOwn(linear, rounds);
    const scale = this.#scale;
    const widths = scale && Array.from(scale.high, (high, j) => high - scale.low[j]);
    const table = coefficientTable(featureNames(this.#task), linear.coefficients, widths);
    byId("coefficients").replaceChildren(table);
    byId("coefficients").hidden = false;
  }

  /** @param {{ coefficients: number[], constant: number }} linear @param {number} rounds */
  #showOwn(linear, rounds) {
    if (this.#records === null || !this.#records.X.length) return;
    const { X, y } = this.#records;
    const margins = X.map((record) => this.#margin(record, linear));
    const here = "Computed in this page, from data that stays here.";
    if (isRegression(this.#task)) {
      const [low, high] = this.#task.target_range ?? [-1, 1];
      const errors = margins.map((m, i) => Math.abs(Math.max(-1, Math.min(1, m)) - y[i]));
      const mean = ((high - low) / 2) * (errors.reduce((a, b) => a + b) / errors.length);
      byId("own").textContent =
        `On your data the model is off by ${mean.toPrecision(3)} on average. ${here}`;
      return;
    }
    const right = margins.filter((margin, i) => (margin > 0 ? 1 : -1) === y[i]).length;
    if (X.length === 1) {
      const [negative, positive] = this.#task.labels ?? ["−1", "+1"];
      const says = margins[0] > 0 ? positive : negative;
      byId("own").textContent =
        `For your record the model says “${says}”, which is ${right ? "right" : "wrong"}. ${here}`;
      return;
    }
    const share = right / X.length;
    this.#seen = [...this.#seen.filter(([round]) => round < rounds), [rounds, share]];
    byId("own").textContent =
      `It is right on ${right} of your ${X.length} records (${percent(share)}). ${here}`;
    byId("curve").replaceChildren(curve(this.#seen, this.#task.rounds ?? rounds));
  }

  /** @param {number[]} record @param {{ coefficients: number[], constant: number }} linear */
  #margin(record, { coefficients, constant }) {
    const scale = this.#scale;
    return record.reduce((sum, x, j) => {
      const within = scale ? Math.max(scale.low[j], Math.min(scale.high[j], x)) : x;
      return sum + within * coefficients[j];
    }, constant);
  }
}
