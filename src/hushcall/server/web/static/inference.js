// What a thief of the server's data can infer from a report.

import { linearHash } from "./randomiser.js";
import { itemOf, suffixesOf } from "./numbers.js";

/** For each of the 2^b values, how many valid suffixes hash to it. */
export function histogram(matrix, layout) {
  // A·x is linear: four tables, one for each byte of a suffix's item, replace eight million products.
  const table = (shift) => Int32Array.from({ length: 256 }, (_, byte) => linearHash(matrix, byte * 2 ** shift));
  const [first, second, third, fourth] = [table(0), table(8), table(16), table(24)];
  const counts = new Int32Array(2 ** matrix.length);
  const [, , weight] = layout.weights;
  for (let suffix = layout.first_suffix; suffix < layout.end_suffix; suffix++) {
    const item = suffix * weight;
    counts[first[item & 255] ^ second[(item >> 8) & 255] ^ third[(item >> 16) & 255] ^ fourth[item >>> 24]]++;
  }
  return counts;
}

/** The hash's offset of each area code. There is none where the area code is sent in the clear. */
export const shifts = (matrix, layout) =>
  layout.bucketed ? [0] : layout.area_codes.map((area) => linearHash(matrix, itemOf({ area, suffix: 0 }, layout)));

/** How many numbers there are, and how many of them hash to the value. */
export const support = ({ counts, offsets, layout }, value) => ({
  numbers: suffixesOf(layout) * offsets.length,
  supporters: offsets.reduce((total, offset) => total + counts[value ^ offset], 0),
});

/** The chance of one number as fractions, before the report (all equally likely) and after it. */
export function posterior(params, { numbers, supporters }, fits) {
  const all = BigInt(supporters) * params.keep + BigInt(numbers - supporters) * params.other;
  return { before: [1n, BigInt(numbers)], after: [fits ? params.keep : params.other, all] };
}
