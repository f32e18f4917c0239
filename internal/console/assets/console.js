// The script of the console: it sends what a page changes to the API, follows turns that
// run, and has them rendered anew. Everything else is in the pages.
"use strict";
(() => {
  const byId = (id) => document.getElementById(id);
  const newID = () => Array.from(crypto.getRandomValues(new Uint8Array(10)), (b) => b.toString(16).padStart(2, "0")).join("");
  const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
  const path = (...parts) => "/" + parts.map(encodeURIComponent).join("/");
  const api = (...parts) => "/v1" + path(...parts);

  // changed has the parts of the page brought up to date that tell of the session.
  const changed = () => document.body.dispatchEvent(new Event("aptix:changed"));

  const say = (text) => { byId("status").textContent = text; };

  function complain(text) {
    const box = byId("alert");
    const words = document.createElement("span");
    const button = document.createElement("button");
    words.textContent = text;
    button.type = "button";
    button.className = "quiet";
    button.textContent = "Close";
    button.addEventListener("click", calm);
    box.replaceChildren(words, button);
    box.hidden = false;
  }

  function calm() {
    byId("alert").hidden = true;
    byId("alert").replaceChildren();
  }

  // A Refusal is what the server answered; other errors mean that it did not.
  class Refusal extends Error {
    constructor(status, text) {
      super(text);
      this.status = status;
    }
  }

  async function ask(url, options = {}) {
    const answer = await fetch(url, options);
    if (answer.status === 401) {
      location.assign("/sign-in?next=" + encodeURIComponent(location.pathname));
    }
    if (!answer.ok) {
      const problem = await answer.json().catch(() => ({}));
      throw new Refusal(answer.status, problem.detail || "The server answered with status " + answer.status + ".");
    }
    return answer;
  }

  const send = (method, url, body) => ask(url, {
    method, headers: body ? { "Content-Type": "application/json" } : {}, body: body && JSON.stringify(body),
  });

  // attempt runs what a person asked for, and tells when it cannot be done.
  async function attempt(element, work) {
    const place = element.closest("[data-approval]") || element; // of which one thing is done at a time
    if (place.ariaBusy === "true") return;
    place.ariaBusy = "true"; // a button that is disabled would lose the focus
    calm();
    try {
      await work();
    } catch (e) {
      complain(e instanceof Refusal ? e.message : "The server cannot be reached. Try again; nothing is done twice.");
    } finally {
      place.ariaBusy = "false";
    }
  }

  // Turns that run.

  // events reads server-sent events: comments are left out, the data is JSON.
  async function* events(body, heard) {
    const reader = body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      heard();
      rest += value;
      for (let end; (end = rest.indexOf("\n\n")) >= 0; rest = rest.slice(end + 2)) {
        const data = rest.slice(0, end).split("\n").filter((line) => line.startsWith("data: ")).map((line) => line.slice(6)).join("\n");
        if (data) yield JSON.parse(data);
      }
    }
  }

  const silence = 45000; // the server says something every 15 seconds
  const following = new Set();
  let line = Promise.resolve();

  // follow shows what becomes of a turn. The turns of a session run one after the other, and a
  // browser has few connections to a server: they are followed one after the other too.
  function follow(article) {
    const { session, turn } = article.dataset;
    if (following.has(turn)) return;
    following.add(turn);
    line = line.then(() => attend(session, turn));
  }

  async function attend(session, turn) {
    const article = byId("turn-" + turn);
    const shown = { turn, session, last: Number(article.dataset.after), pieces: [], stale: false };
    byId("turns")?.setAttribute("aria-busy", "true");
    try {
      for (let wait = 500; !(await listen(shown, () => { wait = 500; })); wait = Math.min(2 * wait, 8000)) {
        say("The connection is lost. Trying again.");
        working(turn, "Connection lost, trying again …");
        await sleep(wait);
      }
    } catch (e) {
      complain(e.message);
    } finally {
      following.delete(turn);
      byId("turns")?.setAttribute("aria-busy", "false");
      changed();
    }
  }

  // listen follows the turn over one connection. It returns true when there is nothing more to
  // hear, false when the connection broke, and throws what the server refuses for good.
  async function listen(shown, heard) {
    const stop = new AbortController();
    let clock = setTimeout(() => stop.abort(), silence);
    try {
      const answer = await ask(api("sessions", shown.session, "turns", shown.turn, "events"), {
        headers: { "Last-Event-ID": String(shown.last) }, signal: stop.signal,
      });
      if (shown.stale || answer.status === 204) await redraw(shown);
      if (answer.status === 204) return true;
      working(shown.turn, "Working …");
      for await (const e of events(answer.body, () => { clearTimeout(clock); clock = setTimeout(() => stop.abort(), silence); heard(); })) {
        shown.last = e.sequence;
        if (await meet(shown, e)) return true;
      }
      return false;
    } catch (e) {
      if (e instanceof Refusal && e.status < 500) throw e;
      return false;
    } finally {
      clearTimeout(clock);
      stop.abort();
    }
  }

  const endings = {
    "turn.completed": "The answer is complete.", "turn.failed": "The turn failed.",
    "turn.cancelled": "The turn was cancelled.", "turn.waiting": "The turn waits for a decision or for a client.",
  };

  // meet shows one event, and returns whether it is the last one for now.
  async function meet(shown, e) {
    switch (e.type) {
      case "text.delta":
        if (e.sequence <= Number(byId("turn-" + shown.turn).dataset.after)) return false; // stands there already
        shown.pieces.push({ n: e.sequence, text: e.text || "" });
        paint(shown);
        return false;
      case "model.request":
        return false;
      case "turn.resumed":
        shown.pieces = shown.pieces.filter((p) => p.n < e.replaceFrom);
        break;
    }
    // What is shown already stays: somebody may be about to press a button of it.
    if (shown.stale || e.sequence > Number(byId("turn-" + shown.turn).dataset.after)) await redraw(shown);
    if (endings[e.type]) say(endings[e.type]);
    return e.type in endings;
  }

  const atEnd = () => innerHeight + scrollY > document.body.scrollHeight - 120;
  const toEnd = () => scrollTo(0, document.body.scrollHeight);

  // paint shows the text that the journal does not have yet.
  function paint(shown) {
    const box = byId("turn-" + shown.turn)?.querySelector(".stream");
    if (!box) return;
    const stay = atEnd();
    box.textContent = shown.pieces.map((p) => p.text).join("");
    box.hidden = box.textContent === "";
    if (stay) toEnd();
  }

  function working(turn, text) {
    const line = byId("turn-" + turn)?.querySelector(".working");
    if (line) line.lastChild.textContent = text;
  }

  async function card(session, turn) {
    const answer = await ask(path("sessions", session, "turns", turn, "card"), { headers: { "HX-Request": "true" } });
    const holder = document.createElement("template");
    holder.innerHTML = await answer.text(); // rendered and escaped by the server
    return holder.content.firstElementChild;
  }

  // redraw shows the turn as its journal has it by now.
  async function redraw(shown) {
    const old = byId("turn-" + shown.turn);
    shown.stale = true;
    const fresh = await card(shown.session, shown.turn);
    shown.stale = false;
    const stay = atEnd();
    const held = old.contains(document.activeElement);
    const cards = "details.tool:not(.approval)";
    const open = [...old.querySelectorAll(cards)].map((d) => d.open);
    fresh.querySelectorAll(cards).forEach((d, i) => { d.open = open[i] || false; });
    old.replaceWith(fresh);
    const after = Number(fresh.dataset.after);
    shown.pieces = shown.pieces.filter((p) => p.n > after);
    paint(shown);
    if (held) fresh.focus();
    if (stay) toEnd();
  }

  // What a person does.

  // execute sends a turn. It is the server's as soon as it answers, and goes on without this
  // connection. The same message sent again is the same turn.
  async function execute(form, session, instruction) {
    if (form.dataset.text !== instruction) {
      form.dataset.text = instruction;
      form.dataset.id = newID();
    }
    const answer = await send("POST", api("agent", "execute"), { sessionId: session, turnId: form.dataset.id, instruction, stream: true });
    await answer.body.cancel();
    const turn = form.dataset.id;
    delete form.dataset.text;
    return turn;
  }

  const acts = {
    start: async (form) => {
      const { mode, instruction } = Object.fromEntries(new FormData(form));
      form.dataset.session ||= newID();
      if (!form.dataset.made) await send("POST", api("sessions"), { sessionId: form.dataset.session, mode });
      form.dataset.made = "yes";
      await execute(form, form.dataset.session, instruction.trim());
      location.assign(path("sessions", form.dataset.session));
    },
    send: async (form) => {
      const session = form.closest("[data-session]").dataset.session;
      const turn = await execute(form, session, form.elements.instruction.value.trim());
      form.reset();
      form.elements.instruction.focus();
      const article = await card(session, turn);
      document.querySelector("[data-empty]")?.remove();
      byId("turns").append(article);
      toEnd();
      say("Sent.");
      changed();
      follow(article);
    },
    mode: async (form, submitter) => {
      const session = form.closest("[data-session]").dataset.session;
      const { mode, reason } = Object.fromEntries(new FormData(form));
      if (submitter?.name === "branch") return branch(session, { mode });
      await send("PUT", api("sessions", session, "mode"), { mode, reason: reason.trim() || "Chosen in the console." });
      say("The mode was changed.");
      changed();
    },
  };

  async function branch(session, how) {
    const made = await (await send("POST", api("sessions", session, "branch"), { sessionId: newID(), ...how })).json();
    location.assign(path("sessions", made.sessionId));
  }

  async function decide(button) {
    const article = button.closest("[data-turn]");
    const { session, turn } = article.dataset;
    const verdict = { decision: button.dataset.decide };
    if ("remember" in button.dataset) verdict.remember = true;
    const approval = button.closest("[data-approval]").dataset.approval;
    await send("POST", api("sessions", session, "turns", turn, "approvals", approval), verdict);
    await resume(article, "Decided.");
  }

  async function resume(article, text) {
    const { session, turn } = article.dataset;
    const fresh = await card(session, turn);
    article.replaceWith(fresh);
    fresh.focus();
    say(text);
    follow(fresh);
  }

  // again puts what a turn was asked into the field, to be sent once more.
  function again(article) {
    const field = byId("instruction");
    field.value = article.querySelector(".said .text").textContent;
    field.focus();
  }

  async function copy(button) {
    const text = await (await ask(button.dataset.copy)).text();
    if (!navigator.clipboard) throw new Refusal(0, "This browser copies only over HTTPS or on this machine. Download the exact bytes.");
    await navigator.clipboard.writeText(text);
    say("Copied.");
  }

  document.addEventListener("submit", (e) => {
    const kind = Object.keys(acts).find((k) => k in e.target.dataset);
    if (!kind) return;
    e.preventDefault();
    attempt(e.target, () => acts[kind](e.target, e.submitter));
  });

  document.addEventListener("click", (e) => {
    const button = e.target.closest("button");
    if (!button) return;
    const article = button.closest("[data-turn]");
    if ("decide" in button.dataset) attempt(button, () => decide(button));
    else if ("copy" in button.dataset) attempt(button, () => copy(button));
    else if ("again" in button.dataset) again(article);
    else if ("branch" in button.dataset) attempt(button, () => branch(article.dataset.session, {}));
    else if ("cancel" in button.dataset) {
      attempt(button, async () => {
        await send("POST", api("sessions", article.dataset.session, "turns", article.dataset.turn, "cancel"));
        await resume(article, "The turn was cancelled.");
      });
    }
  });

  document.addEventListener("keydown", (e) => {
    if (e.key === "Enter" && !e.shiftKey && !e.isComposing && e.target.matches("[data-send] textarea")) {
      e.preventDefault();
      e.target.form.requestSubmit();
    }
  });

  // Parts of a page that htmx asks for.
  let lost = false;
  document.addEventListener("htmx:error", () => {
    lost = true;
    complain("The server cannot be reached. What is shown may be out of date.");
  });
  document.addEventListener("htmx:after:request", () => {
    if (lost) calm();
    lost = false;
  });

  document.querySelectorAll("article[data-live]").forEach(follow);
  if (byId("turns") && !location.hash) toEnd();
})();
