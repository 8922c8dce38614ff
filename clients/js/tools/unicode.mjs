/** Prints the two tables of src/wire/unicode.js, from the vectors: `node tools/unicode.mjs`. */

import { readFileSync } from "node:fs";

const file = new URL("../../../vectors/messages.json", import.meta.url);
const { cases } = JSON.parse(readFileSync(file, "utf-8"));
const rangesOf = (kind) => cases.find((one) => one.kind === kind).ranges;

/** Of each range how far it is from the one before, and how long it is, in base 36. */
function packed(ranges) {
  let end = 0;
  const parts = ranges.flatMap(([first, last]) => {
    const pair = [first - end, last + 1 - first];
    end = last + 1;
    return pair;
  });
  return parts.map((part) => part.toString(36)).join(" ");
}

/** The ranges of those characters of the first that are in one of the second. */
function both(ranges, others) {
  return ranges.flatMap(([first, last]) =>
    others
      .map(([from, to]) => [Math.max(first, from), Math.min(last, to)])
      .filter(([from, to]) => from <= to),
  );
}

const seen = rangesOf("visible");
console.log(`SEEN\n${packed(seen)}\n\nMARKS\n${packed(both(rangesOf("marks"), seen))}`);
