// What the page of a report does once it is open. Without it, all numbers are there; nothing sorts.
"use strict";
(() => {
  const read = (id) => JSON.parse(document.getElementById(id).textContent);
  const specs = read("charts-data");
  const numbers = read("numbers-data");
  const root = document.documentElement;
  const byId = (id) => document.getElementById(id);

  // ---- tables
  const keyOf = (row, column) => {
    const cell = row.cells[column];
    return cell.dataset.v !== undefined ? Number(cell.dataset.v) : cell.classList.contains("n") ? null : cell.textContent;
  };
  const compare = (a, b) => {
    if (a === null || b === null) return a === b ? 0 : a === null ? 1 : -1; // what is missing comes last
    return typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b));
  };
  const sort = (table, column) => {
    const heads = [...table.tHead.rows[0].cells];
    const body = table.tBodies[0];
    const numeric = [...body.rows].some((row) => row.cells[column].classList.contains("n"));
    const now = heads[column].getAttribute("aria-sort");
    const descending = now === "none" ? numeric : now === "ascending";
    heads.forEach((head, i) => head.setAttribute("aria-sort", i === column ? (descending ? "descending" : "ascending") : "none"));
    const rows = [...body.rows].map((row, place) => ({ row, place, key: keyOf(row, column) }));
    rows.sort((a, b) => {
      const order = compare(a.key, b.key);
      const missing = a.key === null || b.key === null;
      return (descending && !missing ? -order : order) || a.place - b.place;
    });
    body.append(...rows.map((one) => one.row));
  };
  for (const table of document.querySelectorAll("table")) {
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      head.setAttribute("aria-sort", "none");
      if ([...table.tBodies[0].rows].some((row) => row.cells[column].classList.contains("n"))) head.classList.add("n");
      head.querySelector("button").addEventListener("click", () => sort(table, column));
    });
  }

  // ---- one language
  byId("language").addEventListener("change", (event) => {
    const chosen = event.target.value;
    for (const row of document.querySelectorAll("tr[data-lang]")) {
      row.hidden = chosen !== "" && row.dataset.lang !== chosen;
    }
  });

  // ---- charts
  const palettes = {
    light: ["#0b5cad", "#c2410c", "#15803d", "#7e22ce", "#a16207", "#0e7490", "#be185d", "#4d7c0f", "#1e3a8a", "#9f1239", "#8a919c"],
    dark: ["#7db8ff", "#fb923c", "#4ade80", "#c084fc", "#facc15", "#22d3ee", "#f472b6", "#a3e635", "#d6b48a", "#fda4af", "#7b828c"],
  };
  const isDark = () => {
    const asked = root.dataset.theme;
    return asked ? asked === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  };
  const config = (width) => {
    const style = getComputedStyle(root);
    const [ink, soft, line] = ["--ink", "--soft", "--line"].map((name) => style.getPropertyValue(name).trim());
    const font = "system-ui, 'Noto Sans', sans-serif";
    return {
      background: "transparent", font, autosize: { type: "fit-x", contains: "padding" },
      view: { stroke: null },
      range: { category: palettes[isDark() ? "dark" : "light"] },
      axis: { labelColor: ink, titleColor: soft, gridColor: line, domainColor: soft, tickColor: soft, labelLimit: 160,
        labelFontSize: 12, titleFontSize: 12, titleFontWeight: "normal" },
      legend: { labelColor: ink, titleColor: soft, labelFontSize: 12, symbolType: "circle",
        columns: Math.max(1, Math.floor((width - 100) / 215)) },
    };
  };
  const quiet = { level: () => quiet, error: console.error, warn: () => quiet, info: () => quiet, debug: () => quiet };
  const views = new Map();
  const draw = (name) => {
    const place = byId("chart-" + name);
    if (!place || !specs[name]) return;
    const spec = { ...specs[name], width: Math.max(place.clientWidth, 260), };
    spec.config = config(spec.width);
    if (name === "premiums") spec.data = { values: premiumValues() };
    const compiled = charts.compile(spec, { logger: quiet }).spec;
    const view = new charts.View(charts.parse(compiled, null, { ast: true }), {
      expr: charts.expressionInterpreter, renderer: "svg", hover: false, logLevel: charts.Warn,
      loader: { load: () => Promise.reject(new Error("nothing is loaded")), sanitize: () => Promise.reject(new Error("no links")) },
    });
    if (views.has(name)) views.get(name).finalize();
    views.set(name, view);
    place.replaceChildren();
    view.initialize(place);
    // The figure is one picture with a name: what is in it is in the tables.
    view.runAsync().then(() => {
      const drawn = place.querySelector("svg");
      drawn.setAttribute("aria-hidden", "true");
      drawn.querySelectorAll("[role], [aria-label], [aria-roledescription]").forEach((part) => {
        ["role", "aria-label", "aria-roledescription"].forEach((key) => part.removeAttribute(key));
      });
      place.dataset.drawn = "yes";
    });
  };
  const drawAll = () => Object.keys(specs).forEach(draw);

  // ---- premiums
  const reference = byId("reference");
  const baseOf = (tokenizer) => Math.max(numbers.premiums.tokens[tokenizer][reference.value], 1);
  function premiumValues() {
    return specs.premiums.data.values
      .filter((one) => one.lang !== undefined)
      .map((one) => ({ ...one, premium: one.tokens / (visibleBase.get(one.tokenizer) || 1) }))
      .filter((one) => one.premium > 0);
  }
  const visibleBase = new Map();
  const quantile = (ordered, share) => {
    const place = share * (ordered.length - 1);
    const below = Math.floor(place);
    const above = Math.min(below + 1, ordered.length - 1);
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below);
  };
  const tellPremiums = () => {
    const { tokens, languages } = numbers.premiums;
    const names = Object.keys(tokens);
    const shownNames = [...new Set(specs.premiums.data.values.map((one) => one.tokenizer))];
    names.forEach((name, i) => visibleBase.set(shownNames[i], baseOf(name)));
    const write = (cell, value) => {
      cell.dataset.v = String(value);
      cell.textContent = value.toFixed(3);
    };
    for (const row of document.querySelectorAll("table.premiums tbody tr")) {
      names.forEach((name, i) => write(row.cells[i + 2], tokens[name][row.dataset.lang] / baseOf(name)));
    }
    const place = Object.fromEntries(names.map((name, i) => [name, i]));
    const summaries = summaryRows || (summaryRows = [...document.querySelectorAll("table.premium-summary tbody tr")]);
    for (const name of names) {
      const others = languages.filter((lang) => lang !== reference.value).map((lang) => tokens[name][lang] / baseOf(name));
      others.sort((a, b) => a - b);
      write(summaries[place[name]].cells[1], quantile(others, 0.5));
      write(summaries[place[name]].cells[2], quantile(others, 0.9));
    }
  };
  let summaryRows = null;
  if (reference) {
    tellPremiums();
    reference.addEventListener("change", () => {
      tellPremiums();
      draw("premiums");
    });
  }

  // ---- what a pass costs: multiply-adds, as money.py counts them
  const costs = ["cost-tokenizer", "cost-layers", "cost-width", "cost-words"];
  const tellCost = () => {
    const [name, ...typed] = costs.map((id) => byId(id).value);
    const [layers, width, words] = typed.map(Number);
    const tokens = words * numbers.tokens_per_word[name];
    const parts = [12 * layers * width * width * tokens, 2 * layers * width * tokens * tokens, width * numbers.vocab_sizes[name] * tokens];
    const all = parts[0] + parts[1] + parts[2];
    const short = (number) => number.toLocaleString("en", { minimumFractionDigits: 1, maximumFractionDigits: 1 });
    const share = (part) => ((100 * part) / all).toFixed(1) + " %";
    byId("cost-output").textContent = !(layers > 0 && width > 0 && words > 0 && tokens > 0)
      ? "–"
      : Math.round(tokens).toLocaleString("en") + " tokens, " + short(all / 1e9) + " billion multiply-adds: layers " +
        share(parts[0]) + ", attention " + share(parts[1]) + ", output layer " + share(parts[2]) + "; embedding table " +
        short((width * numbers.vocab_sizes[name]) / 1e6) + " million parameters";
  };
  costs.forEach((id) => byId(id).addEventListener("input", tellCost));
  tellCost();

  // ---- perplexity and bits per byte: what was typed last decides the other
  const convert = (fromBits) => {
    const rows = numbers.bytes_per_token[byId("convert-group").value];
    const own = rows[byId("convert-tokenizer").value];
    const [perplexity, bits] = [byId("convert-perplexity"), byId("convert-bits")];
    const value = fromBits ? Number(bits.value) : Math.log2(Number(perplexity.value)) / own;
    if (!(value >= 0) || !Number.isFinite(value) || !own || (fromBits && bits.value === "")) {
      byId("convert-output").textContent = "–";
      return;
    }
    if (fromBits) perplexity.value = Math.pow(2, value * own).toFixed(2);
    else bits.value = value.toFixed(4);
    const same = Object.entries(rows)
      .filter(([, bytes]) => bytes)
      .map(([name, bytes]) => name + " " + Math.pow(2, value * bytes).toFixed(2));
    const margin = numbers.margins[byId("convert-group").value][byId("convert-tokenizer").value];
    const told = !margin ? "" : " ± " + ((100 * margin) / own).toFixed(2) + " %";
    byId("convert-output").textContent =
      value.toFixed(4) + " bits per byte" + told + "; the same as a perplexity of " + same.join(", ");
  };
  ["convert-perplexity", "convert-group", "convert-tokenizer"].forEach((id) => byId(id).addEventListener("input", () => convert(false)));
  byId("convert-bits").addEventListener("input", () => convert(true));
  convert(false);

  // ---- theme
  byId("theme").addEventListener("change", (event) => {
    if (event.target.value === "system") delete root.dataset.theme;
    else root.dataset.theme = event.target.value;
    drawAll();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  let width = root.clientWidth;
  addEventListener("resize", () => {
    if (root.clientWidth === width) return;
    width = root.clientWidth;
    drawAll();
  });
  // In print, lists are open; they are closed again after it.
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open])")];
    opened.forEach((one) => one.setAttribute("open", ""));
  });
  addEventListener("afterprint", () => opened.forEach((one) => one.removeAttribute("open")));
  drawAll();
  root.dataset.ready = "yes";
})();
