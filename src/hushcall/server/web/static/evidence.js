// "What could it have been?" on the owners' page: how much a report reveals.

import * as draw from "./draw.js";
import { posterior, support } from "./inference.js";
import { suffixesOf } from "./numbers.js";
import { $, say } from "./page.js";
import { ONE, oddsOf } from "./randomiser.js";
import * as words from "./words.js";

/** The odds of all values with your number, and with another one that hashes to `theirs`. */
export function showOdds(params, mine, other, report, theirs) {
  const columns = draw.columnsOf(params.size, [report.hashed, theirs, report.sent]);
  const [withMine, withTheirs] = [report.hashed, theirs].map((hashed) => oddsOf(params, hashed, report.sent).fraction);
  draw.mirror($("chart"), columns.map((value) => ({
    mine: oddsOf(params, report.hashed, value).percent,
    theirs: oddsOf(params, theirs, value).percent,
    sent: value === report.sent,
  })));
  const all = columns.length === params.size;
  say("mine-name", mine.text);
  say("theirs-name", other.text);
  say("chart-words",
    all ? `All ${params.size} values that can be sent` : `${columns.length} of ${words.count(params.size)} values`,
    ", side by side. The shaded one was sent. The tall bar is the truth. All other values are equally likely.");
  say("sent-value", words.bits(report.sent, params.bits));
  say("chance-mine", words.percent(withMine));
  say("chance-theirs", words.percent(withTheirs));
  say("verdict", verdict(report.hashed === theirs, withMine[0], withTheirs[0]));
}

function verdict(alike, mine, theirs) {
  if (alike) return "Under this recipe both numbers give the same bits: these bytes cannot tell them apart at all.";
  if (mine === theirs) return "Both numbers send these bytes equally often: they do not say which of the two it was.";
  return mine > theirs
    ? `These bytes are ${words.figure(words.ratio(mine, theirs))} times as likely with your number as with the other.`
    : `These bytes point away from you: they are ${words.figure(words.ratio(theirs, mine))} times as likely with the ` +
      "other number.";
}

/** What a report reveals to a thief who thinks all numbers equally likely. */
export function showThief(params, ticket, report) {
  const supported = support(ticket, report.sent);
  const { before, after } = posterior(params, supported, report.kept);
  say("possible-name", params.whole ? "numbers that exist" : "numbers of the area code");
  say("possible", words.count(supported.numbers));
  say("fitting", words.count(supported.supporters));
  say("before", words.oneIn(before));
  say("after", words.oneIn(after));
  say("thief-words", report.kept
    ? "A thief without any prior suspicion would suspect yours more than before, and equally every other that fits."
    : "This time a thief would suspect yours less than before: the bytes fit other numbers.");
}

/** What holds for every report of this server. */
export function showTerms(params, settings) {
  const factor = words.bound(Math.exp(params.epsilon));
  const fitting = (suffixesOf(settings.items) * (params.whole ? settings.items.area_codes.length : 1)) / params.size;
  say("bound-words",
    `If the server sees these bytes, they are at most ${factor} times as likely with your number as with any other`,
    `${params.whole ? "" : " of its area code"}. That holds for every number, every recipe and every roll: it is what `,
    `ε = ${params.epsilon} means, since e to the power of ${params.epsilon} is about ${factor}.`);
  say("doubt-words",
    `${factor} is not negligible. An observer who is undecided between two callers can go from 50 % to `,
    `${words.percent([params.keep, params.keep + params.other])} sure. An observer without such a suspicion is left with `,
    `about ${words.count(fitting)} numbers that fit, and yours may not be among them. `,
    "But reports add up: two about one number count double.");
  say("check-words",
    `Computed in this page, in whole numbers: the odds of the truth to any other value are ${params.keep} to ${params.other}, or `,
    `${words.figure(words.ratio(params.keep, params.other))} to 1.`);
  say("learns-area", params.whole
    ? "nothing of the number in the clear, not even its area code, so it cannot tell whether anybody called you;"
    : "the area code of one unknown caller a day, real or made up. After a month it can tell which in 92 % of cases;");
  say("learns-bits",
    `${words.plural(params.bits, "bit")} about that caller, false in ${words.percent([ONE - params.keep, ONE])} `,
    "of all reports;");
  say("terms",
    `This server: profile ${settings.profile}, ${settings.mechanism}, ε = ${settings.epsilon} a report, numbers of `,
    `${settings.plan}; ${words.plural(params.bits, "bit")} in this example, which depends on how many phones take `,
    `part. A number is listed when more than ${settings.tau} phones are estimated to have reported it in a day and `,
    `chance is ruled out. It leaves after ${words.plural(settings.window_days, "day")} without being seen.`);
}
