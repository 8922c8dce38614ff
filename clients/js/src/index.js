/** fedsel on a device: answers a server's requests under local differential privacy.
 *
 * `Client` and `BrowserStore` are all that a page needs; in Node take `FileStore` of "fedsel/node".
 */

export { Client } from "./device/client.js";
export { Policy } from "./device/policy.js";
export { FAULTS, LedgerError, REASONS, Refused } from "./device/refusal.js";
export { InvalidArgument, InvalidData } from "./errors.js";
export { Fraction } from "./exact/fraction.js";
export { readRequest } from "./facts.js";
export { LinearModel } from "./models/linear.js";
export { Plan, Preparation } from "./models/preparation.js";
export { Preparing } from "./models/preparing.js";
export { LinearRecords } from "./models/records.js";
export { FeatureScale } from "./models/scale.js";
export { PRIVATE as SOLUTIONS } from "./solutions/names.js";
export { BrowserStore } from "./stores/browser.js";
