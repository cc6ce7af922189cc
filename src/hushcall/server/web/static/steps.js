// "What leaves your phone" on the owners' page: the four steps of a report.

import { toHex } from "./bytes.js";
import * as draw from "./draw.js";
import { support } from "./inference.js";
import { $, bold, say } from "./page.js";
import { ONE } from "./randomiser.js";
import * as words from "./words.js";

const MAX_MARKS = 60;
const spaced = (bytes) => toHex(bytes).replace(/..(?=.)/g, "$& ");

/** Split, shrink, roll, send. */
export function showSteps(params, ticket, mine, report) {
  const before = words.bits(report.hashed, params.bits);
  showSplit(params, mine);
  showShrink(params, ticket, mine, report, before);
  showRoll(params, report);
  draw.bitRow($("sent-bits"), words.bits(report.sent, params.bits), before);
  showBytes(params, mine, report);
}

function showSplit({ whole }, mine) {
  say("area", mine.text.slice(0, -mine.local.length - 1));
  say("suffix", mine.local);
  say("area-fate", whole ? "never leaves as it is" : "is sent in the clear");
  $("area-part").classList.toggle("open", !whole);
  say("split-words", whole
    ? "On this server the whole number is protected, area code included."
    : "The phone sends the area code, because the server counts reports area by area. The rest is protected.");
}

function showShrink(params, ticket, mine, report, before) {
  const { supporters } = support(ticket, report.hashed);
  draw.bitRow($("item-bits"), words.bits(report.item, params.itemBits));
  draw.bitRow($("hash-bits"), before);
  say("shrink-words",
    `A public recipe, another one for each report, boils ${params.itemBits} bits down to `, bold(params.bits), ". ",
    bold(words.count(supporters)), params.whole ? " numbers" : ` numbers of area code ${mine.area}`,
    " give these very bits.");
}

function showRoll(params, { kept, word }) {
  const [border, roll] = [params.keep, word].map((weight) => words.ratio(weight, ONE));
  const [needed, rolled] = [border, roll].map((share) => words.figure(100 * share));
  draw.coin($("coin"), border, roll);
  $("coin").setAttribute("aria-label", `The roll is ${rolled} of 100; below ${needed} the true bits stay.`);
  say("roll-words",
    `Secret dice keep the true bits in ${words.percent([params.keep, ONE])} of all cases. This roll was `,
    bold(rolled), " of 100, so the bits were ", bold(kept ? "kept" : "replaced"),
    kept ? "." : params.size > 2 ? ` by one of ${words.count(params.size - 1)} others.` : " by the other one.",
    " Only your phone knows.");
}

function showBytes({ whole }, mine, { bytes, kept }) {
  const cell = (values, meaning, attributes = {}) =>
    draw.element("span", attributes, spaced(values), draw.element("small", {}, meaning));
  say("hex",
    cell(bytes.subarray(0, 1), "version", { class: "quiet" }),
    cell(bytes.subarray(1, 2), "method", { class: "quiet" }),
    cell(bytes.subarray(2), "the bits above"));
  say("send-words",
    `These ${bytes.length} bytes are the whole report${whole ? "" : `, beside the area code ${mine.area}`}. Its length`,
    " is the same for every number, and for a phone that had no call and sends a made-up one.");
  say("roll-status", `Sent: ${spaced(bytes)}. This time ${kept ? "the true bits." : "other bits than the true ones."}`);
}

/** A mark for each roll so far. */
export function showTally(params, rolls) {
  const mark = (kept) => draw.element("span", kept ? {} : { class: "false" });
  const right = rolls.filter(Boolean).length;
  say("marks", ...rolls.slice(-MAX_MARKS).map(mark));
  say("tally-words",
    `Rolled ${words.plural(rolls.length, "time")} here: ${words.count(right)} true, `,
    `${words.count(rolls.length - right)} false. In the long run ${words.percent([params.keep, ONE])} are true. `,
    "A phone rolls once for each report and never again, because reports add up.");
}
