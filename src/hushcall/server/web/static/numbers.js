// Phone numbers as area code and suffix. `layout` is what protocol/items.py says of the plan.

import { InvalidNumber } from "./errors.js";

/** How many suffixes exist. */
export const suffixesOf = (layout) => layout.end_suffix - layout.first_suffix;

/** Reads a number of the plan in any usual notation, from the country code or the national prefix on. */
export function parseNumber(text, layout) {
  const { country_code: country, area_digits: area, national_prefix: prefix } = layout;
  const digits = /^(?:tel:)?\+?[\d\s()./\-–]*$/.test(text ?? "?") ? text.replace(/\D/g, "") : "";
  const abroad = /^\s*(?:tel:)?\s*(\+|00)/.exec(text ?? "")?.[1];
  const before = abroad ? `${abroad === "00" ? "00" : ""}${country}`
    : prefix || (layout.suffix_digits ? `(?:${country})?` : "");
  const match = new RegExp(`^${before}(\\d{${area}})(\\d{${layout.suffix_digits || "1,8"}})$`).exec(digits);
  if (!match) {
    const rule = `be a number of country code +${country}, from + or ${prefix || "the area code"} on`;
    throw new InvalidNumber("number", rule, "another text");
  }
  const shorter = layout.suffix_digits ? 0 : firstOfLength(match[2].length);
  return number(Number(match[1]), Number(match[2]) + shorter, layout);
}

/** Where suffixes differ in length, one is its index among all texts of digits, the shorter ones first. */
const firstOfLength = (length) => (10 ** length - 10) / 9;

function digitsOf(suffix, { suffix_digits: fixed }) {
  if (fixed) return String(suffix).padStart(fixed, "0");
  let length = 1;
  while (suffix >= firstOfLength(length + 1)) length++;
  return String(suffix - firstOfLength(length)).padStart(length, "0");
}

export function number(area, suffix, layout) {
  const place = layout.area_codes.indexOf(area);
  if (place < 0) throw new InvalidNumber("area code", "begin with an area code that exists", area);
  if (!Number.isInteger(suffix) || suffix < layout.first_suffix || suffix >= layout.end_suffix) {
    throw new InvalidNumber("number", "go on with 2 to 9 after the area code", "another digit");
  }
  const digits = digitsOf(suffix, layout);
  if (layout.lengths.length && !((layout.lengths[place] >> digits.length) & 1)) {
    throw new InvalidNumber("number", "have as many digits as its area code allows", "others");
  }
  const code = String(area).padStart(layout.area_digits, "0");
  const local = digits.length === 7 ? `${digits.slice(0, 3)} ${digits.slice(3)}` : digits;
  const country = `+${layout.country_code}`;
  return Object.freeze({ area, suffix, e164: `${country}${code}${digits}`, local, text: `${country} ${code} ${local}` });
}

/** The item of a number: a weighted sum of the area code's index in the plan, the area code and the suffix. */
export function itemOf({ area, suffix }, layout) {
  const [ofPlace, ofArea, ofSuffix] = layout.weights;
  return ofPlace * layout.area_codes.indexOf(area) + ofArea * area + ofSuffix * suffix;
}

/** A valid suffix from four random bytes. It is public, so a slight bias does no harm. */
export const suffixFrom = (bytes, layout) =>
  layout.first_suffix + Math.floor((new DataView(bytes.buffer).getUint32(0) / 2 ** 32) * suffixesOf(layout));
