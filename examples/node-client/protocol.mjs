// Numbers, seeds, hashes, odds and reports, in the order of docs/protocol.md. Integers beyond 2^53 are BigInts.
import { createHash, createHmac } from "node:crypto";

export class Invalid extends Error {
  constructor(kind, words) {
    super(words);
    this.kind = kind;
  }
}
const need = (condition, words, kind = "InvalidParameter") => {
  if (!condition) throw new Invalid(kind, words);
};
export const unhex = (text) => Buffer.from(text, "hex");
export const sha256 = (...parts) => createHash("sha256").update(Buffer.concat(parts)).digest();
const shake256 = (data, size) =>
  size ? createHash("shake256", { outputLength: size }).update(data).digest() : Buffer.alloc(0);
/** A non-negative integer in so many bytes, the most significant first. */
export const bytesOf = (value, size) => unhex(BigInt(value).toString(16).padStart(2 * size, "0"));
export const integer = (data) => BigInt("0x" + (Buffer.from(data).toString("hex") || "0"));
const ONE = 1n << 64n;
const ceilDivide = (a, b) => (a + b - 1n) / b;
const scaled = (word, size) => Number((word * BigInt(size)) >> 64n);
const wordsOf = (block) => Array.from({ length: block.length / 8 }, (_, i) => integer(block.subarray(8 * i, 8 * i + 8)));

// ---- random bytes, seeds, hashing

export const read = (source, count) => {
  const block = source(count);
  need(block.length === count, `a source must return ${count} bytes`);
  return block;
};
export const seeded = (seed) => {
  let reads = 0;
  return (count) => shake256(Buffer.concat([bytesOf(reads++, 8), seed]), count);
};
const framed = (parts) => Buffer.concat(parts.flatMap((part) => [bytesOf(part.length, 4), part]));
export const keyed = (key, ...parts) => seeded(createHmac("sha256", key).update(framed(parts)).digest());
export const uniform = scaled;
export const derive = (label, ...parts) => sha256(framed([Buffer.from(`hushcall/1/${label}`), ...parts]));
export const reportSeed = (roundSeed, ticket) => {
  need(roundSeed.length === 32 && /^[0-9a-f]{32}$/.test(ticket), "a seed has 32 bytes, a ticket 32 hex digits");
  return derive("report", roundSeed, unhex(ticket));
};

export const rowsOf = (seed, bits, itemBits) => {
  need(seed.length === 32, "a public seed has 32 bytes");
  need(bits >= 1 && bits <= 24 && itemBits >= 1 && itemBits <= 40, "bits: 1 to 24, item bits: 1 to 40");
  const stream = shake256(Buffer.concat([Buffer.from("hushcall/1/rows"), seed]), 5 * bits);
  const mask = (1n << BigInt(itemBits)) - 1n;
  return Array.from({ length: bits }, (_, i) => integer(stream.subarray(5 * i, 5 * i + 5)) & mask);
};
const parity = (value) => [...value.toString(2)].filter((bit) => bit === "1").length & 1;
export const product = (rows, item) => rows.reduce((y, row, i) => y + parity(row & item) * 2 ** i, 0);

// ---- weights: rationals of BigInts

/** A double, exactly: [numerator, denominator]. */
const exactly = (value) => {
  let places = 0n;
  while (!Number.isInteger(value)) {
    value *= 2;
    places += 1n;
  }
  return [BigInt(value), 1n << places];
};
const DIGITS = 60n;
const SCALE = 10n ** 120n;
/** E(ε), a rational just below e^ε. */
const expBelow = (epsilon) => {
  const [numerator, denominator] = exactly(epsilon);
  let term = SCALE;
  let sum = SCALE;
  for (let k = 1n; term > 0n; k += 1n) {
    term = (term * numerator) / (denominator * k);
    sum += term;
  }
  const cut = 10n ** (BigInt(sum.toString().length) - DIGITS);
  const rounded = ((sum + cut / 2n) / cut) * cut;
  return [rounded * (10n ** 50n - 1n), SCALE * 10n ** 50n];
};
export const responseWeights = (epsilon, size) => {
  need(typeof epsilon === "number" && epsilon > 0 && epsilon <= 40, "epsilon lies above 0, up to 40");
  need(Number.isInteger(size) && size >= 2, "a response has at least two values");
  const [numerator, denominator] = expBelow(epsilon);
  const other = ceilDivide(ONE * denominator, numerator + BigInt(size - 1) * denominator);
  return { keep: ONE - BigInt(size - 1) * other, other };
};
export const respond = ({ keep, other }, value, word) => {
  need(keep >= other, "the truth must be as likely as a lie");
  if (word < keep) return value;
  const index = Number((word - keep) / other);
  return index + (index >= value ? 1 : 0);
};

// ---- reports of subspace and whole-number

const KINDS = { subspace: 4, "whole-number": 5 };
const valueBytes = (size) => Math.ceil(Math.log2(size) / 8);
/** The checked mechanism of a bucket's `parameters`. */
export const mechanismOf = (parameters) => {
  const { mechanism, epsilon, bits, item_bits: itemBits, ...more } = parameters;
  need(mechanism in KINDS && Object.keys(more).length === 0, "mechanism must be subspace or whole-number");
  need([bits, itemBits].every(Number.isInteger), "bits and item_bits are integers");
  rowsOf(Buffer.alloc(32), bits, itemBits);
  const weights = responseWeights(epsilon, 2 ** bits);
  return { mechanism, epsilon, bits, itemBits, weights, bytes: 2 + valueBytes(2 ** bits) };
};
export const reportOf = (of, item, seed, source) => {
  need(item >= 0n && item >> BigInt(of.itemBits) === 0n, "the item is too wide");
  const truth = product(rowsOf(seed, of.bits, of.itemBits), item);
  const value = respond(of.weights, truth, integer(read(source, 8)));
  return Buffer.concat([Buffer.from([1, KINDS[of.mechanism]]), bytesOf(value, of.bytes - 2)]);
};
export const readReport = (of, report) => {
  need(report.length === of.bytes, "length", "WrongLength");
  need(report[0] === 1, "version", "WrongVersion");
  need(report[1] === KINDS[of.mechanism], "mechanism", "WrongMechanism");
  const value = Number(integer(report.subarray(2)));
  need(value < 2 ** of.bits, "value", "WrongSymbol");
  return value;
};
export const padded = (report, size) => Buffer.concat([report, Buffer.alloc(Math.max((size ?? 0) - report.length, 0))]);

// ---- numbers of a plan, from its JSON file

/** Texts of digits in order, the shorter ones first: 0 … 9, 00 … 99, … */
const firstOfLength = (length) => (10 ** length - 10) / 9;
export class Plan {
  constructor(file) {
    Object.assign(this, { first: file.first_suffix ?? 0, fixed: file.suffix_digits, file });
    this.areas = Object.keys(file.areas).sort(); // objects of JavaScript have "144" before "010"
    this.places = new Map(this.areas.map((area, place) => [area, place]));
    this.longest = Math.max(...Object.values(file.areas).flatMap((lengths) => [...lengths].map(Number)));
    this.end = this.fixed ? 10 ** this.fixed : firstOfLength(this.longest + 1);
    this.suffixBits = (this.end - 1).toString(2).length;
    const last = BigInt(this.areas.length - 1) * 2n ** BigInt(this.suffixBits) + BigInt(this.end - 1);
    this.wholeBits = last.toString(2).length;
  }
  number(area, suffix) {
    const code = String(area).padStart(this.file.area_digits, "0");
    need(this.places.has(code), "no such area code", "InvalidNumber");
    need(Number.isInteger(suffix) && suffix >= this.first && suffix < this.end, "no such suffix", "InvalidNumber");
    const digits = this.fixed ? String(suffix).padStart(this.fixed, "0") : this.digits(suffix);
    need(this.file.areas[code].includes(String(digits.length)), "no such length", "InvalidNumber");
    return { area: Number(code), suffix, e164: `+${this.file.country_code}${code}${digits}` };
  }
  digits(suffix) {
    let length = 1;
    while (firstOfLength(length + 1) <= suffix) length += 1;
    return String(suffix - firstOfLength(length)).padStart(length, "0");
  }
  parse(text) {
    const usual = /^\s*(?:tel:)?\s*(\+|00(?=[1-9]))?([\d\s().\/-]+)$/i.exec(typeof text === "string" ? text : "");
    need(usual, "no number", "InvalidNumber");
    const { country_code: country, national_prefix: prefix, whole_from: whole, area_digits: width } = this.file;
    let digits = usual[2].replace(/\D/g, "");
    if (usual[1]) {
      need(digits.startsWith(String(country)), "another country", "InvalidNumber");
      digits = digits.slice(String(country).length);
    } else if (this.fixed && digits.length === width + this.fixed + 1 && digits.startsWith(prefix || String(country))) {
      digits = digits.slice(1);
    } else if (prefix && digits.startsWith(prefix)) digits = digits.slice(prefix.length);
    else need(digits.length >= whole, "a local number", "InvalidNumber");
    const suffix = digits.slice(width);
    need(suffix && (!this.fixed || suffix.length === this.fixed), "another length", "InvalidNumber");
    return this.number(digits.slice(0, width), Number(suffix) + (this.fixed ? 0 : firstOfLength(suffix.length)));
  }
  bucketAndItem({ area, suffix }, mechanism) {
    if (mechanism !== "whole-number") return { bucket: area, item: BigInt(suffix) };
    const place = this.places.get(String(area).padStart(this.file.area_digits, "0"));
    return { bucket: 0, item: BigInt(place) * 2n ** BigInt(this.suffixBits) + BigInt(suffix) };
  }
  in(area, word) {
    if (this.fixed) return this.number(area, this.first + scaled(word, this.end - this.first));
    const lengths = [...(this.file.areas[String(area).padStart(this.file.area_digits, "0")] ?? "")].map(Number);
    let place = scaled(word, lengths.reduce((sum, length) => sum + 10 ** length, 0));
    for (const length of lengths) {
      if (place < 10 ** length) return this.number(area, firstOfLength(length) + place);
      place -= 10 ** length;
    }
    throw new Invalid("InvalidNumber", "no such area code");
  }
  dummy(source, within = null) {
    const [place, suffix] = wordsOf(read(source, 16));
    return this.in(within ?? this.areas[scaled(place, this.areas.length)], suffix);
  }
  /** A made-up caller; `home` is the owner's own area code or null. */
  callerLike(source, home) {
    const [own, place, suffix] = wordsOf(read(source, 24));
    if (home !== null && scaled(own, 5) < 2) return this.in(home, suffix);
    const weights = this.areas.map((area) => (this.file.complaints?.[area] ?? 0) + 1);
    let rest = scaled(place, weights.reduce((sum, weight) => sum + weight, 0));
    return this.in(this.areas[weights.findIndex((weight) => (rest -= weight) < 0)], suffix);
  }
}
/** One of the sorted candidates, or a dummy: {number, dummy}. */
export const choose = (candidates, plan, source) => {
  const word = integer(read(source, 8));
  const dummy = plan.dummy(source);
  const sorted = candidates.map((text) => plan.parse(text).e164).sort();
  return sorted.length ? { number: sorted[scaled(word, sorted.length)], dummy: false } : { number: dummy.e164, dummy: true };
};

// ---- signed rounds

const number = (value, name) => String(value) + (name === "epsilon" && Number.isInteger(value) ? ".0" : "");
const escaped = (text) =>
  JSON.stringify(text).replace(/[\u0080-\uffff]/g, (unit) => "\\u" + unit.charCodeAt(0).toString(16).padStart(4, "0"));
const canonical = (value, name = "") => {
  if (typeof value === "number") return number(value, name);
  if (typeof value === "string") return escaped(value);
  if (Array.isArray(value)) return `[${value.map((entry) => canonical(entry)).join(",")}]`;
  if (value === null || typeof value !== "object") return String(value);
  const members = Object.keys(value).sort().map((key) => `${escaped(key)}:${canonical(value[key], key)}`);
  return `{${members.join(",")}}`;
};
/** {opened, decided?}: the texts that a round document settles. */
export const parts = (document) => {
  const { round, plan, window, seed, profile, anonymous, buckets } = document;
  const base = { round, plan, window, seed, mechanism: profile.mechanism, epsilon: profile.epsilon };
  if (anonymous && Object.keys(anonymous).length) base.anonymous = anonymous;
  const opened = canonical(base);
  if (buckets === null) return { opened };
  return { opened, decided: canonical({ ...base, buckets, upload_bytes: document.upload_bytes ?? null }) };
};
export const toSign = (document) => {
  const { opened, decided } = parts(document);
  return Buffer.from("hushcall/1/round\n" + (decided ?? opened));
};
export const roundsNamed = (text) => {
  try {
    const file = JSON.parse(text);
    return file.format === "hushcall-rounds/1" ? file.rounds : {};
  } catch {
    return {};
  }
};
