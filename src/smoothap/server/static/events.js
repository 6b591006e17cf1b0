// What the server tells by itself: that an album, its collections or what it learns is not as it was.

import { askJson } from "./ask.js";

const AGAIN = 3000; // milliseconds after which a stream that was refused is asked for again

// told(albums) is called with [{name, version, collections, learning}], at first and whenever that changes.
export function follow(told) {
  const source = new EventSource("api/v1/events");
  source.addEventListener("message", (event) => told(JSON.parse(event.data)));
  source.addEventListener("error", () => {
    askJson("api/v1/albums").catch(() => {}); // which tells in the banner where the server is away
    if (source.readyState === EventSource.CLOSED) setTimeout(() => follow(told), AGAIN); // else the browser asks itself
  });
  addEventListener("pagehide", () => source.close());
}
