// Parts of a page that the server renders: an address comes in, the parts on the page that changed are replaced.

const tags = new Map();

/** Fetch an address; the document it answers with, or null where nothing changed. Throws where it cannot be had. */
export async function fetchPart(address) {
  const known = tags.get(address);
  const headers = known ? { "if-none-match": known } : {};
  const signal = AbortSignal.timeout(15_000);
  const answer = await fetch(address, { headers, cache: "no-store", credentials: "same-origin", signal });
  if (answer.status === 304) return null;
  if (!answer.ok) throw new Error(`status ${answer.status}`);
  if (answer.headers.has("etag")) tags.set(address, answer.headers.get("etag"));
  return new DOMParser().parseFromString(await answer.text(), "text/html");
}

/** Replace what differs. What is open stays open, and the focus stays where it was. */
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
