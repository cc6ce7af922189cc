#!/usr/bin/env node
// A client in one process per visit. Every command takes folders, one a phone, and prints one JSON line for each.
//
//   node client.mjs init SERVER FOLDER…  [--epsilon 4] [--caps 32] [--plan FILE] [--root FILE] [--invite CODE]
//                                        [--relay URL] [--min-phase SECONDS] [--now UNIX]
//   node client.mjs call NUMBER FOLDER… | report FOLDER… | sync FOLDER… | check NUMBER FOLDER…  [--now UNIX]
import { randomBytes } from "node:crypto";
import { mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { seal, readResponse, ticketOf, tokenOf, wish, writeRequest } from "./anonymity.mjs";
import { enough, Lists, verdict } from "./lists.mjs";
import * as p from "./protocol.mjs";

const DAY = 86400;
const HORIZON = 30 * DAY;
const FINAL = new Set(
  (
    "bad-request expired-token foreign-token private-reports-only unknown-round future-round unknown-ticket " +
    "wrong-phase not-anonymous already-issued token-spent already-announced different-report bucket-skipped " +
    "oversized wrong-bucket malformed-report"
  ).split(" "),
);
const seconds = (time) => Date.parse(time) / 1000;
const json = (data) => JSON.parse(Buffer.from(data).toString());
const text = (words) => Buffer.from(words);

/** What ends this visit: `final` ends the phone's part in the round, else the next visit tries again. */
class Halt extends Error {
  constructor(words, final = false) {
    super(words);
    this.final = final;
  }
}

class Client {
  constructor(folder, now) {
    Object.assign(this, { folder, now, file: join(folder, "state.json") });
  }
  static open(folder, now) {
    const client = new Client(folder, now);
    client.state = json(readFileSync(client.file));
    client.plan = new p.Plan(client.state.plan);
    return client;
  }
  save() {
    writeFileSync(this.file + ".new", JSON.stringify(this.state), { mode: 0o600, flush: true });
    renameSync(this.file + ".new", this.file); // whole or not at all
  }

  // ---- the wire

  async direct(method, path, { body, type, token } = {}) {
    const headers = { ...(type && { "content-type": type }), ...(token && { authorization: `Bearer ${token}` }) };
    const answer = await fetch(this.state.server + path, { method, headers, body, redirect: "error" });
    return { status: answer.status, body: await limited(answer) };
  }
  /** Sealed, through the relay. Nothing outside the seal is believed. */
  async relayed(method, path, { body = Buffer.alloc(0), type, authorization } = {}) {
    this.state.gateway ??= await this.gatewayKey();
    const headers = { ...(type && { "content-type": type }), ...(authorization && { authorization }) };
    const message = writeRequest(method, new URL(this.state.server).host, path, headers, body);
    const { sealed, open } = seal(p.unhex(this.state.gateway), message);
    const options = { method: "POST", body: sealed, headers: { "content-type": "message/ohttp-req" } };
    const answer = await fetch(this.state.relay, { ...options, redirect: "error" });
    const data = await limited(answer);
    if (answer.status !== 200) {
      if (answer.status === 400 && data.includes("sealed-otherwise")) this.state.gateway = undefined;
      throw new Halt(`the relay answered ${answer.status}`);
    }
    return readResponse(open(data));
  }
  /** One key configuration: application/ohttp-keys has its length before it. */
  async gatewayKey() {
    const data = await limited(await fetch(this.state.relay, { redirect: "error" }));
    return data.subarray(2, 2 + Number(p.integer(data.subarray(0, 2)))).toString("hex");
  }
  ask(method, path, options = {}) {
    return this.state.relay ? this.relayed(method, path, options) : this.direct(method, path, options);
  }
  /** The answer's body, or a Halt for a refusal. */
  static taken({ status, body }) {
    if (status < 300) return body;
    const name = /^\{.*"urn:hushcall:problem:([a-z-]+)"/s.exec(body.toString())?.[1] ?? `status ${status}`;
    throw new Halt(name, FINAL.has(name));
  }
  /** This client's draws for one occasion: a copy of the client draws the same. */
  source(purpose, ...more) {
    const parts = [purpose, this.state.server, String(this.state.part?.round ?? 0)].map(text);
    return p.keyed(p.unhex(this.state.key), ...parts, ...more);
  }

  // ---- enrolment

  async init(server, options) {
    this.state = { server, key: randomBytes(32).toString("hex"), calls: {}, reported: {}, contacts: [], lists: {} };
    this.state.limits = { epsilon: Number(options.epsilon ?? 4), caps: Number(options.caps ?? 32) };
    const { challenge, bits } = json(Client.taken(await this.direct("GET", "/v1/devices/challenge")));
    if (bits > 32) throw new Halt("too much work");
    const body = { ...(options.invite && { invite: options.invite }), ...(bits && { work: work(challenge, bits) }) };
    const request = { body: JSON.stringify(body), type: "application/json" };
    const { token, plan } = json(Client.taken(await this.direct("POST", "/v1/devices", request)));
    const file = options.plan ?? new URL("../../src/hushcall/protocol/numbers/data/nanp-2026.json", import.meta.url);
    const known = json(readFileSync(file)); // shipped, or chosen by the owner: never the server's
    if (known.name !== plan) throw new Halt(`the server's plan is ${plan}`);
    Object.assign(this.state, { token, plan: known, since: this.now, spends: [], highest: 0, acted: {} });
    // An app ships the root. Without one, this trusts the first that it sees.
    const root = options.root ? readFileSync(options.root) : (await this.direct("GET", "/v1/lists/root.json")).body;
    this.state.lists.root = root.toString();
    if (options.relay) {
      if (new URL(options.relay).host === new URL(server).host) throw new Halt("the relay is the server's");
      Object.assign(this.state, { relay: options.relay, leastPhase: Number(options["min-phase"] ?? 3600) });
    }
    mkdirSync(this.folder, { recursive: true });
    return { enrolled: true };
  }

  // ---- a round

  async document() {
    const document = json(Client.taken(await this.ask("GET", "/v1/rounds/current")));
    const { root } = new Lists(null, this.state.lists);
    const signed = enough(root, "timestamp", p.toSign(document), document.signatures ?? []);
    if (signed) this.state.signs = true;
    else if (this.state.signs || this.state.relay) throw new Halt("the round is not signed");
    return document;
  }
  /** [opens, collects, closes]: the signed ones where there is a relay. */
  times(document) {
    const from = this.state.relay ? document.anonymous : document;
    return [from.opens, from.collects, from.closes].map(seconds);
  }
  consents(document) {
    const { epsilon, mechanism } = document.profile;
    const { limits, spends, lists, since } = this.state;
    const spent = spends.filter((each) => each.at > this.now - 7 * DAY).reduce((sum, each) => sum + each.epsilon, 0);
    if (!["subspace", "whole-number"].includes(mechanism)) throw new Halt(`mechanism ${mechanism}`, true);
    if (epsilon > limits.epsilon || spent + epsilon > limits.caps) throw new Halt("more than the owner allows", true);
    if (document.plan !== this.state.plan.name) throw new Halt("another plan", true);
    if ((lists.expires ?? since + 3 * DAY) < this.now) throw new Halt("the list has expired");
    if (this.state.stopped) throw new Halt(this.state.stopped, true);
    if (!this.state.relay) return;
    const [opens, collects, closes] = this.times(document);
    const middle = Math.floor((opens + collects) / 2);
    if (Math.min(middle - opens, collects - middle, closes - collects) < this.state.leastPhase) throw new Halt("too short", true);
    if (Math.abs(seconds(document.server_time) - this.now) > 300) throw new Halt("the server's clock is off");
  }
  /** Choice and moments, before anything is sent. */
  join(document) {
    const day = Math.floor(this.now / DAY);
    if (document.round > this.state.highest + 1_000_000) throw new Halt("the round's id is too far ahead");
    if (this.state.part?.day === day) throw new Halt("one round a day");
    this.consents(document);
    const previous = this.state.part;
    if (previous?.number && !previous.reported) this.state.reported[previous.number] = this.now;
    this.state.highest = document.round;
    this.state.part = { round: document.round, day, stage: "waiting" };
    const { part } = this.state;
    const [opens, collects, closes] = this.times(document);
    const source = this.source("join");
    const drawn = source(this.state.relay ? 24 : 16);
    const moment = (place, from, to) => {
      const end = to - Math.min((to - from) / 10, 3600);
      const start = Math.max(from, Math.min(this.now, end));
      return start + p.uniform(p.integer(drawn.subarray(8 * place, 8 * place + 8)), Math.max(Math.floor(end - start), 1));
    };
    const middle = Math.floor((opens + collects) / 2);
    if (this.state.relay) {
      if (this.now >= middle) throw new Halt("too late to join");
      part.moments = [moment(0, opens, middle), moment(1, middle, collects), moment(2, collects, closes)];
      const word = p.integer(this.source("token", text("second look"))(8));
      part.look = this.now + p.uniform(word, Math.max(Math.floor(part.moments[0] - this.now), 1));
      Object.assign(part, { stage: "looking", closes, collects, seen: p.parts(document).opened });
      Object.assign(part, { seed: document.seed, anonymous: document.anonymous });
    } else part.moments = [null, moment(0, opens, collects), moment(1, collects, closes)];
    const window = this.now - document.window * DAY;
    const { calls, reported, contacts } = this.state;
    const open = (number) => !contacts.includes(number) && !(reported[number] > this.now - HORIZON);
    if (!Object.keys(calls).some((number) => calls[number] > window && open(number))) {
      const made = this.plan.callerLike(this.source("caller"), null).e164;
      calls[made] = this.now - p.uniform(p.integer(this.source("called")(8)), DAY);
    }
    const candidates = Object.keys(calls).filter((number) => calls[number] > window && open(number));
    part.number = p.choose(candidates, this.plan, source).number;
    part.mechanism = document.profile.mechanism;
    part.bucket = this.plan.bucketAndItem(this.plan.parse(part.number), part.mechanism).bucket;
    return document;
  }
  /** Headers and transport of a round's requests: the device by name, or the token through the relay. */
  send(method, path, body, type) {
    const { token, relay, part } = this.state;
    if (!relay) return this.direct(method, path, { body, type, token });
    const secret = p.unhex(part.token).toString("base64url");
    return this.relayed(method, path, { body, type, authorization: `PrivateToken token="${secret}"` });
  }
  async announce() {
    const { part } = this.state;
    const body = text(JSON.stringify({ bucket: part.bucket }));
    const answer = await this.send("POST", `/v1/rounds/${part.round}/announcements`, body, "application/json");
    const { ticket, bucket } = json(Client.taken(answer));
    if (bucket !== part.bucket || (part.token && ticket !== ticketOf(p.unhex(part.token)))) throw new Halt("ticket", true);
    Object.assign(part, { ticket, stage: "announced" });
  }
  /** The upload of this round, made once and saved before it is sent: the report, or cover in its place. */
  prepare(document) {
    const { part } = this.state;
    const size = document.upload_bytes ?? 3;
    let upload;
    try {
      upload = this.randomised(document, document.buckets[part.bucket]);
    } catch (error) {
      if (!(error instanceof Halt || error instanceof p.Invalid)) throw error;
      upload = Buffer.concat([Buffer.from([0]), this.source("cover")(size - 1)]);
    }
    part.upload = p.padded(upload, size).toString("hex");
  }
  randomised(document, bucket) {
    const { part, contacts, reported, limits, spends } = this.state;
    if (bucket?.runs !== true) throw new Halt("the bucket is skipped");
    this.consents(document);
    const of = p.mechanismOf(bucket.parameters);
    const width = part.mechanism === "subspace" ? this.plan.suffixBits : this.plan.wholeBits;
    const least = Math.floor(Math.min(of.epsilon, Math.max(4, 0.75 * of.epsilon)));
    if (of.mechanism !== part.mechanism || of.itemBits !== width || of.bits < least || of.epsilon > limits.epsilon) {
      throw new Halt("parameters that the owner did not agree to");
    }
    const known = contacts.includes(part.number) || reported[part.number] > this.now - HORIZON;
    const area = part.mechanism === "subspace" ? part.bucket : null;
    const standIn = this.plan.dummy(this.source("stand-in"), area).e164;
    const { item } = this.plan.bucketAndItem(this.plan.parse(known ? standIn : part.number), part.mechanism);
    const seed = p.reportSeed(p.unhex(document.seed), part.ticket);
    const about = [text(part.ticket), seed, text(JSON.stringify(bucket.parameters)), text(String(item))];
    const report = p.reportOf(of, item, seed, this.source("report", ...about));
    spends.push({ round: part.round, at: this.now, epsilon: of.epsilon });
    if (!known) [reported[part.number], part.reported] = [this.now, true];
    return report;
  }
  async report() {
    const document = await this.document();
    const { part } = this.state;
    if (document.round !== part.round || document.buckets === null) throw new Halt("buckets are not decided");
    if (part.seen && p.parts(document).opened !== part.seen) throw new Halt("another document than before", true);
    this.state.acted[part.round] = digests(document);
    if (!part.upload) this.prepare(document);
    this.save(); // the spend is on disk before the report leaves
    const path = `/v1/rounds/${part.round}/reports/${part.ticket}`;
    Client.taken(await this.send("PUT", path, p.unhex(part.upload), "application/octet-stream"));
    part.stage = "sent";
  }
  /** The second look, then in a visit of its own the token: the only request under the device's name. */
  async look() {
    const { part } = this.state;
    const document = await this.document();
    if (p.parts(document).opened !== part.seen) throw new Halt("another document than before", true);
    this.state.acted[part.round] = digests(document);
    this.state.gateway = part.anonymous.gateway;
    part.stage = "looked";
  }
  async getToken() {
    const { part, token } = this.state;
    const key = p.unhex(part.anonymous.token_key);
    const pending = wish(key, p.unhex(part.seed), this.source("token"));
    const request = { body: pending.request, type: "application/private-token-request", token };
    const answer = Client.taken(await this.direct("POST", `/v1/rounds/${part.round}/tokens`, request));
    Object.assign(part, { token: tokenOf(key, pending, answer).toString("hex"), stage: "token" });
  }
  /** One step, if its moment has come. */
  async visit() {
    const { part } = this.state;
    const due = (place) => part.moments[place] <= this.now;
    if (part?.stage === "looked") return due(0) && (await this.getToken());
    if (part?.stage === "token") return due(1) && this.now < part.collects && (await this.announce());
    if (part?.stage === "announced") return due(2) && (await this.report());
    if (part?.stage === "looking") return part.look <= this.now && (await this.look());
    const document = await this.document();
    if (document.state !== "announcing") return undefined;
    if (document.round > this.state.highest) this.join(document);
    else if (part.stage === "waiting" && due(1)) await this.announce();
    return undefined;
  }
  async step() {
    let halted = null;
    try {
      const { part } = this.state;
      if (part?.closes && part.closes <= this.now && part.stage !== "sent") part.stage = "over";
      await this.visit();
    } catch (error) {
      if (!(error instanceof Halt || error instanceof p.Invalid)) throw error;
      halted = error.message;
      if (error.final && this.state.part) this.state.part.stage = "over";
    }
    const part = this.state.part ?? {};
    return { stage: part.stage ?? "idle", round: part.round ?? null, number: part.number ?? null, halted };
  }

  // ---- the list

  async sync() {
    const lists = new Lists(async (path) => {
      const answer = await this.ask("GET", `/v1/lists/${path}`);
      return answer.status === 404 ? null : Client.taken(answer);
    }, this.state.lists);
    const header = await lists.sync(this.now);
    const named = p.roundsNamed(this.state.lists.rounds);
    const rounds = Object.keys(named).map(Number);
    for (const [round, acted] of Object.entries(this.state.acted)) {
      if (round < Math.min(...rounds) || round > Math.max(...rounds)) continue; // not of this list
      const differs = Object.keys(acted).some((part) => acted[part] !== named[round]?.[part]);
      if (differs) this.state.stopped = `the server showed others another round ${round}`;
    }
    return { version: header.version, list: this.state.lists.list, stopped: this.state.stopped ?? null };
  }
  call(text) {
    this.state.calls[this.plan.parse(text).e164] = this.now;
    return { calls: Object.keys(this.state.calls).length };
  }
  check(text) {
    return verdict(this.state.lists.list, this.plan.parse(text).e164, new Set(this.state.contacts));
  }
}

const digests = (document) =>
  Object.fromEntries(Object.entries(p.parts(document)).map(([name, part]) => [name, p.sha256(text(part)).toString("hex")]));
const limited = async (answer) => {
  const data = Buffer.from(await answer.arrayBuffer());
  if (data.length > 4 << 20) throw new Halt("an answer of more than 4 MiB");
  return data;
};
const work = (challenge, bits) => {
  for (let nonce = randomBytes(6).readUIntBE(0, 6); ; nonce += 1) {  // the server takes an answer once
    const digest = p.integer(p.derive("work", text(challenge), p.bytesOf(nonce, 8)));
    if (digest >> BigInt(256 - bits) === 0n) return `${challenge}:${p.bytesOf(nonce, 8).toString("hex")}`;
  }
};

const options = {};
const words = [];
for (let rest = process.argv.slice(2); rest.length; rest = rest.slice(1)) {
  if (rest[0].startsWith("--")) [options[rest[0].slice(2)], rest] = [rest[1], rest.slice(1)];
  else words.push(rest[0]);
}
const now = Number(options.now ?? Math.floor(Date.now() / 1000));
const [command, first, ...others] = words;
const folders = ["init", "call", "check"].includes(command) ? others : [first, ...others];
for (const folder of folders) {
  const client = command === "init" ? new Client(folder, now) : Client.open(folder, now);
  const does = {
    init: () => client.init(first.replace(/\/$/, ""), options),
    call: () => client.call(first),
    check: () => client.check(first),
    report: () => client.step(),
    sync: () => client.sync(),
  };
  if (!does[command]) throw new Error(`${command} is no command: init, call, report, sync, check`);
  console.log(JSON.stringify({ folder, ...(await does[command]()) }));
  client.save();
}
