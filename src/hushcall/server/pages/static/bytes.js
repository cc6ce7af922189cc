// Small things about bytes that the page's modules share: bytes come in, bytes, integers or hex leave.

/** Several pieces, one after the other. */
export function concat(...pieces) {
  const whole = new Uint8Array(pieces.reduce((total, piece) => total + piece.length, 0));
  let at = 0;
  for (const piece of pieces) {
    whole.set(piece, at);
    at += piece.length;
  }
  return whole;
}

/** A text in UTF-8. */
export const utf8 = (text) => new TextEncoder().encode(text);

/** Lower-case hex, two digits a byte. */
export const toHex = (bytes) => [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");

/** The inverse of `toHex`. */
export const fromHex = (text) => Uint8Array.from(text.match(/../g) ?? [], (pair) => parseInt(pair, 16));

/** The integer that bytes spell, most significant first. */
export const toBigInt = (bytes) => bytes.reduce((value, byte) => (value << 8n) | BigInt(byte), 0n);

/** An integer in `count` bytes, most significant first. */
export const fromInteger = (value, count) =>
  Uint8Array.from({ length: count }, (_, place) => Math.floor(value / 256 ** (count - 1 - place)) % 256);
