// A phone number as the protocol sees it: a text comes in, an area code and a suffix leave. As hushcall.numbers.

import { InvalidNumber } from "./errors.js";

export const FIRST_SUFFIX = 2_000_000; // no exchange starts with 0 or 1
export const END_SUFFIX = 10_000_000;
export const VALID_SUFFIXES = END_SUFFIX - FIRST_SUFFIX;
export const SUFFIX_BITS = 24;

/** Read a number of country code 1 in any usual notation; `areaCodes` is the plan's list. */
export function parseNumber(text, areaCodes) {
  const digits = /^(?:tel:)?\+?[\d\s().\-–]*$/.test(text ?? "?") ? text.replace(/\D/g, "") : "";
  const international = /^\s*(?:tel:)?\s*\+/.test(text ?? "");
  const match = (international ? /^1(\d{3})(\d{7})$/ : /^1?(\d{3})(\d{7})$/).exec(digits);
  if (!match) throw new InvalidNumber("number", "have ten digits, as in +1 202 555 0143", "another text");
  return number(Number(match[1]), Number(match[2]), areaCodes);
}

/** The number with these parts. */
export function number(area, suffix, areaCodes) {
  if (!areaCodes.includes(area)) throw new InvalidNumber("area code", "be one that exists", area);
  if (!Number.isInteger(suffix) || suffix < FIRST_SUFFIX || suffix >= END_SUFFIX) {
    throw new InvalidNumber("number", "go on with 2 to 9 after the area code", "another digit");
  }
  const digits = String(suffix).padStart(7, "0");
  return Object.freeze({
    area,
    suffix,
    e164: `+1${area}${digits}`,
    local: `${digits.slice(0, 3)} ${digits.slice(3)}`,
    text: `+1 ${area} ${digits.slice(0, 3)} ${digits.slice(3)}`,
  });
}

/** What goes through the randomiser: the suffix, or with the area code's place in the plan in front. */
export const itemOf = ({ area, suffix }, areaCodes, mechanism) =>
  mechanism === "whole-number" ? areaCodes.indexOf(area) * 2 ** SUFFIX_BITS + suffix : suffix;

/** A valid suffix from four random bytes; a public choice, so a slight unevenness does no harm. */
export const suffixFrom = (bytes) =>
  FIRST_SUFFIX + Math.floor((new DataView(bytes.buffer).getUint32(0) / 2 ** 32) * VALID_SUFFIXES);
