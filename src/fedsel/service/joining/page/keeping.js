/** What the page keeps beside the ledger, in IndexedDB: invitation, keys, limits, what has arrived.
 *
 * @typedef {object} Kept of a run
 * @property {string} [token]
 * @property {string} [serverKey]
 * @property {string} [signingKey]
 * @property {string} [lifetime]
 * @property {string} [perReport]
 * @property {string} [window] ε in any interval of that length; empty for none
 * @property {string} [windowLength]
 * @property {Record<string, import("./question.js").Measured | null>} [asked] questions about the model,
 *   by the rounds that asked them
 * @property {Record<string, string>} [outcomes] of reports, by their rounds
 */

const [NAME, TABLE] = ["fedsel joining", "values"];

/** @returns {Promise<IDBDatabase>} */
function open() {
  const request = indexedDB.open(NAME, 1);
  request.onupgradeneeded = () => request.result.createObjectStore(TABLE);
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

/** Change what is kept under a key, durably; what it is then. @param {string} key
 * @param {Record<string, unknown>} [changes] @returns {Promise<any>} */
export async function kept(key, changes = {}) {
  const database = await open();
  try {
    const transaction = database.transaction(TABLE, "readwrite", {
      durability: "strict",
    });
    const table = transaction.objectStore(TABLE);
    const held = table.get(key);
    let value = {};
    held.onsuccess = () => {
      value = { ...held.result, ...changes };
      if (Object.keys(changes).length) table.put(value, key);
    };
    await new Promise((resolve, reject) => {
      transaction.oncomplete = resolve;
      transaction.onabort = () => reject(transaction.error);
      transaction.onerror = () => reject(transaction.error);
    });
    return value;
  } finally {
    database.close();
  }
}
