/** What a service tells its devices in JSON: the announcement of a task, and verdicts on reports.
 *
 * A device believes an announcement as far as it makes sense; the request alone is what counts.
 *
 * @typedef {object} Announcement a task as its service announces it at /v1/task
 * @property {string} name
 * @property {string} run in hexadecimal digits
 * @property {"signed" | "open"} invitations
 * @property {number} rounds_per_epoch
 * @property {{ seconds?: number }} close_after
 * @property {Schema | null} schema what devices make of their records; null: they bring own updates
 * @property {string | null} loss
 * @property {Shuffled | null} shuffle reports leave sealed, by way of a relay; null: to the service
 * @property {Measures | null} measure which rounds measure the model; null: none
 * @property {Question | null} question what is asked in place of training; null: nothing
 * @property {string} [purpose] this and what follows is for people
 * @property {string} [recipient]
 * @property {string} [solution]
 * @property {number} [rounds]
 *
 * How the last `rounds` of each epoch measure the model, with one report of `epsilon` of a device that
 * does not train. `answers` has M of each question.
 * @typedef {{ rounds: number, epsilon: number, answers: readonly number[] }} Measures
 *
 * What became of a report; null where an answer does not say.
 * @typedef {"accepted" | "duplicate" | "late" | "early" | "conflict" | "rejected" | null} Verdict
 */

import { InvalidArgument, checkCount, checkPositive, own } from "../errors.js";
import { LinearModel, REGRESSING } from "../models/linear.js";
import { MOST_QUESTIONS } from "../models/model_question.js";
import { Question } from "../models/question.js";
import { Schema } from "../models/schema.js";
import { MOST_ANSWERS } from "../solutions/blocks.js";
import { Shuffled } from "./shuffled.js";

const MOST_ROUNDS = 2 ** 32 - 1;

/** The announcement of a service's JSON; null for anything else. @param {Uint8Array} body
 * @returns {Announcement | null} */
export function readAnnouncement(body) {
  try {
    const values = own(JSON.parse(new TextDecoder().decode(body)));
    const { name, run, invitations, loss } = values;
    const { reports, seconds } = own(values.close_after);
    checkCount("rounds_per_epoch", values.rounds_per_epoch, { most: MOST_ROUNDS });
    if (reports != null) checkCount("reports", reports);
    if (seconds != null) checkPositive("seconds", seconds);
    const schema = values.schema === null ? null : new Schema(values.schema);
    const known =
      isText(name) &&
      /^([0-9a-f]{2}){16}$/.test(run) &&
      (invitations === "signed" || invitations === "open") &&
      (reports != null || seconds != null) &&
      suits(schema, loss);
    const shuffle = values.shuffle == null ? null : new Shuffled(values.shuffle);
    const measure = values.measure == null ? null : measuresOf(values.measure);
    const question = values.question == null ? null : new Question(values.question);
    const rule = { seconds: seconds ?? undefined };
    const parts = { schema, shuffle, measure, question, close_after: rule };
    return known ? { ...values, ...parts } : null;
  } catch {
    return null;
  }
}

/** @param {unknown} given @returns {Measures} */
function measuresOf(given) {
  const { rounds, epsilon, answers } = own(/** @type {any} */ (given));
  checkCount("rounds", rounds, { most: MOST_ROUNDS });
  checkPositive("epsilon", epsilon);
  if (!Array.isArray(answers)) throw new InvalidArgument("answers", answers, "a list");
  checkCount("answers", answers.length, { most: MOST_QUESTIONS });
  for (const count of answers) checkCount("answers", count, { least: 2, most: MOST_ANSWERS });
  return { rounds, epsilon, answers };
}

/** @param {unknown} value */
function isText(value) {
  return typeof value === "string" && value !== "";
}

/** Whether the labels of a schema are what a loss predicts. @param {Schema | null} schema
 * @param {any} loss */
function suits(schema, loss) {
  if (schema === null) return loss === null;
  new LinearModel({ loss });
  return REGRESSING.includes(loss) === (schema.targetRange !== null);
}

/** The verdict of an HTTP answer to a report. @param {number} status @param {Uint8Array} body
 * @returns {Verdict} */
export function readVerdict(status, body) {
  const word = wordOf(body);
  if (status === 200) return word === "accepted" || word === "duplicate" ? word : null;
  if (status === 409) return word === "early" ? "early" : "conflict";
  if (status === 410) return "late";
  return status === 400 ? "rejected" : null;
}

/** The fixed word of a service's JSON answer: what became of a request. @param {Uint8Array} body */
export function wordOf(body) {
  try {
    const values = own(JSON.parse(new TextDecoder().decode(body)));
    return String(values.outcome ?? values.error ?? "").slice(0, 40);
  } catch {
    return "";
  }
}
