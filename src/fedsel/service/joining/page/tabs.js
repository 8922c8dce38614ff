/** One tab of a browser takes part at a time; a lock ends with its tab. */

const LOCK = "fedsel taking part";
const PERIOD = 1_500;

/** Do work alone; false where another tab is at work. @param {() => Promise<void>} work */
export async function alone(work) {
  return navigator.locks.request(LOCK, { ifAvailable: true }, async (lock) => {
    if (lock === null) return false;
    await work();
    return true;
  });
}

/** Say that another tab is at work, for as long as it is, and when it has ended.
 * @param {() => boolean} isOurs @param {(busy: boolean) => void} tell */
export async function watchTabs(isOurs, tell) {
  let told = false;
  for (;;) {
    const { held = [] } = await navigator.locks.query();
    const busy = !isOurs() && held.some(({ name }) => name === LOCK);
    if (busy || told) tell(busy); // again while it lasts: the other tab fills the ledger
    told = busy;
    await new Promise((resolve) => setTimeout(resolve, PERIOD));
  }
}
