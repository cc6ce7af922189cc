// Runs every vector whose operation a client needs: node vectors.mjs FOLDER. Prints what passed, failed and was left out.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { applyDelta, verdict } from "./lists.mjs";
import * as p from "./protocol.mjs";

const [folder, plans] = process.argv.slice(2);
const planOf = (name) => new p.Plan(JSON.parse(readFileSync(join(plans, `${name}.json`))));
const nanp = planOf("nanp-2026");
const shipped = Object.fromEntries(readdirSync(plans).map((file) => [file.slice(0, 2).toUpperCase(), file.slice(0, -5)]));
const regional = (region) => planOf(region === "NANP" ? "nanp-2026" : shipped[region]);
const hex = (data) => Buffer.from(data).toString("hex");
const { unhex } = p;
const fixed = (coins) => () => unhex(coins);
const once = (coins) => {
  let rest = unhex(coins);
  return (count) => ([rest, coins] = [rest.subarray(count), rest.subarray(0, count)])[1];
};
const mechanism = ({ name, epsilon, bits }) =>
  p.mechanismOf({ mechanism: name, epsilon, bits, item_bits: name === "subspace" ? nanp.suffixBits : nanp.wholeBits });

const operations = {
  derive: ({ label, parts }) => ({ seed: hex(p.derive(label, ...parts.map(unhex))) }),
  rows: ({ public: seed, bits, item_bits }) => ({ rows: p.rowsOf(unhex(seed), bits, item_bits).map(String) }),
  matrix_product: ({ rows, item }) => ({ value: p.product(rows.map(BigInt), BigInt(item)) }),
  seeded: ({ seed, reads }) => {
    const source = p.seeded(unhex(seed));
    return { blocks: reads.map((count) => hex(source(count))) };
  },
  keyed: ({ key, parts, counts }) => {
    const source = p.keyed(unhex(key), ...parts.map(unhex));
    return { reads: counts.map((count) => hex(source(count))) };
  },
  uniform: ({ word, size }) => ({ value: p.uniform(BigInt(word), size) }),
  read: ({ source, count }) => ({ block: hex(p.read(fixed(source), count)) }),
  response_weights: ({ epsilon, size }) => {
    const { keep, other } = p.responseWeights(Number(epsilon), size);
    return { keep: String(keep), other: String(other) };
  },
  response_draw: ({ size, other, value, word }) => {
    const weights = { keep: 2n ** 64n - BigInt(size - 1) * BigInt(other), other: BigInt(other) };
    return { value: p.respond(weights, value, BigInt(word)) };
  },
  parse_number: ({ text }) => nanp.parse(text),
  number: ({ area, suffix }) => nanp.number(area, suffix),
  dummy: ({ coins }) => nanp.dummy(fixed(coins)),
  caller_like: ({ coins, home }) => nanp.callerLike(fixed(coins), home),
  parse_in_plan: ({ plan: region, text }) => {
    const plan = regional(region);
    const number = plan.parse(text);
    const items = ["subspace", "whole-number"].map((kind) => Number(plan.bucketAndItem(number, kind).item));
    const widths = { suffix_bits: plan.suffixBits, whole_bits: plan.wholeBits };
    return { ...number, suffix_item: items[0], whole_item: items[1], ...widths };
  },
  dummy_in_plan: ({ plan, coins }) => regional(plan).dummy(fixed(coins)),
  bucket_and_item: ({ number, kind }) => {
    const { bucket, item } = nanp.bucketAndItem(nanp.parse(number), kind);
    return { bucket, item: String(item) };
  },
  pad: ({ report, size }) => ({ upload: hex(p.padded(unhex(report), size)) }),
  report_seed: ({ seed, ticket }) => ({ public: hex(p.reportSeed(unhex(seed), ticket)) }),
  choose: ({ candidates, coins }) => p.choose(candidates, nanp, once(coins)),
  report: ({ mechanism: given, item, public: seed, coins }) => {
    const of = mechanism(given);
    const report = p.reportOf(of, BigInt(item), unhex(seed), fixed(coins));
    return { report: hex(report), contents: { value: p.readReport(of, report) } };
  },
  parse_report: ({ mechanism: given, report }) => ({ contents: { value: p.readReport(mechanism(given), unhex(report)) } }),
  round_parts: ({ document }) => {
    const digests = Object.entries(p.parts(document)).map(([name, part]) => [name, hex(p.sha256(Buffer.from(part)))]);
    return { to_sign: hex(p.toSign(document)), digests: Object.fromEntries(digests) };
  },
  rounds_named: ({ file }) => ({ rounds: p.roundsNamed(file) }),
  verdict: ({ list, number, contacts, block_days, block_phones }) =>
    verdict(list, number, new Set(contacts), block_days, block_phones),
  apply_delta: ({ list, delta }) => ({ list: applyDelta(list, delta) }),
};
const MECHANISMS = ["subspace", "whole-number"];
const result = { passed: 0, failed: [], leftOut: {} };
for (const file of readdirSync(folder).filter((name) => name.endsWith(".json"))) {
  for (const { name, op, in: given, out, error } of JSON.parse(readFileSync(join(folder, file)))) {
    const other = given.mechanism?.name ?? given.kind;
    const left = !operations[op] ? op : other && !MECHANISMS.includes(other) && op !== "channel_weights" ? other : null;
    if (left) {
      result.leftOut[left] = (result.leftOut[left] ?? 0) + 1;
      continue;
    }
    let here;
    try {
      here = [operations[op](given), null];
    } catch (problem) {
      here = [null, problem.kind ?? String(problem.stack)];
    }
    const ordered = (value) => JSON.stringify(value, Object.keys(value ?? {}).sort());
    const sound = here[1] === error && (error !== null || ordered(here[0]) === ordered(out) && deep(here[0], out));
    if (sound) result.passed += 1;
    else result.failed.push({ file, name, got: here, wanted: [out, error] });
  }
}
function deep(a, b) {
  if (a === null || typeof a !== "object") return a === b;
  return b !== null && Object.keys({ ...a, ...b }).every((key) => deep(a[key], b[key]));
}
console.log(JSON.stringify(result));
process.exitCode = result.failed.length ? 1 : 0;
