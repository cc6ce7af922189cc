// The owners' page: shows the report that a phone would send for a typed number.
//
// The page's only request is the download of the list, in lookup.js.

import { toBigInt } from "./bytes.js";
import { InvalidNumber, InvalidParameter } from "./errors.js";
import { showOdds, showTerms, showThief } from "./evidence.js";
import { histogram, shifts } from "./inference.js";
import { lookup } from "./lookup.js";
import { itemOf, number, suffixFrom } from "./numbers.js";
import { $, readField, say } from "./page.js";
import { derive, entropy, linearHash, parameters, parse, privatise, rows } from "./randomiser.js";
import { showSteps, showTally } from "./steps.js";

const settings = JSON.parse($("settings").textContent);
const layout = settings.items;

/** A report's public seed and what is derived from it. A server issues ticket and round seed. Here they are random. */
function newTicket(params) {
  const publicSeed = derive("report", entropy(32), entropy(16));
  const matrix = rows(publicSeed, params.bits, params.itemBits);
  return { publicSeed, matrix, layout, counts: histogram(matrix, layout), offsets: shifts(matrix, layout) };
}

/** One report, with what only the phone knows: item, true hash, and the random word. */
function rollReport(params, ticket, mine) {
  const item = itemOf(mine, layout);
  let block;
  const bytes = privatise(params, item, ticket.publicSeed, (count) => (block = entropy(count)));
  const [hashed, sent] = [linearHash(ticket.matrix, item), parse(params, bytes)];
  return { item, bytes, hashed, sent, kept: hashed === sent, word: toBigInt(block) };
}

/** Throws where `other` cannot be compared with `mine`. */
function checkOther(params, mine, other) {
  if (other.e164 === mine.e164) throw new InvalidNumber("number", "be another number than yours", "the same");
  if (!params.whole && other.area !== mine.area) {
    const rule = `start with +${layout.country_code} ${mine.area}: area codes are sent in the clear, so a number hides among those of its own`;
    throw new InvalidNumber("number", rule, "another area code");
  }
}

function start(params) {
  const rolls = [];
  let ticket = newTicket(params);
  let mine = null;
  let report = null;

  function roll() {
    const typed = readField("number", layout, [$("leaves"), $("odds")]);
    if (!typed) return;
    if (typed.e164 !== mine?.e164) rolls.length = 0;
    if (mine && !params.whole && typed.area !== mine.area) suggestOther(typed.area);
    mine = typed;
    report = rollReport(params, ticket, mine);
    rolls.push(report.kept);
    showSteps(params, ticket, mine, report);
    showTally(params, rolls);
    showThief(params, ticket, report);
    compare();
  }
  function compare() {
    const other = readField("other", layout, [$("comparison")], (typed) => checkOther(params, mine, typed));
    if (!other) return;
    showOdds(params, mine, other, report, linearHash(ticket.matrix, itemOf(other, layout)));
  }
  const randomNumber = (area) => number(area, suffixFrom(entropy(4), layout), layout).text;
  function suggestOther(area) {
    $("other").value = randomNumber(area);
  }

  $("number").addEventListener("input", roll);
  $("other").addEventListener("input", compare);
  $("number-form").addEventListener("submit", (event) => {
    event.preventDefault();
    roll();
  });
  $("renew").addEventListener("click", () => {
    ticket = newTicket(params);
    roll();
  });
  $("other-form").addEventListener("submit", (event) => {
    event.preventDefault();
    suggestOther(mine.area);
    compare();
  });
  showTerms(params, settings);
  if (layout.country_code !== 1) for (const id of ["number", "other"]) $(id).value = randomNumber(layout.area_codes[0]);
  roll();
}

/** The parameters of the server's reports. Null where this page does not know its mechanism or numbers. */
function serverParameters() {
  let params = null;
  let why = `it rolls numbers of one length, and those of ${settings.plan} have several`;
  try {
    params = parameters(settings.epsilon, settings.bits_example, settings.mechanism, layout.item_bits);
    params = { ...params, whole: !layout.bucketed };
    if (layout.suffix_digits) return params;
  } catch (error) {
    if (!(error instanceof InvalidParameter)) throw error;
    why = error.message;
  }
  say("unsupported", `This page cannot show the reports of this server: ${why}. The list can be searched.`);
  $("unsupported").hidden = false;
  for (const part of document.querySelectorAll("[data-needs-mechanism]")) part.hidden = true;
  if (params) {
    showTerms(params, settings);
    for (const part of ["learns-area", "learns-bits"]) $(part).hidden = false;
  }
  return null;
}

lookup($("lookup"), (id, outdated) => readField(id, layout, outdated));
const params = serverParameters();
if (params) start(params);
document.documentElement.dataset.ready = "";
