// Formats figures for readers.

import { percent as percentage } from "./randomiser.js";

const format = (options) => {
  const formatter = new Intl.NumberFormat("en-GB", options);
  return (value) => formatter.format(value);
};

/** 8,000,000 */
export const count = format({ maximumFractionDigits: 0 });

/** Three significant digits. */
export const figure = format({ maximumSignificantDigits: 3 });

const decimal = format({ maximumFractionDigits: 1 });
const short = format({ minimumSignificantDigits: 3, maximumSignificantDigits: 3 });

/** A fraction of two BigInts as 63.8 %, with a non-breaking space. Only certainty is shown as 100 %. */
export function percent(fraction) {
  const value = percentage(fraction);
  return `${value > 99 && value < 100 ? Math.floor(value * 100) / 100 : short(value)}\u00a0%`;
}

/** 1 in 392,000 */
export const oneIn = ([part, all]) => `1 in ${figure(Number((all * 1000n) / part) / 1000)}`;

/** The ratio of two BigInts. */
export const ratio = (large, small) => Number((large * 10n ** 6n) / small) / 1e6;

/** A bound, never rounded down: 54.6, 2,981. */
export const bound = (value) => decimal(value < 100 ? Math.ceil(value * 10) / 10 : Math.ceil(value));

/** 14 November 2026 */
export const day = (text) =>
  new Date(text).toLocaleDateString("en-GB", { day: "numeric", month: "long", year: "numeric", timeZone: "UTC" });

export function age(text, now) {
  const hours = Math.max(0, (now - Date.parse(text)) / 3_600_000);
  if (hours < 1) return "less than an hour old";
  return hours < 48 ? `${plural(Math.floor(hours), "hour")} old` : `${plural(Math.floor(hours / 24), "day")} old`;
}

/** 1 day, 2 days */
export const plural = (number, noun) => `${count(number)} ${noun}${number === 1 ? "" : "s"}`;

/** A value's bits, most significant first. */
export const bits = (value, width) => value.toString(2).padStart(width, "0");
