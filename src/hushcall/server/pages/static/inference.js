// What a thief of the server can infer: a matrix and a report's value come in, how many numbers fit and what that says
// about one of them leave.

import { linearHash } from "./randomiser.js";
import { END_SUFFIX, FIRST_SUFFIX, SUFFIX_BITS, VALID_SUFFIXES } from "./numbers.js";

/** For each of the 2^b values, how many of the valid suffixes hash to it. Every one of them is tried. */
export function histogram(matrix) {
  // A·x is linear: three tables, one for each byte of a suffix, replace eight million products.
  const table = (shift) => Int32Array.from({ length: 256 }, (_, byte) => linearHash(matrix, byte * 2 ** shift));
  const [low, middle, high] = [table(0), table(8), table(16)];
  const counts = new Int32Array(2 ** matrix.length);
  for (let suffix = FIRST_SUFFIX; suffix < END_SUFFIX; suffix++) {
    counts[low[suffix & 255] ^ middle[(suffix >> 8) & 255] ^ high[suffix >> 16]]++;
  }
  return counts;
}

/** How the hash shifts from one area code to the next: not at all where the area code travels in clear. */
export const shifts = (params, matrix, areaCodes) =>
  params.mechanism === "whole-number"
    ? areaCodes.map((_, place) => linearHash(matrix, place * 2 ** SUFFIX_BITS))
    : [0];

/** How many numbers there are and how many of them the value supports. */
export const support = (counts, offsets, value) => ({
  numbers: VALID_SUFFIXES * offsets.length,
  supporters: offsets.reduce((total, offset) => total + counts[value ^ offset], 0),
});

/** The chance of one number, as fractions: before the report (all numbers alike) and after it. */
export function posterior(params, { numbers, supporters }, fits) {
  const all = BigInt(supporters) * params.keep + BigInt(numbers - supporters) * params.other;
  return { before: [1n, BigInt(numbers)], after: [fits ? params.keep : params.other, all] };
}
