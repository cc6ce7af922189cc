// Exact lower bounds of e^ε, equal to protocol/exact.py. A fraction is [numerator, denominator] of BigInts.
//
// ε is the exact value of its double.

import { InvalidParameter } from "./errors.js";

const DIGITS = 60;
const MAX_EPSILON = 40;
const POINT = 10n ** 110n; // fixed point for the series: fifty digits more than the result
const MARGIN = 10n ** 50n;

const digitsOf = (value) => value.toString().length;

/** The exact fraction of a double. Doubling is exact. */
export function fraction(value) {
  let denominator = 1n;
  for (; !Number.isInteger(value); value *= 2) denominator *= 2n;
  return [BigInt(value), denominator];
}

/** `numerator/denominator` to 60 digits, rounded down, in fixed point. */
function rounded([numerator, denominator]) {
  const places = DIGITS + digitsOf(denominator) - digitsOf(numerator) + 1;
  const long = (numerator * 10n ** BigInt(places)) / denominator; // 61 or 62 digits
  const cut = long - (long % 10n ** BigInt(digitsOf(long) - DIGITS));
  return (cut * POINT) / 10n ** BigInt(places);
}

/** e^x to 60 digits, to nearest. The series has positive terms only, so nothing cancels. */
function exp(x) {
  let sum = 0n;
  for (let [term, place] = [POINT, 1n]; term; place++) {
    sum += term;
    term = (term * x) / (POINT * place);
  }
  const unit = 10n ** BigInt(digitsOf(sum) - DIGITS);
  return ((sum + unit / 2n) / unit) * unit; // there are no ties, because only e^0 is rational
}

/** A rational just below e^ε. */
export function expBelow(epsilon) {
  if (typeof epsilon !== "number" || !(epsilon > 0 && epsilon < Infinity)) {
    throw new InvalidParameter("epsilon", "be a positive finite number", epsilon);
  }
  if (epsilon > MAX_EPSILON) throw new InvalidParameter("epsilon", `be at most ${MAX_EPSILON}`, epsilon);
  return [exp(rounded(fraction(epsilon))) * (MARGIN - 1n), POINT * MARGIN];
}

/** ⌈value / (numerator/denominator)⌉. */
export const ceilDivide = (value, [numerator, denominator]) => (value * denominator + numerator - 1n) / numerator;
