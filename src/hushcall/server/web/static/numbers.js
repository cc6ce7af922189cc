// Phone numbers as area code and suffix. `layout` is what protocol/items.py says of the plan.

import { InvalidNumber } from "./errors.js";

/** How many suffixes exist. */
export const suffixesOf = (layout) => layout.end_suffix - layout.first_suffix;

/** Reads a number of the plan in any usual notation. */
export function parseNumber(text, layout) {
  const { country_code: country, area_digits: area, suffix_digits: suffix } = layout;
  const digits = /^(?:tel:)?\+?[\d\s().\-–]*$/.test(text ?? "?") ? text.replace(/\D/g, "") : "";
  const international = /^\s*(?:tel:)?\s*\+/.test(text ?? "");
  const pattern = `^${country}${international ? "" : "?"}(\\d{${area}})(\\d{${suffix}})$`;
  const match = suffix ? new RegExp(pattern).exec(digits) : null;
  if (!match) throw new InvalidNumber("number", "have ten digits, as in +1 202 555 0143", "another text");
  return number(Number(match[1]), Number(match[2]), layout);
}

export function number(area, suffix, layout) {
  if (!layout.area_codes.includes(area)) throw new InvalidNumber("area code", "be one that exists", area);
  if (!Number.isInteger(suffix) || suffix < layout.first_suffix || suffix >= layout.end_suffix) {
    throw new InvalidNumber("number", "go on with 2 to 9 after the area code", "another digit");
  }
  const digits = String(suffix).padStart(layout.suffix_digits, "0");
  const country = `+${layout.country_code}`;
  return Object.freeze({
    area,
    suffix,
    e164: `${country}${area}${digits}`,
    local: `${digits.slice(0, 3)} ${digits.slice(3)}`,
    text: `${country} ${area} ${digits.slice(0, 3)} ${digits.slice(3)}`,
  });
}

/** The item of a number: a weighted sum of the area code's index in the plan, the area code and the suffix. */
export function itemOf({ area, suffix }, layout) {
  const [ofPlace, ofArea, ofSuffix] = layout.weights;
  return ofPlace * layout.area_codes.indexOf(area) + ofArea * area + ofSuffix * suffix;
}

/** A valid suffix from four random bytes. It is public, so a slight bias does no harm. */
export const suffixFrom = (bytes, layout) =>
  layout.first_suffix + Math.floor((new DataView(bytes.buffer).getUint32(0) / 2 ** 32) * suffixesOf(layout));
