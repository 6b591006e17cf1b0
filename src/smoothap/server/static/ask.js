// Questions to the server: an answer, or an Error whose message is a sentence to show.

import { words } from "./strings.js";

const EVERY = 3000; // milliseconds between two looks whether a server that is away is back
const banner = document.getElementById("lost");
let whenBack = () => {};
let away = null; // while the server does not answer: {promise, resolve, timer}, the promise of its return

export class Lost extends Error {}

export function onBack(action) {
  whenBack = action;
}

export function isAway() {
  return away !== null;
}

// Resolves when the server answers again.
export function back() {
  return away?.promise ?? Promise.resolve();
}

export async function ask(address, options = {}) {
  let answer;
  try {
    answer = await fetch(address, { credentials: "same-origin", cache: options.body ? "no-store" : "default", ...options });
  } catch {
    answer = null;
  }
  if (!isFromServer(answer)) {
    lost();
    throw new Lost(words.lost);
  }
  connected();
  if (answer.status === 503 && !options.second) {
    await new Promise((done) => setTimeout(done, 1000));
    return ask(address, { ...options, second: true });
  }
  if (!answer.ok) {
    let sentence = words.answered(answer.status);
    try {
      sentence = (await answer.json()).detail || sentence;
    } catch { /* an answer that is not ours */ }
    throw Object.assign(new Error(sentence), { status: answer.status });
  }
  return answer;
}

export function post(address, question) {
  return ask(address, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(question) });
}

export async function askJson(address, question) {
  return (await (question === undefined ? ask(address) : post(address, question))).json();
}

// A proxy in front of a server that is away answers for it: bad gateway, or gateway timeout.
function isFromServer(answer) {
  return answer !== null && answer.status !== 502 && answer.status !== 504;
}

function lost() {
  if (away !== null) return;
  banner.hidden = false;
  away = { timer: setInterval(retry, EVERY) };
  away.promise = new Promise((resolve) => { away.resolve = resolve; });
}

function connected() {
  if (away === null) return;
  const { timer, resolve } = away;
  banner.hidden = true;
  clearInterval(timer);
  away = null;
  resolve();
  whenBack();
}

async function retry() {
  const answer = await fetch("api/v1/albums", { cache: "no-store" }).catch(() => null);
  if (isFromServer(answer)) connected();
}

document.getElementById("retry").addEventListener("click", retry);
