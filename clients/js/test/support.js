/** Requests and policies for tests. */

export const POLICY = {
  lifetime: 8,
  per_report: 2,
  solutions: ["RJ", "J", "PS-PM", "PM", "PS-PM-O"],
  dimensions: [3, 6],
};

/** The bytes of a request of version 1, or of version 2 where it has bases. */
export function requestOf({
  solution = "PS-PM",
  epsilon = [4n, 1n],
  dim = 6,
  epochs = 2,
  epoch = 0,
  round = 0,
  run = 1,
  k = 2,
  words = 0,
  bases = 0,
} = {}) {
  const bytes = new Uint8Array(bases ? 154 : 150);
  const view = new DataView(bytes.buffer);
  const ascii = (text, at) => [...text].forEach((c, i) => view.setUint8(at + i, c.charCodeAt(0)));
  ascii("FSRQ", 0);
  view.setUint8(4, bases ? 2 : 1);
  view.setUint8(5, run);
  view.setUint32(21, epoch, true);
  view.setUint32(25, round, true);
  ascii(solution, 29);
  view.setBigUint64(53, epsilon[0], true);
  view.setBigUint64(61, epsilon[1], true);
  view.setBigUint64(69, BigInt(dim), true);
  view.setUint32(77, epochs, true);
  view.setFloat64(81, 0.1, true); // μ
  view.setUint8(89, 0);
  view.setBigUint64(90, BigInt(k), true);
  view.setFloat64(98, 1, true); // clip
  view.setFloat64(114, 0.5, true); // ratio
  view.setFloat64(130, 1, true); // learning rate
  view.setFloat64(138, 1, true); // ρ
  view.setUint32(146, words, true);
  if (bases) view.setUint32(150, bases, true);
  return bytes;
}

export const UPDATE = [0.5, -2, 0.1, 0, 1, -0.25];
export const WEIGHTS = new Float64Array(6);
