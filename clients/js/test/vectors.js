/** The test vectors of every language, case by case: the same checks in Node and in a page. */

import "./surroundings.js"; // before anything of the client
import * as device from "./checks/device.js";
import { questions } from "./checks/questions.js";
import { windows } from "./checks/windows.js";
import { draws, laws, publics } from "./checks/laws.js";
import { Mismatch } from "./checks/reading.js";

const CHECKS = {
  ...{ laws, draws, public: publics, reports: { reports: device.run } },
  ...{ requests: device.requests, messages: device.messages, policies: device.policies },
  ...{ ledgers: device.ledgers, updates: device.updates, windows, questions },
};

export const KINDS = Object.keys(CHECKS);

/** Failures of a file of vectors, and how many cases there were. */
export async function failures(kind, cases) {
  const wrong = [];
  for (const [number, one] of cases.entries()) {
    const check = CHECKS[kind][one.kind ?? kind];
    try {
      if (check === undefined) throw new Mismatch("nothing checks cases of this kind");
      await check(one);
    } catch (error) {
      wrong.push(`${kind} ${number} (${one.kind ?? ""} ${one.shows ?? ""}): ${error.message}`);
    }
  }
  return wrong;
}
