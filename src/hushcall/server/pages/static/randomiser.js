// The phone's half of the subspace mechanism in a browser: a number comes in, b randomised bits of a linear hash leave.
//
// Byte for byte what report/subspace.py does; tests/vectors decide. Nothing here is sent anywhere.

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
const MOST_BITS = 24;
const MECHANISMS = {
  subspace: { kind: 4, itemBits: 24 }, // items are suffixes
  "whole-number": { kind: 5, itemBits: 33 }, // items are (index of the area code)·2²⁴ + suffix
};

/** The browser's entropy: what rolls the coins of this page, and nothing else. */
export const entropy = (count) => crypto.getRandomValues(new Uint8Array(count));

/** A 32-byte seed from public parts: SHA-256 of the label and the parts, each behind its length in four bytes. */
export const derive = (label, ...parts) =>
  sha256(concat(...[utf8(`hushcall/1/${label}`), ...parts].flatMap((part) => [fromInteger(part.length, 4), part])));

/** The rows of A: five bytes a row of SHAKE-256(label ‖ public seed), cut to the bits of an item. */
export function rows(publicSeed, bits, itemBits) {
  length("public", publicSeed, SEED_BYTES);
  whole("bits", bits, 1, MOST_BITS);
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

/** A randomised response over `size` values: each lie weighs `other`, the truth gets the rest. */
export function response(size, other) {
  whole("size", size, 2, 2 ** 31);
  if (other < 1n || other > ONE / BigInt(size)) {
    throw new InvalidParameter("other", `be a whole number of at least 1 and at most 2⁶⁴/${size}`, other);
  }
  return Object.freeze({ size, other, keep: ONE - BigInt(size - 1) * other });
}

/** The response that costs at most ε: lies are rounded up, so the truth is never likelier than ε allows. */
export function responseFor(epsilon, size) {
  whole("size", size, 2, 2 ** 31);
  const [numerator, denominator] = expBelow(epsilon);
  return response(size, ceilDivide(ONE, [numerator + BigInt(size - 1) * denominator, denominator]));
}

/** What a word makes of a value: the value, or one of the others, all equally likely. */
export function draw({ keep, other }, value, word) {
  if (word < keep) return value;
  const index = Number((word - keep) / other);
  return index + (index >= value ? 1 : 0);
}

/** The public parameters of a report, with the exact weights that follow from ε and b. */
export function parameters(epsilon, bits, mechanism = "subspace") {
  if (!Object.hasOwn(MECHANISMS, mechanism)) {
    throw new InvalidParameter("mechanism", `be one of ${Object.keys(MECHANISMS).join(", ")}`, mechanism);
  }
  whole("bits", bits, 1, MOST_BITS);
  const bodyBytes = Math.ceil(bits / 8);
  const weights = responseFor(epsilon, 2 ** bits);
  return Object.freeze({ mechanism, epsilon, bits, bodyBytes, ...MECHANISMS[mechanism], ...weights });
}

/** Take `count` bytes; a source that runs dry is an error, never a shorter draw. */
export function read(coins, count) {
  const block = coins(count);
  if (block.length !== count) {
    throw new InvalidParameter("coins", `return exactly ${count} bytes`, `${block.length} bytes`);
  }
  return block;
}

/** A report of `item`: the bytes that a phone sends. */
export function privatise(params, item, publicSeed, coins) {
  if (!Number.isSafeInteger(item) || item < 0 || item >= 2 ** params.itemBits) {
    throw new InvalidParameter("item", `be a whole number of at most ${params.itemBits} bits`, typeof item);
  }
  const hashed = linearHash(rows(publicSeed, params.bits, params.itemBits), item);
  const sent = draw(params, hashed, toBigInt(read(coins, WORD_BYTES)));
  return concat(Uint8Array.of(VERSION, params.kind), fromInteger(sent, params.bodyBytes));
}

/** The value that a report holds, strictly. */
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

/** The odds of every value that could be sent, one after the other. They add up to one exactly. */
export function* everyOdds(params, hashed) {
  for (let value = 0; value < params.size; value++) yield oddsOf(params, hashed, value);
}

/** A fraction of two BigInts in percent, for display. */
export const percent = ([part, all]) => Number((part * 10n ** 12n) / all) / 1e10;
