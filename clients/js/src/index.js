/** fedsel on a device: answers a server's requests under local differential privacy.
 *
 * `Client`, `BrowserStore` and `join` are all that a page needs; in Node take `FileStore` of
 * "fedsel/node".
 */

export { Client } from "./device/client.js";
export { Policy } from "./device/policy.js";
export { FAULTS, LedgerError, REASONS, Refused } from "./device/refusal.js";
export { InvalidArgument, InvalidData } from "./errors.js";
export { Fraction } from "./exact/fraction.js";
export { readRequest } from "./facts.js";
export { ENDINGS, Ended } from "./joining/connection.js";
export { Session, join } from "./joining/session.js";
export { LinearModel, MulticlassModel } from "./models/linear.js";
export { Model } from "./models/model.js";
export { Plan, Preparation } from "./models/preparation.js";
export { RecordPipeline } from "./models/pipeline.js";
/** @deprecated It is `RecordPipeline` now; the old name works until 0.2. */
export { RecordPipeline as Preparing } from "./models/pipeline.js";
export { LinearRecords } from "./models/records.js";
export { Schema } from "./models/schema.js";
export { FeatureScale } from "./models/scale.js";
export { PRIVATE as SOLUTIONS } from "./solutions/names.js";
export { BrowserStore } from "./stores/browser.js";
