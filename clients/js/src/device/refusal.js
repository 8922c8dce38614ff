/** How a device says no: fixed sentences that depend on public things alone. */

/** Why a request was refused: from the request, the policy and past reports, never the data. */
export const REASONS = Object.freeze({
  MALFORMED: "the request cannot be understood",
  VERSION: "the request is of an unknown version",
  SIGNATURE: "the request or its weights are not signed by the key in the policy of this device",
  WEIGHTS: "the weights do not have the announced shape, type and range",
  NOT_ALLOWED: "the policy of this device does not allow such a task",
  PURPOSE: "the policy of this device does not allow the purpose or the recipient of the request",
  TOO_MUCH: "the report would cost more than the policy of this device allows for one report",
  EXHAUSTED: "the budget of this device does not suffice for the report",
  CLOCK:
    "the clock of this device is far ahead of its last report: its owner must confirm the time",
  TOO_OFTEN: "this device has reported as often as its policy allows for now",
  OUT_OF_ORDER: "the round is older than one that this device has answered",
  CONFLICT: "the request contradicts an earlier one of the same run",
  LEDGER: "the ledger of this device cannot be used",
  INTERNAL: "the device could not answer",
});

/** What can be wrong with a ledger: said to the owner of the device. */
export const FAULTS = Object.freeze({
  MISSING: "there is no ledger: create it once, with Client.open(…, { create: true })",
  OCCUPIED: "the store holds other things but no ledger, or a witness but not its ledger",
  FOREIGN: "this is not a ledger of fedsel, or it has another version",
  DAMAGED: "the ledger is damaged, so nothing is sent",
  DISAGREES: "ledger and witness disagree: one was restored from a copy or belongs elsewhere",
  BUSY: "another tab or process holds the ledger",
  UNREADABLE: "the ledger cannot be read: no permission, or the storage is failing",
  UNWRITABLE: "the ledger cannot be written: read-only, or the storage is full or failing",
  LIFETIME:
    "the lifetime of the policy is above the lifetime of the ledger: lower it, or raise it on record with Client.open(…, { raisedBy })",
  LIMITS:
    "the policy allows more than the limits of the ledger: make it as strict, or allow it on record with Client.open(…, { raisedBy })",
});

/** @typedef {keyof typeof REASONS} Reason */
/** @typedef {keyof typeof FAULTS} Fault */

/** A request that a device does not answer. Nothing was spent, and nothing left the device. */
export class Refused extends Error {
  /** @param {Reason} reason */
  constructor(reason) {
    super(REASONS[reason]);
    this.name = "Refused";
    this.reason = reason;
  }

  /** The same refusal without what led to it. @returns {Refused} */
  afresh() {
    return new Refused(this.reason);
  }
}

/** The ledger cannot be used, so nothing is sent. Never mended or reset silently. */
export class LedgerError extends Refused {
  /** @param {Fault} fault @param {string} [about] what of the ledger, where the fault alone does not say */
  constructor(fault, about = "") {
    super("LEDGER");
    this.name = "LedgerError";
    this.message = `${FAULTS[fault]}${about && ` (${about})`}`;
    this.fault = fault;
    this.about = about;
  }

  /** @override */
  afresh() {
    return new LedgerError(this.fault, this.about);
  }
}
