// SHA-256 (FIPS 180-4). crypto.subtle is asynchronous, and is missing on plain http.

/** ⌊value^(1/degree)⌋, bit by bit. */
function root(value, degree) {
  let result = 0n;
  for (let bit = 1n << 40n; bit; bit >>= 1n) {
    if ((result + bit) ** degree <= value) result += bit;
  }
  return result;
}

/** The first 32 fractional bits of the roots of the first `count` primes. */
function fractions(count, degree) {
  const words = [];
  for (let prime = 2; words.length < count; prime++) {
    let divisor = 2;
    while (prime % divisor) divisor++;
    if (divisor === prime) words.push(Number(root(BigInt(prime) << (32n * degree), degree) & 0xffffffffn));
  }
  return words;
}

const START = fractions(8, 2n);
const CONSTANTS = fractions(64, 3n);
const rotate = (word, by) => (word >>> by) | (word << (32 - by));

/** Compresses a block of 16 words into the state. */
function compress(state, block) {
  const words = [...block];
  for (let t = 16; t < 64; t++) {
    const [early, late] = [words[t - 15], words[t - 2]];
    const first = rotate(early, 7) ^ rotate(early, 18) ^ (early >>> 3);
    const second = rotate(late, 17) ^ rotate(late, 19) ^ (late >>> 10);
    words.push((words[t - 16] + first + words[t - 7] + second) | 0);
  }
  let [a, b, c, d, e, f, g, h] = state;
  words.forEach((word, t) => {
    const choice = (e & f) ^ (~e & g);
    const majority = (a & b) ^ (a & c) ^ (b & c);
    const first = (h + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + choice + CONSTANTS[t] + word) | 0;
    const second = (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + majority;
    [a, b, c, d, e, f, g, h] = [(first + second) | 0, a, b, c, (d + first) | 0, e, f, g];
  });
  return [a, b, c, d, e, f, g, h].map((word, place) => (word + state[place]) | 0);
}

export function sha256(message) {
  const padded = new Uint8Array(Math.ceil((message.length + 9) / 64) * 64);
  padded.set(message);
  padded[message.length] = 0x80;
  const view = new DataView(padded.buffer);
  view.setBigUint64(padded.length - 8, BigInt(message.length) * 8n);
  let state = START;
  for (let start = 0; start < padded.length; start += 64) {
    state = compress(state, Array.from({ length: 16 }, (_, t) => view.getInt32(start + 4 * t)));
  }
  const digest = new DataView(new ArrayBuffer(32));
  state.forEach((word, place) => digest.setInt32(4 * place, word));
  return new Uint8Array(digest.buffer);
}
