// Replaces parts of a page with those that the server renders.

const tags = new Map();

/** The document at an address, or null where it has not changed. */
export async function fetchPart(address) {
  const tag = tags.get(address);
  const headers = tag ? { "if-none-match": tag } : {};
  const signal = AbortSignal.timeout(15_000);
  const answer = await fetch(address, { headers, cache: "no-store", credentials: "same-origin", signal });
  if (answer.status === 304) return null;
  if (!answer.ok) throw new Error(`status ${answer.status}`);
  if (answer.headers.has("etag")) tags.set(address, answer.headers.get("etag"));
  return new DOMParser().parseFromString(await answer.text(), "text/html");
}

/** Replaces changed parts. Open details stay open, and the focus stays. */
export function replaceParts(fresh) {
  for (const part of fresh.querySelectorAll("[data-part]")) {
    const old = document.getElementById(part.id);
    if (!old || old.isEqualNode(part)) continue;
    const open = [...old.querySelectorAll("details[open]")].map((each) => each.id);
    const focused = old.contains(document.activeElement) ? document.activeElement.id : "";
    old.replaceChildren(...part.childNodes);
    for (const id of open) document.getElementById(id)?.setAttribute("open", "");
    if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
  }
}
