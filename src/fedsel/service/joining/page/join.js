/** The page at /join: shows what is asked, and what the device in this browser does.
 *
 * @typedef {import("./client/joining/session.js").Outcome} Outcome
 */

import { Ledger } from "./client/device/ledger.js";
import { BrowserStore, Client, ENDINGS, LedgerError, Session } from "./client/index.js";
import { ADDED_BYTES } from "./client/sealing/sealing.js";
import { chooseData } from "./choosing.js";
import { hideFragment, randomName, tokenOfLink, wrongWith } from "./invitation.js";
import { kept } from "./keeping.js";
import { Keys, showGuarantee } from "./keys.js";
import { Limits } from "./limits.js";
import { exactly } from "./meaning.js";
import { ModelView } from "./model.js";
import { answersOf, listedAnswers, measured, questionWords, runsOf } from "./question.js";
import { RunView } from "./run.js";
import { ADDRESS } from "./service.js";
import { byId, showFacts, showLedger, showReports } from "./show.js";
import { alone, watchTabs } from "./tabs.js";

const ANEW = {
  none: [
    "There is no ledger in this browser yet. It is created when you take part, and counts what you spend.",
    "I have not taken part from this browser before; or I have, and know that what I spent then is not counted any more.",
  ],
  lost: [
    "The ledger of this browser is gone: its data was cleared. What you have spent is not known any more, and nothing is sent unless you begin anew.",
    "Begin anew: earlier reports stay sent, and what I spend now comes on top of them.",
  ],
};
/** Who allows more, or confirms the clock, as the ledger says. */
const PERSON = "the person at this page";
/** Seconds between two looks at the service, about. */
const EVERY = 3;
const ELSEWHERE = "Another tab of this browser is taking part. This one waits.";
const WAITING = {
  epoch:
    "Your report of this epoch is made. The next one follows in the next epoch; you can leave this page open.",
  turn: "Your turn is a later round of this epoch, chosen at random: so every round has its reports.",
  last: "Your last report is made. The run is over when the others have sent theirs.",
  measures:
    "Chance has chosen this device to measure the model and not to train it. It waits for a round that measures; you can leave this page open.",
  trains:
    "Other devices measure the model in this round. Yours trains, and waits for a round that does.",
  service: "The service cannot be reached. The same bytes are sent again as soon as it answers.",
};

const ENDED = {
  DONE: "What was paid for has been sent.",
  STOPPED: "Paused. Nothing more is sent until you take part again.",
  INVITATION:
    "The service does not know this invitation. Correct it and take part again; nothing was spent for it.",
  UNINVITED:
    "Stopped: the service does not take this invitation any more. What was charged stays charged; with another invitation it can still be sent.",
  NOT_UNDERSTOOD:
    "Stopped: the service does not answer as a service of fedsel would. What was charged stays charged, and is sent when you take part again.",
  CONFLICT:
    "Stopped: the service holds another report in place of yours. Does another browser use the same invitation, or was this one's data cleared?",
};

class Page {
  /** @type {import("./data.js").Records | null} */
  #records = null;
  /** @type {AbortController | null} */
  #work = null;
  #busy = false;
  /** @type {"there" | "none" | "lost" | "broken"} */
  #ledger = "none";

  /** @param {import("./client/wire/contract.js").Announcement} task @param {import("./client/facts.js").Facts} facts
   * @param {BrowserStore} store @param {RunView} view @param {Keys} keys */
  constructor(task, facts, store, view, keys) {
    this.task = task;
    this.store = store;
    this.view = view;
    this.keys = keys;
    this.limits = new Limits(facts, keys, task);
    this.runs = runsOf(task);
  }

  async begin() {
    const { task } = this;
    const own = await kept(task.run);
    const history = await this.#look();
    this.view.changed = async () => void (await this.#look());
    this.limits.begin(own, history);
    byId("token").value = tokenOfLink() || own.token || "";
    byId("invitation").hidden = task.invitations === "open" && !byId("token").value.includes(".");
    chooseData(task, (records, ready) => {
      this.#records = ready ? records : null;
      this.view.model.use(records);
      this.#enable();
    });
    byId("form").addEventListener("submit", (/** @type {Event} */ event) => {
      event.preventDefault();
      if (!byId("go").disabled) void this.#takePart(this.#records);
    });
    byId("send-now").addEventListener("click", () => void this.#takePart(null));
    byId("stop").addEventListener("click", () => this.#work?.abort());
    byId("form").addEventListener("input", () => this.#enable());
    addEventListener("hashchange", () => location.reload()); // another link is another invitation
    void watchTabs(
      () => this.#work !== null,
      (busy) => {
        this.#busy = busy;
        if (busy) state(ELSEWHERE);
        else if (this.#work === null) state("The other tab has ended. You can go on here.");
        void this.#look().then(() => this.#enable());
      },
    );
    this.#enable();
  }

  /** Show the ledger as it is; null where there is none. */
  async #look() {
    const { task, store } = this;
    const own = await kept(task.run);
    const { outcomes = {} } = own;
    try {
      if (!(await store.exists())) {
        const before = (await kept("ledger")).created;
        this.#ledger = before || this.#ledger !== "none" ? "lost" : "none";
        byId("ledger").hidden = true;
        byId("reports").replaceChildren();
        byId("send-now").hidden = true;
        byId("storage").textContent = "There is no ledger in this browser.";
        return null;
      }
      const history = await historyOf(store);
      this.#ledger = "there";
      showLedger(history);
      showReports(history, task, own, this.view.released);
      const waiting = history.entries.filter((e) => this.runs.has(e.run) && !outcomes[e.round]);
      byId("send-now").hidden = !waiting.length || this.#work !== null || this.#busy;
      await this.#tellStorage();
      return history;
    } catch (error) {
      if (!(error instanceof LedgerError)) throw error;
      this.#ledger = "broken";
      const anew = "Only clearing this site's data in your browser begins anew.";
      trouble(`The ledger cannot be used: ${error.message}. Nothing is sent. ${anew}`);
      return null;
    }
  }

  async #tellStorage() {
    byId("storage").textContent = (await this.store.isPersistent())
      ? "Your browser has promised not to clear the ledger to make room."
      : "Your browser has not promised to keep the ledger: it may clear it when space is short, or when this site is not visited for long.";
  }

  /** What can be done now, and why not. */
  #enable() {
    const anew = this.#ledger === "none" || this.#ledger === "lost";
    byId("anew").hidden = !anew || this.#work !== null;
    if (anew) {
      const [why, label] = ANEW[this.#ledger === "lost" ? "lost" : "none"];
      byId("anew-why").textContent = why;
      byId("anew-label").textContent = label;
    }
    const late = this.limits.clockIsAhead;
    byId("clock").hidden = !late || this.#work !== null;
    byId("clock-time").textContent = new Date().toLocaleString();
    const agreed = (!anew || byId("anew-yes").checked) && (!late || byId("clock-yes").checked);
    const free = this.#ledger !== "broken" && !this.#busy && this.#work === null;
    byId("go").disabled = !(this.#records !== null && agreed && this.keys.agreed && free);
    byId("go").hidden = this.#work !== null;
    byId("stop").hidden = this.#work === null;
    for (const field of byId("form").querySelectorAll("input, select")) {
      field.disabled = this.#work !== null;
    }
    if (this.#busy) said("Another tab of this browser is taking part.");
    else if (this.#work) said("");
    else if (this.#records === null) said("Choose your data first.");
    else if (!(agreed && this.keys.agreed)) said("Tick the box above to begin.");
    else said("Ready. Nothing leaves before you press the button.");
  }

  /** @param {import("./data.js").Records | null} records none: send what is paid for */
  async #takePart(records) {
    const policy = this.limits.policy();
    const own = await kept(this.task.run);
    const isOpen = this.task.invitations === "open";
    const token = byId("token").value.trim() || (isOpen ? randomName() : "");
    const wrong = wrongWith(token, this.task);
    if (policy === null) return void byId("lifetime").focus();
    if (wrong) {
      byId("invitation").hidden = false;
      byId("token").focus();
      return said(wrong, true);
    }
    trouble("");
    this.#work = new AbortController();
    const { signal } = this.#work;
    this.#enable();
    byId("stop").focus();
    let text = "";
    const done = await alone(async () => {
      try {
        text = await this.#run(policy, token, own, records, signal);
      } catch (error) {
        text = "Stopped: something went wrong in this page.";
        if (!(error instanceof LedgerError)) console.error(error);
        else if (error.fault === "MISSING") text = "Stopped: the ledger is gone. Nothing is sent.";
        else text = `Stopped: ${error.message}. Nothing is sent.`;
      }
    });
    const wasThere = document.activeElement === byId("stop"); // which is about to go
    this.#work = null;
    this.#busy = !done;
    for (const id of ["anew-yes", "clock-yes"]) byId(id).checked = false;
    this.limits.know(await this.#look());
    state(done ? text : ELSEWHERE);
    this.#enable();
    if (wasThere) byId("go").disabled ? byId("state").focus() : byId("go").focus();
  }

  /** Take part until it ends; why it has. @param {import("./client/index.js").Policy} policy
   * @param {string} token @param {import("./keeping.js").Kept} own
   * @param {import("./data.js").Records | null} records @param {AbortSignal} signal */
  async #run(policy, token, own, records, signal) {
    const { task, store, view } = this;
    const create = this.#ledger !== "there" && byId("anew-yes").checked;
    const raisedBy = this.limits.raises(policy) ? PERSON : undefined;
    const client = await Client.open(policy, store, { create, raisedBy });
    if (this.limits.clockIsAhead && byId("clock-yes").checked) await client.confirmClock(PERSON);
    if (create) [own.outcomes, own.asked] = [{}, {}];
    await kept("ledger", { created: true });
    await kept(task.run, {
      token,
      ...this.keys.kept,
      ...this.limits.written,
      outcomes: own.outcomes ?? {},
      asked: own.asked ?? {},
    });
    byId("token").value = token;
    hideFragment();
    state("Taking part …");
    await this.#look();
    const session = new Session(ADDRESS, {
      ...{ token, signal, every: EVERY, patience: Infinity },
      // The same question is the same run wherever it is asked again: its report is sent again.
      answered:
        task.question === null ? Math.max(-1, ...Object.keys(own.outcomes ?? {}).map(Number)) : -1,
      tell: (event) => this.#tell(event),
    });
    const { entries } = await client.history();
    const unsent = entries.filter((e) => this.runs.has(e.run) && !own.outcomes?.[e.round]);
    const rounds = unsent.map(({ round }) => round);
    const sent = rounds.length || records === null ? await session.deliver(client, rounds) : null;
    const goesOn = records !== null && (sent === null || sent.ending === "DONE");
    let outcome = goesOn ? await session.join(client, records) : /** @type {Outcome} */ (sent);
    if (outcome.ending === "DONE" && records !== null) {
      state(WAITING.last);
      if (!(await view.follow(EVERY, signal))) return ended("STOPPED");
      outcome = { ...outcome, ending: "FINISHED" };
    }
    view.show();
    if (outcome.ending === "FINISHED") {
      return `The run is over. Thank you: you spent ε = ${exactly(outcome.history.spent)} in all.`;
    }
    if (outcome.ending === "UNINVITED") {
      byId("invitation").hidden = false;
      const { outcomes = {} } = await kept(task.run);
      const { entries } = outcome.history;
      const paid = entries.some((e) => this.runs.has(e.run) && !outcomes[e.round]);
      return ended(paid ? "UNINVITED" : "INVITATION");
    }
    return ended(outcome.ending, outcome.detail);
  }

  /** Show what the device has done. @param {import("./client/joining/session.js").Event} event */
  async #tell(event) {
    const { view } = this;
    const { run, schema } = this.task;
    if (event.kind === "charged" && event.asked !== null) {
      const { asked = {} } = await kept(run);
      const about = measured(event.asked, schema?.classNames);
      await kept(run, { asked: { ...asked, [event.round]: about } });
    }
    if (event.kind === "judged") {
      const { outcomes = {} } = await kept(run);
      const verdict = event.verdict === "duplicate" ? "accepted" : event.verdict;
      await kept(run, { outcomes: { ...outcomes, [event.round]: verdict } });
    }
    if (event.kind === "judged" || event.kind === "charged") await this.#look();
    if (event.kind === "waiting" && event.for === "role") {
      state(event.measures ? WAITING.measures : WAITING.trains);
    } else if (event.kind === "waiting") state(WAITING[event.for]);
    if (event.kind === "polled") {
      await historyOf(this.store); // a ledger that is gone ends it
      await view.fetch();
    }
    if (event.kind === "idle") view.show();
  }
}

/** Why taking part has ended, in words. @param {keyof typeof ENDED | keyof typeof ENDINGS} ending
 * @param {string} [detail] */
function ended(ending, detail) {
  const words = ENDED[/** @type {keyof typeof ENDED} */ (ending)];
  if (words) return words;
  const why = detail || ENDINGS[/** @type {keyof typeof ENDINGS} */ (ending)];
  return `Stopped: ${why}${why.endsWith("?") ? "" : "."} Nothing more was spent.`;
}

/** What a ledger says, without changing anything. @param {BrowserStore} store */
async function historyOf(store) {
  return new Ledger(store).history();
}

/** What this browser has sent in a run that is over. @param {import("./client/wire/contract.js").Announcement} task
 * @param {BrowserStore} store @param {number} released so many rounds were, by a relay */
async function showPast(task, store, released) {
  if (!(await store.exists())) return;
  const history = await historyOf(store);
  showLedger(history);
  showReports(history, task, await kept(task.run), released);
  byId("storage").textContent = "";
}

/** @param {string} text */
function state(text) {
  if (byId("state").textContent !== text) byId("state").textContent = text;
}

/** @param {string} text @param {boolean} [bad] */
function said(text, bad = false) {
  byId("go-said").textContent = text;
  byId("go-said").classList.toggle("bad", bad);
}

/** @param {string} text */
function trouble(text) {
  byId("trouble").textContent = text;
  byId("trouble").hidden = !text;
}

/** @param {import("./client/wire/contract.js").Announcement} task @param {import("./client/facts.js").Facts | null} facts */
function showAsked(task, facts) {
  document.title = `Take part: ${task.name}`;
  byId("title").textContent = `Take part in “${task.name}”`;
  const { purpose, recipient: receives } = facts ?? task; // a run that is over has no request
  const { question, measure } = task;
  const what = question === null ? "the model is" : "the answers are";
  byId("purpose").textContent = purpose || `The service does not say what ${what} for.`;
  const gets = question === null ? "Who gets the model" : "Who gets the answers";
  if (question !== null) showQuestion(question);
  if (facts === null) return showFacts(byId("asked"), [[gets, receives || "not said"]]);
  const { recipient, epochs, charge, solution, dim } = facts;
  const sealed = task.shuffle !== null;
  if (task.shuffle !== null) showGuarantee(task.shuffle, facts);
  const bytes = `${facts.reportBytes + (sealed ? ADDED_BYTES : 0)}${sealed ? " sealed" : ""} bytes`;
  if (measure !== null) showMeasuring(measure, solution === "BR");
  const numbers = solution === "BR" ? "answers" : dim === 1 ? "number" : "numbers";
  showFacts(byId("asked"), [
    [gets, recipient || "not said"],
    [
      "Asked of you",
      epochs === 1 ? `one report of ${bytes}` : `${epochs} reports of ${bytes}, one an epoch`,
    ],
    ["ε of each", exactly(charge)],
    ["ε in all", exactly(charge.times(BigInt(epochs)))],
    ["Mechanism", `${solution}, ${dim} ${numbers}`],
  ]);
}

/** @param {import("./client/models/question.js").Question} question */
function showQuestion(question) {
  byId("question").hidden = false;
  byId("question-words").textContent = questionWords(question);
  const answers = answersOf(question);
  const count = answers.length.toLocaleString("en-US");
  byId("possible").hidden = answers.length === 1;
  byId("possible-count").textContent = `The ${count} possible answers`;
  byId("possible-answers").textContent = listedAnswers(answers);
  byId("model-part").hidden = true;
}

/** @param {import("./client/wire/contract.js").Measures} measure @param {boolean} now whether the open
 * round measures */
function showMeasuring({ epsilon }, now) {
  byId("measuring").hidden = false;
  byId("measuring-words").textContent = now
    ? "The open round measures the model instead of training it: the one report of a device that takes part now is about whether the model is right about its record."
    : `Some devices measure the model instead of training it; chance decides which. Such a device makes one report, of ε = ${epsilon}, on whether the model is right about its record. It trains in no round.`;
}

async function main() {
  const tell = (/** @type {import("./client/joining/session.js").Event} */ { kind }) =>
    kind === "waiting" && trouble("The service cannot be reached. Trying again …");
  const offer = await new Session(ADDRESS, {
    patience: Infinity,
    tell,
  }).offer();
  const { task, request: facts } = offer;
  trouble("");
  showAsked(task, facts);
  const model = new ModelView(task);
  const view = new RunView(model, task.question === null);
  await view.fetch();
  view.show();
  if (facts === null) {
    for (const id of ["limits-part", "join-part"]) byId(id).hidden = true;
    byId("steps").hidden = task.schema === null;
    const more = task.schema === null ? "" : " The model can still be asked about your data.";
    state(`The run is over: nobody can take part any more.${more}`);
    if (navigator.locks) await showPast(task, new BrowserStore(), view.released);
    if (task.schema !== null) chooseData(task, (records) => model.use(records));
    return;
  }
  if (task.schema === null && task.question === null) {
    trouble("This task is for devices that compute updates of their own. A page cannot take part.");
    return;
  }
  if (!navigator.locks) {
    trouble("This page must come by https, or from this machine: it needs locks between tabs.");
    return;
  }
  const keys = new Keys(task.shuffle, await kept(task.run));
  const objection = await keys.objection();
  if (objection) return trouble(objection);
  await new Page(task, facts, new BrowserStore(), view, keys).begin();
}

main().catch((error) => {
  console.error(error);
  trouble(`This page cannot go on: ${error?.message ?? "something went wrong"}.`);
});
