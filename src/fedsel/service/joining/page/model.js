/** The model as it learns, and what it says of a person's own records: computed here. */

import { InvalidArgument, Model } from "./client/index.js";
import { byId, coefficientTable, curve, percent, shareTable } from "./show.js";

const MOST_CLASSES = 12;

export class ModelView {
  #rounds;
  /** @type {Model | null} */
  #model = null;
  /** @type {import("./data.js").Records | null} */
  #records = null;
  /** Accuracy on the person's records by round. @type {[number, number][]} */
  #seen = [];

  /** @param {import("./client/wire/contract.js").Announcement} task */
  constructor({ rounds = 1 }) {
    this.#rounds = rounds;
    byId("record").addEventListener("input", () => this.#showSaid());
  }

  /** @param {import("./data.js").Records | null} records */
  use(records) {
    this.#records = records;
    this.#seen = [];
    byId("curve").replaceChildren();
    byId("record").value = "1";
    byId("record").max = String(records?.X.length ?? 1);
    byId("which-record").hidden = (records?.X.length ?? 0) < 2;
    this.#showOwn();
  }

  /** @param {unknown} json as /v1/model.json has it */
  show(json) {
    try {
      this.#model = Model.of(json);
    } catch (error) {
      if (!(error instanceof InvalidArgument)) throw error;
      return; // whatever it is, it says nothing of a record
    }
    const { linear, schema, classes, pipeline, weights } = this.#model;
    if (linear === null || schema === null || pipeline === null || !weights.some(Boolean)) {
      this.#model = null; // no round has taught it anything
      return;
    }
    this.#showOwn();
    const { low, high } = pipeline.scale;
    const widths = Array.from(high, (end, j) => end - low[j]);
    const names = linear.coefficients.length > 1 ? (classes ?? []).map(String) : null;
    const table = coefficientTable(schema.features, linear.coefficients, widths, names);
    byId("coefficients").replaceChildren(table);
    byId("coefficients").hidden = false;
  }

  /** How good the model is on the records, and what it says of one of them. */
  #showOwn() {
    byId("says").hidden = this.#model === null || !this.#records?.X.length;
    this.#showSaid();
    if (this.#model === null || this.#records === null) return;
    const { classes, about } = this.#model;
    const { X, y } = this.#records;
    const schema = /** @type {import("./client/index.js").Schema} */ (this.#model.schema);
    const known = y.flatMap((label, i) => (Number.isNaN(schema.target(label)) ? [] : [i]));
    if (known.length < 2) return void (byId("own").textContent = "");
    const here = "Computed in this page, from data that stays here.";
    if (classes === null) {
      const errors = known.map((i) => Math.abs(Number(this.#model?.predict(X[i])) - Number(y[i])));
      const mean = errors.reduce((a, b) => a + b) / errors.length;
      byId("own").textContent =
        `On your data the model is off by ${mean.toPrecision(3)} on average. ${here}`;
      return;
    }
    const right = known.filter((i) => this.#isRight(i)).length;
    const share = right / known.length;
    const rounds = Number(about.rounds) || 0;
    this.#seen = [...this.#seen.filter(([round]) => round < rounds), [rounds, share]];
    byId("own").textContent =
      `It is right on ${right} of your ${known.length} records (${percent(share)}). ${here}`;
    byId("curve").replaceChildren(curve(this.#seen, this.#rounds));
  }

  /** @param {number} i */
  #isRight(i) {
    const { schema, classes } = /** @type {Model} */ (this.#model);
    const { X, y } = /** @type {import("./data.js").Records} */ (this.#records);
    return (
      classes?.indexOf(/** @type {Model} */ (this.#model).predict(X[i])) === schema?.target(y[i])
    );
  }

  /** What the model says of the chosen record. */
  #showSaid() {
    const [model, records] = [this.#model, this.#records];
    const at = Math.round(Number(byId("record").value)) - 1;
    const record = records?.X[at];
    if (model === null || model.schema === null || records === null || record === undefined) {
      byId("says-words").textContent = "";
      byId("says-shares").replaceChildren();
      return;
    }
    const said = model.predict(record);
    const known = !Number.isNaN(model.schema.target(records.y[at]));
    if (model.classes === null) {
      const own = known ? ` Your record says ${records.y[at].trim()}.` : "";
      byId("says-words").textContent = `${Number(said).toPrecision(4)}.${own}`;
      return;
    }
    const verdict = this.#isRight(at) ? "right" : "wrong";
    byId("says-words").textContent = `“${said}”${known ? `, which is ${verdict}` : ""}.`;
    if (model.loss !== "logistic") return;
    const shares = model.probabilities(record);
    const order = shares.map((_, c) => c).sort((a, b) => shares[b] - shares[a]);
    const rows = order
      .slice(0, MOST_CLASSES)
      .map(
        (c) =>
          /** @type {[string, number]} */ ([
            String(/** @type {readonly unknown[]} */ (model.classes)[c]),
            shares[c],
          ]),
      );
    byId("says-shares").replaceChildren(shareTable(rows));
  }
}
