// Questions to the server: an answer, or an Error whose message is a sentence to show.

const banner = document.getElementById("lost");
let whenBack = () => {};
let polling = null;

export class Lost extends Error {}

export function onBack(action) {
  whenBack = action;
}

export async function ask(address, options = {}) {
  let answer;
  try {
    answer = await fetch(address, { credentials: "same-origin", cache: options.body ? "no-store" : "default", ...options });
  } catch {
    lost();
    throw new Lost("The server does not answer.");
  }
  connected();
  if (answer.status === 503 && !options.second) {
    await new Promise((done) => setTimeout(done, 1000));
    return ask(address, { ...options, second: true });
  }
  if (!answer.ok) {
    let sentence = `The server answered ${answer.status}.`;
    try {
      sentence = (await answer.json()).error || sentence;
    } catch { /* an answer that is not ours */ }
    throw new Error(sentence);
  }
  return answer;
}

export function post(address, question) {
  return ask(address, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(question) });
}

export async function askJson(address, question) {
  return (await (question === undefined ? ask(address) : post(address, question))).json();
}

function lost() {
  banner.hidden = false;
  polling ??= setInterval(retry, 3000);
}

function connected() {
  banner.hidden = true;
  clearInterval(polling);
  polling = null;
}

async function retry() {
  try {
    await fetch("api/albums", { cache: "no-store" });
  } catch {
    return;
  }
  connected();
  whenBack();
}

document.getElementById("retry").addEventListener("click", retry);
