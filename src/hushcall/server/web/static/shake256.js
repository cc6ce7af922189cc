// SHAKE-256 (FIPS 202), written for readability. Lanes are BigInts, and tables are computed from their definitions.
// One report takes one or two permutations.

const RATE = 136; // bytes of the state that a block fills; the other 64 are the capacity
const ROUNDS = 24;
const LANE = (1n << 64n) - 1n;

const at = (x, y) => (x % 5) + 5 * (y % 5);
const rotate = (lane, by) => ((lane << by) | (lane >> (64n - by))) & LANE;

/** ρ: by how much each lane turns, on the walk (x, y) → (y, 2x + 3y) that also is π. */
const OFFSETS = (() => {
  const offsets = Array(25).fill(0n);
  let [x, y] = [1, 0];
  for (let step = 0; step < 24; step++) {
    offsets[at(x, y)] = BigInt((((step + 1) * (step + 2)) / 2) % 64);
    [x, y] = [y, (2 * x + 3 * y) % 5];
  }
  return offsets;
})();

/** ι: the bits 2^j − 1 of each round's constant come from the register x⁸ + x⁶ + x⁵ + x⁴ + 1. */
const CONSTANTS = (() => {
  let register = 1;
  return Array.from({ length: ROUNDS }, () => {
    let constant = 0n;
    for (let j = 0; j < 7; j++) {
      if (register & 1) constant |= 1n << BigInt(2 ** j - 1);
      register = (register << 1) ^ (register & 0x80 ? 0x171 : 0);
    }
    return constant;
  });
})();

/** Keccak-f[1600] on 25 lanes, in place. */
function permute(lanes) {
  for (const constant of CONSTANTS) {
    const columns = [0, 1, 2, 3, 4].map((x) => [0, 1, 2, 3, 4].reduce((sum, y) => sum ^ lanes[at(x, y)], 0n));
    const turned = Array(25);
    for (let x = 0; x < 5; x++) {
      const theta = columns[(x + 4) % 5] ^ rotate(columns[(x + 1) % 5], 1n);
      for (let y = 0; y < 5; y++) {
        turned[at(y, 2 * x + 3 * y)] = rotate(lanes[at(x, y)] ^ theta, OFFSETS[at(x, y)]);
      }
    }
    for (let x = 0; x < 5; x++) {
      for (let y = 0; y < 5; y++) {
        lanes[at(x, y)] = turned[at(x, y)] ^ (~turned[at(x + 1, y)] & LANE & turned[at(x + 2, y)]);
      }
    }
    lanes[0] ^= constant;
  }
}

/** The first `count` bytes of SHAKE-256(message). */
export function shake256(message, count) {
  const padded = new Uint8Array(Math.ceil((message.length + 1) / RATE) * RATE);
  padded.set(message);
  padded[message.length] ^= 0x1f; // 1111 names SHAKE, the next 1 starts the padding
  padded[padded.length - 1] ^= 0x80; // … and this 1 ends it
  const input = new DataView(padded.buffer);
  const lanes = Array(25).fill(0n);
  for (let start = 0; start < padded.length; start += RATE) {
    for (let lane = 0; lane < RATE / 8; lane++) lanes[lane] ^= input.getBigUint64(start + 8 * lane, true);
    permute(lanes);
  }
  const output = new DataView(new ArrayBuffer(Math.ceil(count / RATE) * RATE));
  for (let start = 0; start < output.byteLength; start += RATE) {
    if (start) permute(lanes);
    for (let lane = 0; lane < RATE / 8; lane++) output.setBigUint64(start + 8 * lane, lanes[lane], true);
  }
  return new Uint8Array(output.buffer, 0, count).slice();
}
