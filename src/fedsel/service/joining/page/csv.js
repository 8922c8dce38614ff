/** Tables of comma-separated values (RFC 4180): quoted fields, any line end, a byte order mark. */

/** What is wrong with a person's file; shown in the page, and nowhere else. */
export class DataProblem extends Error {}

/** Header and rows of a text. Separated by commas, or by semicolons, tabs or bars where the header
 * has more of these. @param {string} text @returns {{ header: string[], rows: string[][], lines: number[] }} */
export function parseTable(text) {
  const content = text.replace(/^\ufeff/, "");
  const { rows, lines } = fieldsOf(content, separatorOf(content));
  if (!rows.length) throw new DataProblem("The file is empty.");
  const [header, ...records] = rows;
  const names = header.map((name) => name.trim());
  const twice = names.find((name, i) => names.indexOf(name) !== i);
  if (twice !== undefined) throw new DataProblem(`The header has the column “${twice}” twice.`);
  if (!records.length) throw new DataProblem("The file has a header, but no record below it.");
  records.forEach((row, i) => {
    if (row.length !== names.length) {
      throw new DataProblem(
        `Line ${lines[i + 1]} has ${row.length} fields, the header has ${names.length}.`,
      );
    }
  });
  return { header: names, rows: records, lines: lines.slice(1) };
}

/** @param {string} text */
function separatorOf(text) {
  const first = text.slice(0, (text + "\n").search(/[\r\n]/));
  const count = (/** @type {string} */ mark) => first.split(mark).length;
  return [",", ";", "\t", "|"].reduce((best, mark) => (count(mark) > count(best) ? mark : best));
}

/** @param {string} text @param {string} separator */
function fieldsOf(text, separator) {
  /** @type {string[][]} */
  const rows = [];
  /** @type {number[]} */
  const lines = [];
  let [row, field, line, begun, at] = [/** @type {string[]} */ ([]), "", 1, 1, 0];
  const endRow = () => {
    row.push(field);
    if (row.length > 1 || field.trim()) {
      rows.push(row);
      lines.push(begun);
    }
    [row, field] = [[], ""];
  };
  while (at < text.length) {
    const letter = text[at];
    if (letter === '"' && !field.trim()) {
      const { content, end, ends } = quoted(text, at + 1, line);
      [field, at, line] = [content, end, ends];
      while (at < text.length && text[at] === " ") at += 1;
      if (at < text.length && ![separator, "\n", "\r"].includes(text[at])) {
        throw new DataProblem(`Line ${line}: after a closing quote the field must end.`);
      }
      continue;
    }
    at += 1;
    if (letter === separator) {
      row.push(field);
      field = "";
    } else if (letter === "\n" || letter === "\r") {
      if (letter === "\r" && text[at] === "\n") at += 1;
      line += 1;
      endRow();
      begun = line;
    } else field += letter;
  }
  endRow();
  return { rows, lines };
}

/** A quoted field from behind its opening quote; two quotes are one.
 * @param {string} text @param {number} from @param {number} line */
function quoted(text, from, line) {
  let [content, at] = ["", from];
  for (;;) {
    const end = text.indexOf('"', at);
    if (end < 0) throw new DataProblem(`Line ${line}: a quote is never closed.`);
    content += text.slice(at, end);
    if (text[end + 1] !== '"') {
      const ends = line + (content.match(/\r\n|\r|\n/g) ?? []).length;
      return { content, end: end + 1, ends };
    }
    content += '"';
    at = end + 2;
  }
}
