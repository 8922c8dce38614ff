/** Errors that name the argument, its value and what is allowed; private data is never in them. */

export class InvalidArgument extends RangeError {
  /** @param {string} argument @param {unknown} value @param {string} allowed */
  constructor(argument, value, allowed) {
    super(`${argument} = ${shown(value)}: must be ${allowed}`);
    this.name = "InvalidArgument";
    this.argument = argument;
    this.value = value;
    this.allowed = allowed;
  }
}

/** Private data that cannot be used; the message never holds any of it. */
export class InvalidData extends RangeError {
  /** @param {string} message */
  constructor(message) {
    super(message);
    this.name = "InvalidData";
  }
}

/** @param {unknown} value */
function shown(value) {
  let text = String(typeof value);
  try {
    const nested = typeof value === "string" || typeof value === "object";
    text = nested ? JSON.stringify(value) : String(value);
  } catch {
    // What has no text: its type must do.
  }
  return text.length <= 200 ? text : `${text.slice(0, 197)}…`;
}

/** The fields that an object has itself, and none that it inherits: what others put into
 * `Object.prototype` is no option of a caller, and in no message.
 * @template {object} T @param {T | null} [fields] @returns {T} */
export function own(fields) {
  return /** @type {T} */ (/** @type {unknown} */ ({ __proto__: null, ...fields }));
}

/** A finite number > 0. @param {string} name @param {unknown} value */
export function checkPositive(name, value) {
  if (typeof value !== "number" || !Number.isFinite(value) || value <= 0) {
    throw new InvalidArgument(name, value, "a finite number > 0");
  }
  return value;
}

/** An integer in least … most. @param {string} name @param {unknown} value
 * @param {{ least?: number, most?: number }} [limits] */
export function checkCount(name, value, limits) {
  const { least = 1, most = Number.MAX_SAFE_INTEGER } = own(limits);
  if (typeof value !== "number" || !Number.isSafeInteger(value) || value < least || value > most) {
    const below = most === Number.MAX_SAFE_INTEGER ? `≥ ${least}` : `in ${least} … ${most}`;
    throw new InvalidArgument(name, value, `an integer ${below}`);
  }
  return value;
}
