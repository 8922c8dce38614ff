/** The characters of Unicode 3.2 that can be seen, and those of them that are marks: which they are
 * does not depend on what the engine knows, so that two devices never judge one text differently.
 *
 * Written by `node tools/unicode.mjs`: for each range how far it is from the one
 * before, and how long it is, in base 36.
 */

const SEEN =
  "w 2n y c 1 ab 1 i s 2m 2 1r h 27 h g 4 2 4 1 3 1 5 7 1 1 1 k 1 18 1 13 9 3r 1 1z 1 12 2 2 6 " +
  "g x 12 2 7 1 13 1 2 6 h 1 n 1 a b r 5 5 n 1 e 1 3 1 1 q 5 m a 3h 1 g 2 f 1 e 2 t 3 r 1h 1e " +
  "9b 3 1 1h 2 i 2 5 3 p g 3 1 8 2 2 2 m 1 7 1 1 3 4 2 1 1 7 2 2 2 3 9 1 4 2 1 5 2 l 7 1 2 6 4 " +
  "2 2 m 1 7 1 2 1 2 1 2 2 1 1 5 4 2 2 3 b 4 1 1 7 f c 3 1 7 1 1 1 3 1 m 1 7 1 2 1 5 2 a 1 3 1 " +
  "3 2 1 f 1 5 a h 3 1 8 2 2 2 m 1 7 1 2 2 4 2 8 3 2 2 3 8 2 4 2 1 3 4 b h 2 1 6 3 3 1 4 3 2 1 " +
  "1 1 2 3 2 3 3 3 8 1 3 4 5 3 3 1 4 9 1 f c e 3 1 8 1 3 1 n 1 a 1 5 4 7 1 3 1 4 7 2 9 2 4 a i " +
  "2 1 8 1 3 1 n 1 a 1 5 4 7 1 3 1 4 7 2 7 1 1 2 4 a i 2 1 8 1 3 1 n 1 g 4 6 2 3 1 4 9 1 8 2 4 " +
  "a i 2 1 i 3 o 1 9 1 1 2 7 3 1 4 6 1 1 1 8 i 3 c 1m 4 t 11 2 1 1 2 2 1 1 2 1 6 4 1 7 1 3 1 1 " +
  "1 1 2 2 1 d 1 3 2 5 1 1 1 6 2 a 2 2 y 20 1 y 6 r 4 8 1 10 1 f 2 1 1c y 1 5 1 2 1 7 3 4 6 q " +
  "1y 12 a 15 2 1 4 2i 7 1u 5 2a 6 7 1 1r 1 1 1 4 2 7 1 1 1 4 2 13 1 1 1 4 2 v 1 1 1 4 2 7 1 1 " +
  "1 4 2 7 1 7 1 n 1 v 1 1 1 4 2 7 1 13 1 j 6 s z 2d c hi a s 3 29 f d 1 7 b n 9 k c d 1 3 1 2 " +
  "c 1g 2 13 3 a m b 5 a 6 2g 8 16 11y 4c 4 2i 6 m 2 6 2 12 2 6 2 8 1 1 1 1 1 1 1 v 2 1h 1 f 1 " +
  "e 2 6 1 j 2 3 1 9 h o 8 z 4 1 o 2 2 r h i u r l 1n 2 f 7 1d c fz 1d 13 p b l 4f 1 7o 2 2 1 " +
  "2t 2 a 3b 4 1 4 2 s 1 z 1 1 1 4 3 1 1 7 2 1g 3 o 1 e h s 4 g 1 lb ow q 1 2h c 5y q c 5 1r 1 " +
  "2e 2 2v 5 14 4 1f 1 16 1 14 1k 19 3 10 d 17 3 25 4 1b 1 3b 4 2r 2 v 1 52u 22 g4m 2i wd 3 1j " +
  "1fd 8mc 6l8 8e 2 1n 45 7 c 5 5 q 1 5 1 1 1 2 1 2 1 30 x a5 g 1s 2 1i 14 d z 4 c n 2 a 1 j 1 " +
  "4 4 5 1 3r 4 4f 1 u 3 6 2 6 2 6 2 3 3 7 1 7 d 2 le v 1 4 c r 51 12 2 12 148i 6u a 13 3 21 8 " +
  "2r f6 2d 1 1z 1 2 2 1 2 2 2 4 1 c 1 1 1 4 1 2 1 1t 1 4 2 8 1 7 1 s 1 4 1 5 1 1 3 7 1 9e 4 82 " +
  "4 1e 7wg wyf g15 f2";

const MARKS =
  "lc 27 h g 7n 4 1 2 7b h 1 n 1 3 1 1 1 2 1 1 3q b q 1 2t 7 1 7 2 2 1 4 z 1 u r 2j b 9c 3 1k 1 " +
  "1 g 3 4 d 2 t 3 1k 1 1 7 2 2 2 3 9 1 a 2 u 1 1l 1 1 5 4 2 2 3 y 2 f 3 1k 1 1 8 1 3 1 3 1f 3 " +
  "1k 1 1 6 3 2 2 3 8 2 16 1 1n 5 3 3 1 4 9 1 15 3 1m 7 1 3 1 4 7 2 17 2 1m 7 1 3 1 4 7 2 17 2 " +
  "1m 6 2 3 1 4 9 1 16 2 1y 1 4 6 1 1 1 8 i 2 1p 1 2 7 c 8 2q 1 2 6 1 2 b 6 22 2 r 1 1 1 1 1 4 " +
  "2 1d k 1 2 8 8 1 10 9 1 2t 7 3 4 s 4 1bs 3 t 3 t 2 u 2 1u u 5x 1 1ly r 30f 6 2x 2 1403 1 ld " +
  "4 15q9 5 3 6 8 8 2 7 u 4";

/** @param {string} packed */
function unpacked(packed) {
  const ends = packed.split(" ").map((digits) => parseInt(digits, 36));
  let at = 0;
  return Uint32Array.from(ends, (length) => (at += length));
}

const seen = unpacked(SEEN);
const marks = unpacked(MARKS);

/** Whether a code point is in one of the ranges: an odd number of their ends is at or below it.
 * @param {Uint32Array} ends @param {number} code */
function within(ends, code) {
  let low = 0;
  let high = ends.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (ends[middle] <= code) low = middle + 1;
    else high = middle;
  }
  return low % 2 === 1;
}

/** @param {number} code */
export function canBeSeen(code) {
  return within(seen, code);
}

/** @param {number} code */
export function isMark(code) {
  return within(marks, code);
}
