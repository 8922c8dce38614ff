/** What a device in Node needs beside the rest: a ledger in a folder. */

export { FileStore } from "./stores/file.js";
