/** The names of solutions: those that a device may be asked for, and those that it refuses. */

export const SELECTING = ["EXP", "PE", "PS", "PE-published"];
export const PERTURBING = ["PM", "HM", "Duchi", "OW"];
export const UNSCALED = "RS-";
const PLAIN = ["NP", "NP-RS", "NP-K", "RS"];
const SUFFIXES = ["", "-C", "-O", "-C-O"];
const ONE_SYMBOL = ["J", "UJ", "RJ", "RC", "FJ"];
const ANSWERING = ["BR"];
const BASELINES = ["PrivUnit", "Duchi-L2", "SignDS"];

/** Those that a certificate covers. */
export const PRIVATE = [
  ...PERTURBING.flatMap((value) => [value, `${value}-RP`, `${UNSCALED}${value}`]),
  ...SELECTING.flatMap((s) => PERTURBING.flatMap((v) => SUFFIXES.map((x) => `${s}-${v}${x}`))),
  ...ONE_SYMBOL,
  ...ANSWERING,
];
const REFUSED = [...PLAIN, ...SELECTING.flatMap((s) => [s, `${s}-O`]), ...BASELINES];
const KNOWN = new Map([...PRIVATE, ...REFUSED].map((name) => [name.toLowerCase(), name]));
const ARE_PRIVATE = new Set(PRIVATE);

/** A solution's name as it is written; null for one that nobody knows. @param {string} name */
export function canonical(name) {
  return KNOWN.get(name.toLowerCase()) ?? null;
}

/** @param {string} name */
export function isPrivate(name) {
  return ARE_PRIVATE.has(name);
}

/** Whether a solution reports which of M public answers a client has. @param {string} name */
export function isQuestion(name) {
  return ANSWERING.includes(name);
}

/** The selection that a name of two stages begins with, the value that it tells, and its suffixes.
 * @param {string} name */
export function stagesOf(name) {
  const byLength = [...SELECTING].sort((a, b) => b.length - a.length);
  const selection = byLength.find((known) => name.startsWith(`${known}-`));
  if (selection === undefined) return null;
  const rateInside = name.endsWith("-O");
  const plain = rateInside ? name.slice(0, -2) : name;
  const control = plain.endsWith("-C");
  const value = (control ? plain.slice(0, -2) : plain).slice(selection.length + 1);
  return { selection, value, control, rateInside };
}
