/** Normal numbers from public bits, by the ziggurat of 256 layers (Marsaglia & Tsang 2000) that
 * numpy draws them with: what public projections and codebooks are made of.
 *
 * The layers' widths are numpy's own, bit by bit, so that the numbers are, too. Heights and bounds
 * follow from the widths up to their last bit, which decides nothing in 2^50 numbers.
 */

const LAYERS = 256;
const SCALE = 2 ** 52;
const TAIL = 3.6541528853610088;
const INVERSE_TAIL = 0.27366123732975828;

/** Little-endian doubles: the layers' widths over 2^52. */
const PACKED =
  "edkVeDtJzzzG9v3jC42LPLRbLDyvUJI8YTtEOLl8lTwMpy/o/AGYPLzQTC4MI5o892E4L00AnDx0cnRaL6ydPMPVTC1IMp88" +
  "rbuOJzJNoDxDXQI7BfWgPHc2QZemkqE89Rp6j6InojyA2GM4LrWiPPWRV8A/PKM8L7GiwZ69ozxVm/+N7zmkPKf+PTa7saQ8" +
  "dNMaYnUlpTyWzgengJWlPOp+2c8xAqY8PXyjYdJrpjxwBQCSotKmPKb4RtPaNqc8dyqzEK2YpzxD9UatRfinPHcKQ1PMVag8" +
  "mnZ7nmSxqDyYz06pLgupPOoeLIJHY6k8RsU4jsm5qTwsp6TczA6qPFnNd21nYqo8MBYQbq20qjycbBNtsQWrPCl6QoeEVas8" +
  "Op9Sjjakqzwygr8q1vGrPPNOWflwPqw8YTsypROKrDyLJnL+ydSsPEi3gA6fHq08EB/kKZ1nrTzDuCMAzq+tPFN28ak69608" +
  "/u3Stes9rjwAb3oz6YOuPM6C+b06ya48JmLwhOcNrzyI9thU9lGvPK7Xh55tla88rC76fVPYrzzsNELgVg2wPJqPOfVALrA8" +
  "/KUWnupOsDwQoHJbVm+wPAv0cZCGj7A8E2G8hH2vsDx/zEtmPc+wPGsIFkvI7rA87hWVMiAOsTy+DzEHRy2xPEGRjp8+TLE8" +
  "HiDEvwhrsTw02ngap4mxPIht7lEbqLE8yyr4+GbGsTwu1OCTi+SxPJ+gQJmKArI86cbEcmUgsjwfw+l9HT6yPPtrqQy0W7I8" +
  "f9MdZip5sjwb1xnHgZayPNouuGK7s7I8U7jhYtjQsjyOqcvo2e2yPNdIbg3BCrM8MLn04Y4nszyhXiZwRESzPNVSyrriYLM8" +
  "algFvmp9szxksrJv3ZmzPAM9uL87trM84B1WmIbSszyDWnLevu6zPHSe4HHlCrQ8XXSmLfsmtDykMDzoAEO0PF3HynP3XrQ8" +
  "NsNmnt96tDwvj0gyupa0PF1BAvaHsrQ83BGzrEnOtDwFpjgWAOq0PGJVXu+rBbU8WosK8k0htTxPZmrV5jy1PMiyG053WLU8" +
  "eF9VDgB0tTwUhQ7GgY+1PFkbJCP9qrU8PXN90XLGtTzTjC974+G1PDhen8hP/bU8wx+jYLgYtjyisKLoHTS2PAsmtwSBT7Y8" +
  "cpbJV+Jqtjw3MbGDQoa2PLGyUCmiobY8u0Oz6AG9tjxS0yhhYti2PFT4YTHE87Y862iL9ycPtzzGFGlRjiq3PNzucNz3Rbc8" +
  "H3PlNWVhtzxJ9O/61ny3PJO9ushNmLc8CRSLPMqztzz7ItvzTM+3POfec4zW6rc8H+qGpGcGuDx2hsjaACK4PBWfic6iPbg8" +
  "vfXRH05ZuDzFfnpvA3W4PC33R1/DkLg8Q8AFko6suDycDKGrZci4PCdqRFFJ5Lg8j7VzKToAuTxHgyjcOBy5PPwK7xJGOLk8" +
  "iqIDeWJUuTzu1XC7jnC5PDEqLonLjLk8v5k/kxmpuTws2dWMecW5PBF0byvs4bk8StL6JnL+uTySNvk5DBu6PFvIoiG7N7o8" +
  "iLsLnn9UujykqUpyWnG6PD0xoGRMjro8CPGfPlarujzO9VrNeMi6PDazi+G05bo8GqHDTwsDuzxbmJrwfCC7PAAM4KAKPrs8" +
  "Az3OQbVbuzwniT+5fXm7PDz35fFkl7s8biWF22u1uzyiwC5rk9O7PIOugZvc8bs8oBbsbEgQvDwtevDl1y68PBwNbhOMTbw8" +
  "BYfsCGZsvDwXpuvgZou8PKuiNr2Pqrw8kNY7x+HJvDw34GgwXum8PG6PizIGCb08IO83ENsovTxHxjMV3ki9PCPx55YQab08" +
  "pfvX9HOJvTxwbiCZCaq9PA5J/PjSyr08Ny5SldHrvTwc0kn7Bg2+PPZG6sR0Lr48iNHBmRxQvjwl/pcvAHK+PAq/KkshlL48" +
  "CG/3wIG2vjw6pxB2I9m+PKnsAWEI/L48IVPCijIfvzxtTbcPpEK/PGgBySBfZr88gpeJBGaKvzy/InEYu66/PIXnL9Jg0788" +
  "C/YYwVn4vzx1oNNH1A7APEfJjwKoIcA8qwKpg6k0wDzH9T5O2kfAPH6zrfY7W8A8aCanI9BuwDwXLmOPmILAPFSi6AiXlsA8" +
  "xMBxdc2qwDxI1O7RPb/APDA9qjTq08A8k2URz9TowDy2n6bv//3APEFwIARuE8E8NV27myEpwTxtCcRpHT/BPDsuYEhkVcE8" +
  "8+6dO/lrwTxhEtJ034LBPKzrTlYamsE8ji9/d62xwTyUpnGpnMnBPDmu5Pvr4cE8Adniwp/6wTyBzASdvBPCPO7Tb3pHLcI8" +
  "JJyspEVHwjzgWHbHvGHCPC5ZqPqyfMI8eA53zS6YwjxSCipTN7TCPJfbljHU0MI89XipsQ3uwjzurlbS7AvDPKOkaF57KsM8" +
  "oxKuBcRJwzxAqDN60mnDPApBVpKzisM8+oiucHWswzymBBezJ8/DPHX0YKrb8sM82uW5nKQXxDyUXlQVmD3EPBU6p0TOZMQ8" +
  "vEOcdWKNxDwnWmudc7fEPAKJzQ0l48Q8QazpU58QxTxCfjpSEUDFPBvkSqmxccU82Y1xi8ClxTz+0DokitzFPEwehs9pFsY8" +
  "6moAe85TxjzD5Z++QJXGPDLiCY1r28Y8NHpf8CgnxzxzBglWlXnHPIzO1vQt1Mc8NPIpBQM5yDwUfKq/D6vIPJZEb5TgLsk8" +
  "q1dAAe7LyTxad5R43I/KPLH9eDgfmMs8M60JgrQ7zTw=";

const WIDTHS = unpacked(PACKED);
const HEIGHTS = WIDTHS.map((width, i) => (i ? Math.exp(-0.5 * (width * SCALE) ** 2) : 1));
/** Below its bound a number lies inside of the next layer, too. */
const BOUNDS = WIDTHS.map((width, i) => {
  if (i === 0) return Math.round((TAIL / (width * SCALE)) * SCALE);
  return i === 1 ? 0 : Math.round((WIDTHS[i - 1] / width) * SCALE);
});

/** Fill an array with normal numbers. @param {import("./philox.js").PublicBits} bits
 * @param {Float64Array} numbers */
export function fillNormals(bits, numbers) {
  for (let i = 0; i < numbers.length; i++) numbers[i] = normal(bits);
}

/** @param {import("./philox.js").PublicBits} bits */
function normal(bits) {
  for (;;) {
    bits.next();
    const layer = bits.low & 0xff;
    const negative = bits.low & 0x100;
    // 52 bits after the layer and the sign.
    const magnitude = (bits.low >>> 9) + ((bits.high & 0x1fffffff) >>> 0) * 2 ** 23;
    const x = negative ? -(magnitude * WIDTHS[layer]) : magnitude * WIDTHS[layer];
    if (magnitude < BOUNDS[layer]) return x;
    if (layer === 0) return tail(bits, (bits.low >>> 17) & 1);
    const between = (HEIGHTS[layer - 1] - HEIGHTS[layer]) * uniform(bits) + HEIGHTS[layer];
    if (between < Math.exp(-0.5 * x * x)) return x;
  }
}

/** A number beyond the last layer. @param {import("./philox.js").PublicBits} bits
 * @param {number} negative */
function tail(bits, negative) {
  for (;;) {
    const x = -INVERSE_TAIL * Math.log1p(-uniform(bits));
    const y = -Math.log1p(-uniform(bits));
    if (y + y > x * x) return negative ? -(TAIL + x) : TAIL + x;
  }
}

/** A multiple of 2^−53 in [0, 1). @param {import("./philox.js").PublicBits} bits */
function uniform(bits) {
  bits.next();
  return (bits.high * 2 ** 21 + (bits.low >>> 11)) / 2 ** 53;
}

/** @param {string} text */
function unpacked(text) {
  const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  const view = new DataView(bytes.buffer);
  return Float64Array.from({ length: LAYERS }, (_, i) => view.getFloat64(8 * i, true));
}
