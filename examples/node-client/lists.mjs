// The list: TUF metadata from a root that the program ships, deltas, and the verdict on a caller.
import { createPublicKey, verify } from "node:crypto";
import { Invalid, sha256, unhex } from "./protocol.mjs";

const need = (condition, words, kind = "InvalidList") => {
  if (!condition) throw new Invalid(kind, words);
};
const hash = (data) => sha256(data).toString("hex");

// ---- TUF

/** Canonical JSON as TUF has it: sorted keys, integers only, two characters escaped. */
const canonical = (value) => {
  if (typeof value === "string") return `"${value.replace(/(["\\])/g, "\\$1")}"`;
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (value === null || typeof value !== "object") return String(value);
  const members = Object.keys(value).sort();
  return `{${members.map((key) => `${canonical(key)}:${canonical(value[key])}`).join(",")}}`;
};
export const signedBy = (key, message, signature) => {
  const der = Buffer.concat([unhex("302a300506032b6570032100"), unhex(key.keyval.public)]);
  return verify(null, message, createPublicKey({ key: der, format: "der", type: "spki" }), unhex(signature));
};
const keysOf = (root, role) => root.roles[role].keyids.map((id) => [id, root.keys[id]]);
/** Whether enough keys of a role of the root signed a message. */
export const enough = (root, role, message, signatures) => {
  const good = keysOf(root, role).filter(([id, key]) =>
    signatures.some((each) => each.keyid === id && signedBy(key, message, each.sig)),
  );
  return good.length >= root.roles[role].threshold;
};
const opened = (root, role, data) => {
  const { signed, signatures } = JSON.parse(data);
  need(enough(root, role, Buffer.from(canonical(signed)), signatures), `${role}: signatures`);
  need(signed._type === role, `${role}: another role`);
  return signed;
};
const same = (data, { length, hashes, version }, signed) => {
  need(length === undefined || data.length === length, "length");
  need(hashes === undefined || hashes.sha256 === hash(data), "digest");
  need(version === undefined || signed.version === version, "version");
};

/** A client of one list. `fetch(path)` gives bytes, or null where there is nothing; `store` survives restarts. */
export class Lists {
  constructor(fetch, store) {
    Object.assign(this, { fetch, store });
  }
  get root() {
    return JSON.parse(this.store.root).signed;
  }
  async sync(now) {
    for (let next; (next = await this.fetch(`metadata/${this.root.version + 1}.root.json`)); ) {
      const root = opened(this.root, "root", next);
      opened(root, "root", next);
      need(root.version === this.root.version + 1, "root: version");
      this.store.root = next.toString();
    }
    const fresh = (signed) => need(Date.parse(signed.expires) > 1000 * now, `${signed._type}: expired`);
    const get = async (path) => {
      const data = await this.fetch(path);
      need(data, `${path}: missing`);
      return data;
    };
    fresh(this.root);
    const timestamp = opened(this.root, "timestamp", await get("metadata/timestamp.json"));
    fresh(timestamp);
    need(timestamp.version >= (this.store.timestamp ?? 0), "timestamp: rolled back");
    const meta = timestamp.meta["snapshot.json"];
    const data = await get(`metadata/${meta.version}.snapshot.json`);
    const snapshot = opened(this.root, "snapshot", data);
    same(data, meta, snapshot);
    fresh(snapshot);
    need(snapshot.version >= (this.store.snapshot ?? 0), "snapshot: rolled back");
    const about = snapshot.meta["targets.json"];
    const raw = await get(`metadata/${about.version}.targets.json`);
    const targets = opened(this.root, "targets", raw);
    same(raw, about, targets);
    fresh(targets);
    need(targets.version >= (this.store.targets ?? 0), "targets: rolled back");
    const list = await this.list(targets.targets);
    const rounds = (await this.target(targets.targets, "rounds.json")) ?? "";
    Object.assign(this.store, {
      timestamp: timestamp.version,
      snapshot: snapshot.version,
      targets: targets.version,
      expires: Math.min(...[this.root, timestamp, snapshot, targets].map(({ expires }) => Date.parse(expires) / 1000)),
      list,
      rounds,
    });
    return JSON.parse(list.slice(0, list.indexOf("\n")));
  }
  async target(targets, name) {
    if (!targets[name]) return null;
    const data = await this.fetch(`targets/${targets[name].hashes.sha256}.${name}`);
    need(data, `${name}: missing`);
    same(data, targets[name]);
    return data.toString();
  }
  /** The newest list: by a delta from the one at hand, else the whole. */
  async list(targets) {
    const wanted = targets["blocklist.jsonl"];
    need(wanted, "no list");
    const old = this.store.list;
    if (old && hash(Buffer.from(old)) === wanted.hashes.sha256) return old;
    const from = old ? JSON.parse(old.slice(0, old.indexOf("\n"))).version : null;
    const name = Object.keys(targets).find((target) => target.startsWith(`delta-${from}-`));
    if (name) {
      const list = applyDelta(old, await this.target(targets, name));
      if (hash(Buffer.from(list)) === wanted.hashes.sha256) return list;
    }
    return this.target(targets, "blocklist.jsonl");
  }
}

// ---- lists and deltas: lines are copied, never spelled anew

export const readList = (text) => {
  const lines = text.split("\n");
  need(lines.pop() === "", "the last line has an end");
  let header, entries;
  try {
    [header, ...entries] = lines.map((line) => JSON.parse(line));
  } catch {
    throw new Invalid("InvalidList", "every line is JSON");
  }
  need(/^hushcall-list\/[12]$/.test(header?.format), "a header");
  const numbers = entries.map((entry) => entry.number);
  need(entries.length === header.entries, "as many entries as the header says");
  need(numbers.every((each, i) => /^\+[1-9]\d{6,14}$/.test(each) && (!i || numbers[i - 1] < each)), "sorted numbers");
  return { header, entries, lines: new Map(numbers.map((each, i) => [each, lines[i + 1]])) };
};
export const applyDelta = (list, delta) => {
  const { header, lines } = readList(list);
  const [first, ...changes] = delta.split("\n");
  let about;
  try {
    about = JSON.parse(first);
    need(about.format === "hushcall-delta/1" && changes.pop() === "", "a whole delta");
    need(about.from === header.version && about.from_sha256 === hash(Buffer.from(list)), "a delta of this list");
    for (const line of changes) {
      const change = JSON.parse(line);
      if (change.remove) lines.delete(change.remove);
      else lines.set(change.number, line);
    }
  } catch (error) {
    throw error instanceof Invalid ? error : new Invalid("InvalidList", "a delta is JSON lines");
  }
  const top = first.slice(first.indexOf('"header":') + '"header":'.length, -1);
  const result = [top, ...[...lines.keys()].sort().map((each) => lines.get(each)), ""].join("\n");
  need(about.to_sha256 === hash(Buffer.from(result)), "the list that the delta promises");
  return result;
};
/** {action, listed}. The owner's `blockDays` and `blockPhones` replace the list's; null: the list decides. */
export const verdict = (list, e164, contacts = new Set(), blockDays = null, blockPhones = null) => {
  need(blockDays === null || blockDays >= 1, "block_days is at least 1", "InvalidParameter");
  const { header, entries } = readList(list);
  const entry = entries.find((each) => each.number === e164);
  if (!entry || contacts.has(e164)) return { action: "allow", listed: Boolean(entry) };
  const older = header.format === "hushcall-list/1";
  const days = blockDays ?? header.block_days ?? 2;
  const rounds = older ? entry.days : Math.max(entry.days, entry.window);
  let blocks = rounds >= days || (older && entry.low >= (blockPhones ?? header.tau));
  if (blockDays === null && entry.block !== undefined) blocks = entry.block;
  return { action: blocks ? "block" : "warn", listed: true };
};
