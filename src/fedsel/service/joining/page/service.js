/** What the page shows of the run, from the service that it came from: the only one that it speaks to.
 * Its addresses are relative to the page's own, which may lie below any path. */

/** The address of the service, for the device's session. */
export const ADDRESS = new URL(".", location.href).href;

const TIMEOUT = 30_000;

/** A whole answer; null where there is none for now. What is shown can wait for the next time.
 * @param {string} path */
async function fetched(path) {
  try {
    const answer = await fetch(`${ADDRESS}v1/${path}`, {
      signal: AbortSignal.timeout(TIMEOUT),
      credentials: "omit",
      redirect: "manual",
    });
    return answer.status === 200 ? new Uint8Array(await answer.arrayBuffer()) : null;
  } catch {
    return null; // also where the connection ended within the answer
  }
}

/** @param {string} path @returns {Promise<any>} */
export async function getJson(path) {
  const body = await fetched(path);
  try {
    return body && JSON.parse(new TextDecoder().decode(body));
  } catch {
    return null;
  }
}
