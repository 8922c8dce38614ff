"use strict";
// Sorting, filtering, copying. The page is complete without; nothing here adds content.
(() => {
  const all = (query, root = document) => [...root.querySelectorAll(query)];
  const made = (name, text, attributes = {}) => {
    const node = document.createElement(name);
    node.textContent = text;
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    return node;
  };
  document.documentElement.classList.add("scripted");
  const status = document.querySelector(".said");
  const say = (text) => { status.textContent = text; };

  // Tables: a heading sorts up, then down, then as it was. Dashes stay last, ties as they were.
  const words = new Intl.Collator("en", { numeric: true, sensitivity: "base" });

  const compared = (numeric, down) => (a, b) => {
    if (a.none || b.none) return Number(a.none) - Number(b.none);
    const order = numeric ? Math.sign(a.key - b.key) || 0 : words.compare(a.key, b.key);
    return down ? -order : order;
  };

  const sorted = (rows, column, numeric, direction) => {
    if (direction === "none") return rows;
    const keyed = rows.map((row) => {
      const cell = row.cells[column];
      const key = numeric ? Number(cell.dataset.value ?? NaN) : cell.textContent;
      return { row, key, none: numeric ? Number.isNaN(key) : "none" in cell.dataset };
    });
    return keyed.sort(compared(numeric, direction === "descending")).map(({ row }) => row);
  };

  const next = { none: "ascending", ascending: "descending", descending: "none" };

  for (const table of all("table.sortable")) {
    const body = table.tBodies[0];
    const rows = [...body.rows];
    if (rows.length < 2) continue;
    const headings = [...table.tHead.rows[0].cells];
    headings.forEach((heading, column) => {
      const button = made("button", "", { type: "button", class: "sort" });
      button.append(...heading.childNodes);
      heading.append(button);
      button.addEventListener("click", () => {
        const direction = next[heading.getAttribute("aria-sort") ?? "none"];
        for (const other of headings) other.removeAttribute("aria-sort");
        if (direction !== "none") heading.setAttribute("aria-sort", direction);
        body.append(...sorted(rows, column, heading.dataset.type === "number", direction));
        const how = `Sorted by ${button.textContent}, ${direction}`;
        say(direction === "none" ? "Original order" : how);
      });
    });
  }

  // The overview: the tally becomes a row of switches.
  const tally = document.querySelector(".tally");
  if (tally) {
    const claims = all(".claims tbody tr");
    const switches = [];
    const show = (kind) => {
      for (const row of claims) row.hidden = kind !== "all" && row.dataset.kind !== kind;
      for (const one of switches) {
        one.setAttribute("aria-pressed", String(one.dataset.kind === kind));
      }
      say(`${claims.filter((row) => !row.hidden).length} of ${claims.length} claims shown`);
    };
    const every = made("li", "", { class: "every", "data-kind": "all" });
    every.append(made("span", "All", { class: "label" }), " ", made("b", String(claims.length)));
    tally.prepend(every);
    for (const item of [...tally.children]) {
      const { kind } = item.dataset;
      const button = made("button", "", { type: "button", "data-kind": kind });
      button.setAttribute("aria-pressed", String(kind === "all"));
      button.append(...item.childNodes);
      item.append(button);
      switches.push(button);
      button.addEventListener("click", () => show(kind));
    }
    tally.setAttribute("aria-label", "Show claims by verdict");
  }

  // Commands: copied, or else selected so that one key does it.
  const selected = (node) => {
    const range = document.createRange();
    range.selectNodeContents(node);
    const selection = window.getSelection();
    selection.removeAllRanges();
    selection.addRange(range);
  };

  const copied = async (code) => {
    try {
      await navigator.clipboard.writeText(code.textContent);
      return true;
    } catch {
      selected(code);
      return document.execCommand("copy");
    }
  };

  for (const box of all(".command")) {
    const code = box.querySelector("code");
    const button = made("button", "Copy", {
      type: "button", class: "copy", "aria-label": `Copy the command ${code.textContent}`,
    });
    let timer = 0;
    button.addEventListener("click", async () => {
      const done = await copied(code);
      button.textContent = done ? "Copied" : "Selected";
      say(done ? "Command copied" : "Command selected; copy it with the keyboard");
      window.clearTimeout(timer);
      timer = window.setTimeout(() => { button.textContent = "Copy"; }, 2000);
    });
    box.append(button);
  }

  // Boxes that scroll can be reached by keyboard, those that do not are no stop.
  const boxes = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      const scrolls = target.scrollWidth > target.clientWidth + 1;
      if (scrolls) {
        target.tabIndex = 0;
        target.setAttribute("role", "region");
        target.setAttribute("aria-label", target.dataset.label || "Scrollable");
      } else {
        for (const name of ["tabindex", "role", "aria-label"]) target.removeAttribute(name);
      }
    }
  });
  for (const box of all(".scroll")) boxes.observe(box);

  // Contents: open beside the text, folded above it; where one is, is marked.
  const contents = document.querySelector(".contents details");
  if (contents) {
    const wide = window.matchMedia("(min-width: 68rem)");
    const fold = () => { contents.open = wide.matches; };
    wide.addEventListener("change", fold);
    fold();
    const links = new Map(all("a", contents).map((link) => [link.hash.slice(1), link]));
    contents.addEventListener("click", ({ target }) => {
      if (target.closest("a") && !wide.matches) contents.open = false;
    });
    const here = new IntersectionObserver((entries) => {
      for (const { target, isIntersecting } of entries) {
        const link = links.get(target.id);
        if (isIntersecting) link.setAttribute("aria-current", "true");
        else link.removeAttribute("aria-current");
      }
    }, { rootMargin: "-12% 0px -87% 0px" });
    for (const id of links.keys()) here.observe(document.getElementById(id));
  }

  // On paper everything is open.
  let shut = [];
  window.addEventListener("beforeprint", () => {
    shut = all("main details:not([open])");
    for (const one of shut) one.open = true;
  });
  window.addEventListener("afterprint", () => {
    for (const one of shut) one.open = false;
  });
})();
