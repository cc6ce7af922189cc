// Answers vectors as tests/vectors/operations.py does, with the page's modules: {"op", "in"} come in, {"out", "error"} leave.

import { readFileSync } from "node:fs";

const [folder] = process.argv.slice(2);
const module = (name) => import(`${folder}/${name}.js`);
const { fromHex, toHex } = await module("bytes");
const exact = await module("exact");
const inference = await module("inference");
const list = await module("list");
const numbers = await module("numbers");
const phone = await module("randomiser");
const { sha256 } = await module("sha256");
const { shake256 } = await module("shake256");

const ITEM_BITS = { subspace: 24, "whole-number": 33 };
const parametersOf = ({ epsilon, bits, name }) => phone.parameters(epsilon, bits, name, ITEM_BITS[name]);
const weights = ({ keep, other }) => ({ keep: String(keep), other: String(other) });
const numberOf = ({ e164, area, suffix }) => ({ e164, area, suffix });
const pair = (fraction) => fraction.map(String);

const OPERATIONS = {
  derive: ({ label, parts }) => ({ seed: toHex(phone.derive(label, ...parts.map(fromHex))) }),
  rows: ({ public: seed, bits, item_bits }) => ({ rows: phone.rows(fromHex(seed), bits, item_bits).map(String) }),
  matrix_product: ({ rows, item }) => ({ value: phone.linearHash(rows.map(BigInt), Number(item)) }),
  seeded: ({ seed, reads }) => ({
    blocks: reads.map((count, read) =>
      toHex(shake256(fromHex(read.toString(16).padStart(16, "0") + seed), count)),
    ),
  }),
  read: ({ source, count }) => ({ block: toHex(phone.read(() => fromHex(source), count)) }),
  response_weights: ({ epsilon, size }) => weights(phone.responseFor(Number(epsilon), size)),
  response_draw: ({ size, other, value, word }) => ({
    value: phone.draw(phone.response(size, BigInt(other)), value, BigInt(word)),
  }),
  parameters: (given) => weights(parametersOf(given)),
  exp_below: ({ epsilon }) => ({ fraction: pair(exact.expBelow(Number(epsilon))) }),
  ceil_divide: ({ value, fraction }) => ({ value: String(exact.ceilDivide(BigInt(value), fraction.map(BigInt))) }),
  parse_number: ({ text, layout }) => numberOf(numbers.parseNumber(text, layout)),
  number: ({ area, suffix, layout }) => numberOf(numbers.number(area, suffix, layout)),
  item: ({ text, layout }) => ({ item: numbers.itemOf(numbers.parseNumber(text, layout), layout) }),
  report: ({ mechanism, item, public: seed, coins }) => {
    const params = parametersOf(mechanism);
    const report = phone.privatise(params, Number(item), fromHex(seed), () => fromHex(coins));
    return { report: toHex(report), contents: { value: phone.parse(params, report) } };
  },
  parse_report: ({ mechanism, report }) => ({
    contents: { value: phone.parse(parametersOf(mechanism), fromHex(report)) },
  }),
  odds: ({ mechanism, hashed }) => ({
    weights: [...phone.everyOdds(parametersOf(mechanism), hashed)].map((odds) => String(odds.fraction[0])),
  }),
  support: ({ mechanism, public: seed, layout, value, fits }) => {
    const params = parametersOf(mechanism);
    const matrix = phone.rows(fromHex(seed), params.bits, params.itemBits);
    const counts = inference.histogram(matrix, layout);
    const found = inference.support({ counts, offsets: inference.shifts(matrix, layout), layout }, value);
    return { ...found, after: pair(inference.posterior(params, found, fits).after) };
  },
  sha256: ({ message }) => ({ digest: toHex(sha256(fromHex(message))) }),
  shake256: ({ message, count }) => ({ digest: toHex(shake256(fromHex(message), count)) }),
  list: ({ text, number }) => {
    const { header, find } = list.readList(text);
    return { version: header.version, entry: find(number) };
  },
};

function answer({ op, in: given }) {
  try {
    return { out: OPERATIONS[op](given), error: null };
  } catch (error) {
    return { out: null, error: error.name };
  }
}

console.log(JSON.stringify(JSON.parse(readFileSync(0, "utf8")).map(answer)));
