// Conversions between bytes, integers, text and hex.

export function concat(...pieces) {
  const joined = new Uint8Array(pieces.reduce((total, piece) => total + piece.length, 0));
  let at = 0;
  for (const piece of pieces) {
    joined.set(piece, at);
    at += piece.length;
  }
  return joined;
}

export const utf8 = (text) => new TextEncoder().encode(text);

export const toHex = (bytes) => [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");

export const fromHex = (text) => Uint8Array.from(text.match(/../g) ?? [], (pair) => parseInt(pair, 16));

/** A big-endian integer. */
export const toBigInt = (bytes) => bytes.reduce((value, byte) => (value << 8n) | BigInt(byte), 0n);

/** An integer as `count` big-endian bytes. */
export const fromInteger = (value, count) =>
  Uint8Array.from({ length: count }, (_, place) => Math.floor(value / 256 ** (count - 1 - place)) % 256);
