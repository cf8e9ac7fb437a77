// The page of `tokcore view`. Everything from data goes into the page by textContent, so it stays text.
"use strict";
(() => {
  const byId = (id) => document.getElementById(id);
  const root = document.documentElement;
  const ATTRIBUTES = new Set(["role", "tabindex", "aria-label", "aria-pressed"]);
  const make = (name, properties = {}, ...children) => {
    const element = document.createElement(name);
    for (const [key, value] of Object.entries(properties)) {
      if (ATTRIBUTES.has(key)) element.setAttribute(key, value);
      else element[key] = value;
    }
    element.append(...children);
    return element;
  };
  const text = (content, name = "bdi", className = "") => make(name, { textContent: content, className });
  const code = (content) => make("code", {}, text(content));
  const number = (value) => Number(value).toLocaleString("en");
  // What is not seen in a name, such as a control character, is written as its code point.
  const visible = (name) => (name || "").replace(/[\p{Cc}\p{Cf}\p{Co}\p{Zl}\p{Zp}]/gu, (c) => "U+" + c.codePointAt(0).toString(16).toUpperCase().padStart(4, "0"));

  const post = (question, body, signal) =>
    fetch(question, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), signal });
  const ask = async (question, body, signal) => {
    const response = await post(question, body, signal);
    const answer = await response.json();
    if (!response.ok) throw new Error(answer.error);
    return answer;
  };
  const say = (place, error) => {
    if (error.name !== "AbortError") place.replaceChildren(text(error.message, "span", "error"));
  };

  let shelf = [];
  let pressed = null;

  // ---- tokens
  const drawTokens = (cut, choose, wanted) => {
    const box = make("div", { className: "tokens", role: "group", "aria-label": "tokens", tabindex: "0" });
    cut.tokens.forEach(([id, shown, hex, special], i) => {
      const button = make("button", { type: "button", "aria-pressed": "false", title: `id ${id}, ${hex.length / 2} bytes` }, text(shown === "" ? "∅" : shown));
      button.className = `token c${i % 4}${special ? " special" : ""}${i === wanted ? " wanted" : ""}`;
      button.addEventListener("click", () => {
        if (pressed) pressed.setAttribute("aria-pressed", "false");
        pressed = button;
        button.setAttribute("aria-pressed", "true");
        choose(i, id);
      });
      box.append(button);
      if (shown.endsWith("\\n")) box.append(make("br")); // the escape of a line feed also breaks the line
    });
    return box;
  };
  // best: the fewest tokens that a tokenizer beside this one takes; 0 where there is none.
  const drawCut = (cut, title, choose, wanted = -1, best = 0) => {
    const end = cut.start + cut.tokens.length;
    const part = cut.total > cut.tokens.length ? `, shown ${number(cut.start)} to ${number(end)}` : "";
    const ids = make("p", { className: "ids", tabindex: "0", role: "group", "aria-label": "ids" });
    ids.textContent = cut.tokens.slice(0, 2000).map((token) => token[0]).join(" ");
    const ratio = !best ? "" : cut.total === best ? ", the fewest" : `, ${(cut.total / best).toFixed(2)} times the fewest`;
    return make("div", { className: "cut" }, make("h3", {}, text(title)), text(`${number(cut.total)} tokens${ratio}${part}`, "p", "note"), drawTokens(cut, choose, wanted), ids);
  };
  const ORIGINS = {
    special: "a special token", byte: "a byte on its own", merged: "merged", whole: "its pre-token is a token, taken whole",
    scored: "a piece of the cut with the best score", longest: "the longest token that fits", listed: "one of a list",
  };
  const showToken = (volume, answer) => {
    const told = answer.explained;
    const pairs = [
      ["token", code(told.token)],
      ["id", String(told.id)],
      ["name", code(visible(answer.name))],
      ["bytes", code(told.bytes.replace(/../g, "$& ").trim())],
      ["made", ORIGINS[told.origin] || told.origin],
    ];
    if (told.score !== null) pairs.push(["score", told.score.toFixed(4)]);
    if (answer.count !== null) pairs.push(["written", `${number(answer.count)} times in ${number(answer.documents)} documents`]);
    const list = make("dl", { className: "detail" });
    for (const [key, value] of pairs) list.append(text(key, "dt"), make("dd", {}, value));
    const parts = [text(shelf[volume].name, "p", "meta"), list];
    if (told.merges.length) {
      const items = told.merges.map((one) => make("li", {}, code(one.left[1]), " + ", code(one.right[1]), text(`  rank ${number(one.rank)}`, "span", "meta")));
      parts.push(text("Merges, in order", "h3"), make("ol", { className: "merges" }, ...items));
    }
    if (shelf[volume].documents !== null) {
      const find = make("button", { type: "button", textContent: "Find it in documents" });
      find.addEventListener("click", () => {
        byId("volume").value = String(volume);
        chooseVolume();
        byId("kind").value = "token";
        byId("query").value = String(told.id);
        startSearch(0);
      });
      parts.push(make("p", {}, find));
    }
    byId("token").replaceChildren(...parts);
  };
  let asked = 0; // an answer to an earlier question may come later
  const show = (volume, question, body) => {
    const mine = ++asked;
    const last = (act) => (answer) => mine === asked && act(answer);
    return ask(question, { ...body, volume }).then(last((answer) => showToken(volume, answer)), last((error) => say(byId("token"), error)));
  };
  const chooseToken = (volume) => (_, id) => show(volume, "token", { id });

  // ---- typed text
  let typing = null;
  const cutTyped = async () => {
    if (typing) typing.abort();
    typing = new AbortController();
    const body = { text: byId("text").value, special: byId("special").checked };
    try {
      const answer = await ask("cut", body, typing.signal);
      byId("size").textContent = `${number(answer.characters)} characters, ${number(answer.bytes)} bytes`;
      const best = answer.cuts.length > 1 ? Math.min(...answer.cuts.map((cut) => cut.total)) : 0;
      byId("cuts").replaceChildren(...answer.cuts.map((cut, volume) =>
        drawCut(cut, shelf[volume].name, (place) => show(volume, "explain", { ...body, place }), -1, best)));
      root.dataset.cut = body.text;
    } catch (error) {
      say(byId("size"), error);
    }
  };

  // ---- documents
  const chosen = () => Number(byId("volume").value);
  const options = (pairs) => pairs.map(([value, content]) => make("option", { value, textContent: content }));
  function chooseVolume() {
    const one = shelf[chosen()];
    byId("number").max = String(one.documents - 1);
    byId("shard").replaceChildren(...options(one.shards.map((name) => [name, name])));
    byId("languages").replaceChildren(...options(Object.entries(one.languages).map(([lang, documents]) => [lang, `${number(documents)} documents`])));
  }
  let comparing = false; // whether the document stands beside its twins; then so do the next ones
  const openDocument = async (place, token = -1) => {
    comparing = false;
    const volume = chosen();
    const start = Math.max(token - 2500, 0);
    try {
      const told = await ask("document", { volume, number: place, start });
      byId("number").value = String(place);
      const about = `document ${number(told.number)} of ${number(shelf[volume].documents)}, language ${told.lang}, from ${told.source}, record ${number(told.ordinal)}`;
      const own = Object.entries(told.metadata).map(([name, value]) => `${name} ${value}`).join(", ");
      const lines = [about, own].filter(Boolean).map((line) => text(line, "p", "meta"));
      byId("document").replaceChildren(...lines, drawCut(told, told.id === null ? "(no id)" : told.id, chooseToken(volume), token - start));
      const wanted = byId("document").querySelector(".wanted");
      if (wanted) wanted.scrollIntoView({ block: "center" });
    } catch (error) {
      say(byId("document"), error);
    }
  };
  const jump = async () => {
    try {
      const place = await ask("place", { volume: chosen(), shard: byId("shard").value, offset: Number(byId("offset").value) });
      await openDocument(place.number, place.token);
    } catch (error) {
      say(byId("document"), error);
    }
  };
  const compare = async () => {
    comparing = true;
    try {
      const told = await ask("compare", { volume: chosen(), number: Number(byId("number").value) });
      const cuts = told.of.map((one) => one.number === null
        ? make("div", { className: "cut" }, text(shelf[one.volume].name, "h3"), text("This record is not in it.", "p"))
        : drawCut(one, `${shelf[one.volume].name}, document ${number(one.number)}`, chooseToken(one.volume)));
      const differs = told.of.some((one) => one.same_text === false) ? ", their texts differ" : "";
      byId("document").replaceChildren(text(`document ${number(told.number)} in all outputs${differs}`, "p", "meta"), make("div", { className: "cuts" }, ...cuts));
    } catch (error) {
      say(byId("document"), error);
    }
  };

  // ---- search
  let searching = null;
  let following = 0;
  let shownHits = 0;
  const showHit = (hit) => {
    const open = make("button", { type: "button", textContent: `document ${number(hit.number)}` });
    open.addEventListener("click", () => openDocument(hit.number, hit.token === undefined ? -1 : hit.token));
    const line = [open, make("span", { className: "meta" }, " ", text(hit.lang), " ", text(hit.id || ""), ` ${number(hit.tokens)} tokens`)];
    if (hit.context) {
      const [before, at, after] = hit.context;
      line.push(make("div", {}, make("code", {}, make("bdi", {}, before, text(at, "mark"), after)), text(` ${number(hit.times)} times`, "span", "meta")));
    }
    byId("hits").append(make("li", {}, ...line));
    shownHits += 1;
  };
  const takeLine = (told) => {
    const found = byId("found");
    if (told.error) throw new Error(told.error);
    if (told.number !== undefined) showHit(told);
    if (told.scanned !== undefined) found.textContent = `${number(shownHits)} found, ${number(told.scanned)} documents searched`;
    if (told.done) found.textContent = `${number(shownHits)} found, all documents searched`;
    if (told.next !== undefined) {
      following = told.next;
      byId("more").disabled = false;
      found.textContent = `${number(shownHits)} found, up to document ${number(told.next - 1)}`;
    }
  };
  async function startSearch(start) {
    if (searching) searching.abort();
    const own = (searching = new AbortController());
    if (start === 0) {
      byId("hits").replaceChildren();
      shownHits = 0;
    }
    byId("more").disabled = true;
    byId("stop").disabled = false;
    byId("found").textContent = "searching";
    const body = { volume: chosen(), kind: byId("kind").value, query: byId("query").value, start };
    try {
      const response = await post("search", body, own.signal);
      if (!response.ok) throw new Error((await response.json()).error);
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      for (let rest = "", ended = false; !ended; ) {
        const { done, value } = await reader.read();
        const lines = (rest + (value || "")).split("\n");
        rest = lines.pop();
        lines.forEach((line) => takeLine(JSON.parse(line)));
        ended = done;
      }
    } catch (error) {
      if (error.name === "AbortError") byId("found").textContent = `${number(shownHits)} found, stopped`;
      else say(byId("found"), error);
    } finally {
      if (searching === own) byId("stop").disabled = true;
    }
  }

  // ---- audit
  const TITLES = { never: "never written", rare: "rarely written", unreachable: "unreachable", partial_utf8: "parts of characters",
    mostly_one_document: "more than half in one document", invisible_tokens: "with characters that are not seen" };
  const lookAround = async () => {
    byId("lists").textContent = "looking";
    const volume = chosen();
    try {
      const { lists } = await ask("audit", { volume });
      byId("lists").replaceChildren(...Object.entries(lists).map(([name, list]) => {
        const chips = list.first.map((one) => {
          const title = one.count === null ? `id ${one.id}` : `id ${one.id}, ${number(one.count)} times`;
          const chip = make("button", { type: "button", title }, text(one.token));
          chip.addEventListener("click", () => show(volume, "token", { id: one.id }));
          return chip;
        });
        const box = make("div", { className: "chips", tabindex: "0", role: "group", "aria-label": TITLES[name] }, ...chips);
        return make("details", {}, text(`${TITLES[name]}: ${number(list.number)}`, "summary"), box);
      }));
    } catch (error) {
      say(byId("lists"), error);
    }
  };

  byId("theme").addEventListener("change", (event) => {
    if (event.target.value === "system") delete root.dataset.theme;
    else root.dataset.theme = event.target.value;
  });
  byId("text").addEventListener("input", cutTyped);
  byId("special").addEventListener("change", cutTyped);
  const onClick = (id, act) => byId(id).addEventListener("click", act);
  const begin = async () => {
    shelf = (await ask("shelf", {})).volumes;
    if (byId("documents")) {
      const own = shelf.map((one, i) => [one, i]).filter(([one]) => one.documents !== null);
      byId("volume").replaceChildren(...options(own.map(([one, i]) => [String(i), one.name])));
      byId("volume").addEventListener("change", chooseVolume);
      chooseVolume();
      const place = () => Number(byId("number").value);
      onClick("open", () => openDocument(place()));
      const step = (by) => {
        const next = Math.min(Math.max(place() + by, 0), shelf[chosen()].documents - 1);
        byId("number").value = String(next);
        return comparing ? compare() : openDocument(next);
      };
      onClick("previous", () => step(-1));
      onClick("next", () => step(1));
      onClick("compare", compare);
      onClick("jump", jump);
      onClick("more", () => startSearch(following));
      onClick("stop", () => searching && searching.abort());
      onClick("look", lookAround);
      byId("search").addEventListener("submit", (event) => {
        event.preventDefault();
        startSearch(0);
      });
    }
    await cutTyped();
    const first = document.querySelector("#cuts .token"); // of the sample, so that the page shows what it can say
    if (first) first.click();
    root.dataset.ready = "yes";
  };
  begin();
})();
