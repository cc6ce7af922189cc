// A phone owner's browser runs this: a number is typed, and the page shows what a phone would make of it and send.
//
// Nothing is sent: the one request of this page is the download of the list, in lookup.js, behind its button.

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
const areaCodes = settings.area_codes;

/** A report's public seed and what follows from it. The server issues ticket and round seed; here entropy does. */
function newTicket(params) {
  const publicSeed = derive("report", entropy(32), entropy(16));
  const matrix = rows(publicSeed, params.bits, params.itemBits);
  return { publicSeed, matrix, counts: histogram(matrix), offsets: shifts(params, matrix, areaCodes) };
}

/** One report, with what only the phone knows about it: item, true hash, the word that was rolled. */
function rollReport(params, ticket, mine) {
  const item = itemOf(mine, areaCodes, params.mechanism);
  let block;
  const bytes = privatise(params, item, ticket.publicSeed, (count) => (block = entropy(count)));
  const [hashed, sent] = [linearHash(ticket.matrix, item), parse(params, bytes)];
  return { item, bytes, hashed, sent, kept: hashed === sent, word: toBigInt(block) };
}

/** Whether `other` can be compared with `mine`. */
function checkOther(params, mine, other) {
  if (other.e164 === mine.e164) throw new InvalidNumber("number", "be another number than yours", "the same");
  if (!params.whole && other.area !== mine.area) {
    const rule = `start with +1 ${mine.area}: area codes travel in the clear, so a number hides among those of its own`;
    throw new InvalidNumber("number", rule, "another area code");
  }
}

function start(params) {
  const rolls = [];
  let ticket = newTicket(params);
  let mine = null;
  let report = null;

  function roll() {
    const found = readField("number", areaCodes, [$("leaves"), $("odds")]);
    if (!found) return;
    if (found.e164 !== mine?.e164) rolls.length = 0;
    if (mine && !params.whole && found.area !== mine.area) suggestOther(found.area);
    mine = found;
    report = rollReport(params, ticket, mine);
    rolls.push(report.kept);
    showSteps(params, ticket, mine, report);
    showTally(params, rolls);
    showThief(params, ticket, report);
    compare();
  }
  function compare() {
    const other = readField("other", areaCodes, [$("comparison")], (found) => checkOther(params, mine, found));
    if (!other) return;
    showOdds(params, mine, other, report, linearHash(ticket.matrix, itemOf(other, areaCodes, params.mechanism)));
  }
  function suggestOther(area) {
    $("other").value = number(area, suffixFrom(entropy(4)), areaCodes).text;
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
  roll();
}

/** The parameters of the server's reports, or null where this page does not know its mechanism. */
function serverParameters() {
  try {
    if (settings.country_code !== 1) {
      throw new InvalidParameter("plan", "be North America's for this demonstration", settings.plan);
    }
    const params = parameters(settings.epsilon, settings.bits_example, settings.mechanism);
    return { ...params, whole: params.mechanism === "whole-number" };
  } catch (error) {
    if (!(error instanceof InvalidParameter)) throw error;
    say("unsupported", `This page cannot show the reports of this server: ${error.message}. The list can be searched.`);
    $("unsupported").hidden = false;
    for (const part of document.querySelectorAll("[data-needs-mechanism]")) part.hidden = true;
    return null;
  }
}

lookup($("lookup"), (id, outdated) => readField(id, areaCodes, outdated));
const params = serverParameters();
if (params) start(params);
document.documentElement.dataset.ready = "";
