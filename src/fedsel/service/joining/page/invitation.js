/** Who the device is to the service: an invitation from the link, or a random name of its own. */

/** The token in the link's fragment, which browsers never send; empty if it has none. */
export function tokenOfLink() {
  const fragment = fragmentOfLink();
  return fragment.get("invitation") ?? fragment.get("token") ?? "";
}

/** The keys in the link's fragment. */
export function keysOfLink() {
  const fragment = fragmentOfLink();
  return {
    serverKey: fragment.get("server-key") ?? undefined,
    signingKey: fragment.get("signing-key") ?? undefined,
  };
}

/** Take token and keys out of the address bar, once they are kept. */
export function hideFragment() {
  if (location.hash) history.replaceState(null, "", location.pathname);
}

function fragmentOfLink() {
  return new URLSearchParams(location.hash.slice(1));
}

/** A name for an open task: 128 random bits. */
export function randomName() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** What can be seen to be wrong with an invitation before anything is paid; empty if nothing can.
 * Whether it is genuine only the service knows.
 * @param {string} token @param {import("./client/wire/contract.js").Announcement} task */
export function wrongWith(token, task) {
  if (!token) return "An invitation is needed: it is in the link that you were given.";
  const parts = token.split(".");
  if (task.invitations === "open" && parts.length === 1) {
    const fits = /^[\x21-\x7e]{16,1024}$/.test(token);
    return fits ? "" : "The name must have 16 letters at least, without spaces.";
  }
  const claims = parts.length === 3 ? claimsOf(parts[1]) : null;
  if (claims === null) return "This is no whole invitation: copy all of it.";
  if (claims.aud !== task.run) return "This invitation is for another run.";
  if (claims.kind !== "device") return "This invitation is not for a device.";
  if (claims.exp && claims.exp < Date.now() / 1000) return "This invitation has expired.";
  return "";
}

/** @param {string} part in base64url @returns {any} */
function claimsOf(part) {
  try {
    return JSON.parse(atob(part.replaceAll("-", "+").replaceAll("_", "/")));
  } catch {
    return null;
  }
}
