// The client side of the subspace mechanism: b randomised bits of a linear hash of a number.
//
// Equal to mechanisms/subspace/client.py, by the same test vectors. Nothing here is sent.

import { concat, fromInteger, toBigInt, utf8 } from "./bytes.js";
import {
  InvalidParameter, WrongLength, WrongMechanism, WrongSymbol, WrongVersion, length, whole,
} from "./errors.js";
import { ceilDivide, expBelow } from "./exact.js";
import { sha256 } from "./sha256.js";
import { shake256 } from "./shake256.js";

/** Odds are whole numbers out of this one. */
export const ONE = 1n << 64n;
export const SEED_BYTES = 32;
const VERSION = 1;
const HEADER_BYTES = 2;
const WORD_BYTES = 8;
const ROW_BYTES = 5;
const MAX_BITS = 24;
const KINDS = { subspace: 4, "whole-number": 5 };

/** The browser's entropy, the only source of randomness of this page. */
export const entropy = (count) => crypto.getRandomValues(new Uint8Array(count));

/** A 32-byte seed: SHA-256 of the label and the parts, each after its length in four bytes. */
export const derive = (label, ...parts) =>
  sha256(concat(...[utf8(`hushcall/1/${label}`), ...parts].flatMap((part) => [fromInteger(part.length, 4), part])));

/** The rows of A: five bytes of SHAKE-256(label ‖ public seed) each, cut to the bits of an item. */
export function rows(publicSeed, bits, itemBits) {
  length("public", publicSeed, SEED_BYTES);
  whole("bits", bits, 1, MAX_BITS);
  whole("item_bits", itemBits, 1, 8 * ROW_BYTES);
  const stream = shake256(concat(utf8("hushcall/1/rows"), publicSeed), ROW_BYTES * bits);
  const row = (place) => toBigInt(stream.subarray(ROW_BYTES * place, ROW_BYTES * (place + 1)));
  return Array.from({ length: bits }, (_, place) => BigInt.asUintN(itemBits, row(place)));
}

function parity(value) {
  for (const by of [32n, 16n, 8n, 4n, 2n, 1n]) value ^= value >> by;
  return Number(value & 1n);
}

/** A·x: bit i is the parity of row i AND x. */
export const linearHash = (matrix, item) =>
  matrix.reduce((value, row, place) => value + parity(row & BigInt(item)) * 2 ** place, 0);

/** A randomised response over `size` values: each other value has weight `other`, the true one the rest. */
export function response(size, other) {
  whole("size", size, 2, 2 ** 31);
  if (other < 1n || other > ONE / BigInt(size)) {
    throw new InvalidParameter("other", `be a whole number of at least 1 and at most 2⁶⁴/${size}`, other);
  }
  return Object.freeze({ size, other, keep: ONE - BigInt(size - 1) * other });
}

/** The response of at most ε. The weight of other values is rounded up, so the true one is never too likely. */
export function responseFor(epsilon, size) {
  whole("size", size, 2, 2 ** 31);
  const [numerator, denominator] = expBelow(epsilon);
  return response(size, ceilDivide(ONE, [numerator + BigInt(size - 1) * denominator, denominator]));
}

/** The value that a random word selects: the true one, or one of the others with equal odds. */
export function draw({ keep, other }, value, word) {
  if (word < keep) return value;
  const index = Number((word - keep) / other);
  return index + (index >= value ? 1 : 0);
}

/** The public parameters of a report, with the exact weights for ε and b. */
export function parameters(epsilon, bits, mechanism, itemBits) {
  if (!Object.hasOwn(KINDS, mechanism)) {
    throw new InvalidParameter("mechanism", `be one of ${Object.keys(KINDS).join(", ")}`, mechanism);
  }
  whole("bits", bits, 1, MAX_BITS);
  const bodyBytes = Math.ceil(bits / 8);
  const weights = responseFor(epsilon, 2 ** bits);
  return Object.freeze({ mechanism, kind: KINDS[mechanism], epsilon, bits, itemBits, bodyBytes, ...weights });
}

/** Reads `count` random bytes. A source with fewer is an error. */
export function read(rand, count) {
  const block = rand(count);
  if (block.length !== count) {
    throw new InvalidParameter("rand", `return exactly ${count} bytes`, `${block.length} bytes`);
  }
  return block;
}

/** The bytes of a report of `item`. */
export function privatise(params, item, publicSeed, rand) {
  if (!Number.isSafeInteger(item) || item < 0 || item >= 2 ** params.itemBits) {
    throw new InvalidParameter("item", `be a whole number of at most ${params.itemBits} bits`, typeof item);
  }
  const hashed = linearHash(rows(publicSeed, params.bits, params.itemBits), item);
  const sent = draw(params, hashed, toBigInt(read(rand, WORD_BYTES)));
  return concat(Uint8Array.of(VERSION, params.kind), fromInteger(sent, params.bodyBytes));
}

/** The value of a report, parsed strictly. */
export function parse(params, report) {
  const size = HEADER_BYTES + params.bodyBytes;
  if (report.length !== size) throw new WrongLength("report", `be ${size} bytes long`, `${report.length} bytes`);
  if (report[0] !== VERSION) throw new WrongVersion("version byte", `be ${VERSION}`, report[0]);
  if (report[1] !== params.kind) throw new WrongMechanism("mechanism byte", `be ${params.kind}`, report[1]);
  const value = Number(toBigInt(report.subarray(HEADER_BYTES)));
  if (value >= params.size) throw new WrongSymbol("hash value", `be below ${params.size}`, value);
  return value;
}

/** The chance that a phone whose number hashes to `hashed` sends `value`, as a fraction and in percent. */
export function oddsOf(params, hashed, value) {
  const weight = value === hashed ? params.keep : params.other;
  return { value, fraction: [weight, ONE], percent: percent([weight, ONE]) };
}

/** The odds of every value. They add up to one exactly. */
export function* everyOdds(params, hashed) {
  for (let value = 0; value < params.size; value++) yield oddsOf(params, hashed, value);
}

/** A fraction of two BigInts in percent, for display. */
export const percent = ([part, all]) => Number((part * 10n ** 12n) / all) / 1e10;
