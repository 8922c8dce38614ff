/** Records whose public bounds the server knows: bounds, preparation and plan, as a server tells them
 * in JSON beside the request. */

import { InvalidArgument, checkCount, own } from "../errors.js";
import { Plan, Preparation } from "./preparation.js";
import { LinearRecords } from "./records.js";
import { FeatureScale } from "./scale.js";

const MOST_OCTAVES = 64;

/** Public bounds of records, what is learnt about them, and which rounds learn it. */
export class RecordPipeline {
  /** @param {FeatureScale} scale @param {Preparation} preparation @param {Plan | null} [plan] */
  constructor(scale, preparation, plan = null) {
    const features = scale.low.length;
    if (preparation.spread.length !== features) {
      throw new InvalidArgument(
        "preparation",
        preparation.spread.length,
        `of ${features} features`,
      );
    }
    if (plan !== null && plan.features !== features) {
      throw new InvalidArgument("plan", plan.features, `of ${features} features`);
    }
    /** @readonly */
    this.scale = scale;
    /** @readonly */
    this.preparation = preparation;
    /** @readonly */
    this.plan = plan;
  }

  /** From the server's text, of at most so many features. @param {string} text
   * @param {number} most */
  static parse(text, most) {
    return RecordPipeline.of(parsed(text), most);
  }

  /** From plain values, of at most so many features: a few bytes may ask for any number of them. What
   * all features share is there once. @param {unknown} values @param {number} most */
  static of(values, most) {
    if (typeof values !== "object" || values === null) {
      throw new InvalidArgument("pipeline", values, "an object");
    }
    const parts = /** @type {Record<string, any>} */ (own(values));
    const features = checkCount("features", parts.features, { most });
    checkCount("octaves", parts.octaves, { most: MOST_OCTAVES });
    const each = (/** @type {unknown} */ value) =>
      Array.isArray(value) ? value : new Array(features).fill(value);
    const { plan } = parts;
    const learnt = own(parts.preparation);
    const scale = new FeatureScale(each(parts.low), each(parts.high));
    if (scale.low.length !== features) {
      throw new InvalidArgument("feature_range", scale.low.length, `of ${features} features`);
    }
    const preparation = new Preparation({
      ...learnt,
      spread: each(learnt.spread),
      centre: each(learnt.centre),
      origin: learnt.origin === undefined ? undefined : each(learnt.origin),
    });
    const planned = plan === null ? null : new Plan({ ...plan, loose: each(own(plan).loose) });
    return new RecordPipeline(scale, preparation, planned);
  }

  /** A device's raw records, on the scale that all know: what their `update` tells, in which round.
   * @param {readonly ArrayLike<number>[]} X @param {ArrayLike<number>} y
   * @param {import("./linear.js").LinearModel | import("./linear.js").MulticlassModel} [model] */
  records(X, y, model) {
    const plan = this.plan ?? undefined;
    return new LinearRecords(
      X.map((record) => this.scale.apply(record)),
      y,
      { model, plan },
    );
  }
}

/** @param {string} text @returns {unknown} */
function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    throw new InvalidArgument("pipeline", "no JSON", "an object in JSON");
  }
}
