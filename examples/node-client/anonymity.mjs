// Blind tokens (RFC 9474, 9577, 9578), binary HTTP (RFC 9292) and its seal (RFC 9458, 9180), with node:crypto alone.
import * as crypto from "node:crypto";
import { bytesOf, integer, Invalid, sha256, unhex } from "./protocol.mjs";

const need = (condition, words) => {
  if (!condition) throw new Invalid("InvalidMessage", words);
};
const xor = (a, b) => a.map((byte, i) => byte ^ b[i]);
const text = (words) => Buffer.from(words);

// ---- blind tokens

const HASH = 48; // bytes of SHA-384, and of the salt
const sha384 = (...parts) => crypto.createHash("sha384").update(Buffer.concat(parts)).digest();
const mgf = (seed, size) => {
  const blocks = Array.from({ length: Math.ceil(size / HASH) }, (_, i) => sha384(seed, bytesOf(i, 4)));
  return Buffer.concat(blocks).subarray(0, size);
};
const power = (base, exponent, modulus) => {
  let result = 1n;
  for (base %= modulus; exponent > 0n; exponent >>= 1n, base = (base * base) % modulus) {
    if (exponent & 1n) result = (result * base) % modulus;
  }
  return result;
};
const inverse = (value, modulus) => {
  let [a, b, x, y] = [value % modulus, modulus, 1n, 0n];
  while (b) [a, b, x, y] = [b, a % b, y, x - (a / b) * y];
  need(a === 1n, "no inverse");
  return ((x % modulus) + modulus) % modulus;
};
/** n of a 2048-bit key with e = 65537: the last integers of its SubjectPublicKeyInfo. */
const modulusOf = (spki) => {
  need(spki.subarray(-5).equals(unhex("0203010001")), "e is 65537");
  return integer(spki.subarray(-261, -5));
};
const encoded = (message, salt) => {
  const digest = sha384(Buffer.alloc(8), sha384(message), salt);
  const block = Buffer.concat([Buffer.alloc(256 - 2 * HASH - 2), Buffer.from([1]), salt]);
  const masked = Buffer.from(xor(block, mgf(digest, block.length)));
  masked[0] &= 0x7f;
  return Buffer.concat([masked, digest, Buffer.from([0xbc])]);
};
const input = (key, seed, nonce) => {
  const length = (value) => bytesOf(value, 2);
  const challenge = Buffer.concat([length(2), length(8), text("hushcall"), Buffer.from([32]), seed, length(0)]);
  return Buffer.concat([length(2), nonce, sha256(challenge), sha256(key)]);
};
/** What one round's token begins as. The same random bytes give the same request. */
export const wish = (key, seed, source) => {
  const n = modulusOf(key);
  const [nonce, salt] = [source(32), source(HASH)];
  const inputs = input(key, seed, nonce);
  const blind = integer(source(272)) % n; // 128 bits more than n has: next to uniform
  const blinded = (integer(encoded(inputs, salt)) * power(blind, 65537n, n)) % n;
  const request = Buffer.concat([bytesOf(2, 2), sha256(key).subarray(-1), bytesOf(blinded, 256)]);
  return { inputs, salt, blind, request };
};
export const tokenOf = (key, { inputs, salt, blind }, answer) => {
  const n = modulusOf(key);
  const signature = (integer(answer) * inverse(blind, n)) % n;
  need(power(signature, 65537n, n) === integer(encoded(inputs, salt)), "the server's signature");
  return Buffer.concat([inputs, bytesOf(signature, 256)]);
};
export const ticketOf = (token) => sha256(text("hushcall/1/ticket"), token).subarray(0, 16).toString("hex");

// ---- binary HTTP of known length

const varint = (value) => {
  if (value < 64) return bytesOf(value, 1);
  return value < 16384 ? bytesOf(value | 0x4000, 2) : bytesOf(BigInt(value) | 0x80000000n, 4);
};
const counted = (data) => Buffer.concat([varint(data.length), data]);
export const writeRequest = (method, authority, path, headers, body) => {
  const fields = Object.entries(headers).flatMap((pair) => pair.map((part) => counted(text(part))));
  const control = [method, "https", authority, path].map((part) => counted(text(part)));
  const message = [varint(0), ...control, counted(Buffer.concat(fields)), counted(body), varint(0)];
  const data = Buffer.concat(message);
  return Buffer.concat([data, Buffer.alloc((1024 - (data.length % 1024)) % 1024)]);
};
export const readResponse = (data) => {
  let at = 0;
  const next = () => {
    const size = 1 << (data[at] >> 6);
    const value = integer(data.subarray(at, at + size)) & ((1n << BigInt(8 * size - 2)) - 1n);
    at += size;
    return Number(value);
  };
  const section = () => {
    const size = next();
    at += size;
    need(at <= data.length, "a whole message");
    return data.subarray(at - size, at);
  };
  need(next() === 1, "a response of known length");
  let status;
  while ((status = next()) < 200) section();
  section();
  return { status, body: section() };
};

// ---- the seal

const X25519 = unhex("302a300506032b656e032100");
const hmac = (key, ...parts) => crypto.createHmac("sha256", key).update(Buffer.concat(parts)).digest();
const expand = (key, info, size) => hmac(key, info, Buffer.from([1])).subarray(0, size); // at most one block
const labelled = (suite) => ({
  extract: (salt, label, key) => hmac(salt, text("HPKE-v1"), suite, text(label), key),
  expand: (key, label, info, size) =>
    expand(key, Buffer.concat([bytesOf(size, 2), text("HPKE-v1"), suite, text(label), info]), size),
});
const NONE = Buffer.alloc(0);
/** {sealed, open}: the request, and what opens its answer. `config` is one key configuration. */
export const seal = (config, message) => {
  const [id, kem] = [config.subarray(0, 1), config.subarray(1, 3)];
  need(kem.equals(unhex("0020")), "X25519");
  const theirs = config.subarray(3, 35);
  const pair = crypto.generateKeyPairSync("x25519");
  const enc = pair.publicKey.export({ format: "der", type: "spki" }).subarray(-32);
  const publicKey = crypto.createPublicKey({ key: Buffer.concat([X25519, theirs]), format: "der", type: "spki" });
  const shared = crypto.diffieHellman({ privateKey: pair.privateKey, publicKey });
  const dh = labelled(Buffer.concat([text("KEM"), kem]));
  const secret = dh.expand(dh.extract(NONE, "eae_prk", shared), "shared_secret", Buffer.concat([enc, theirs]), 32);
  const header = Buffer.concat([id, unhex("002000010001")]);
  const info = Buffer.concat([text("message/bhttp request\0"), header]);
  const hpke = labelled(Buffer.concat([text("HPKE"), unhex("002000010001")]));
  const parts = [Buffer.from([0]), hpke.extract(NONE, "psk_id_hash", NONE), hpke.extract(NONE, "info_hash", info)];
  const context = Buffer.concat(parts);
  const master = hpke.extract(secret, "secret", NONE);
  const [key, nonce] = [hpke.expand(master, "key", context, 16), hpke.expand(master, "base_nonce", context, 12)];
  const exporter = hpke.expand(master, "exp", context, 32);
  const cipher = crypto.createCipheriv("aes-128-gcm", key, nonce);
  const body = Buffer.concat([cipher.update(message), cipher.final(), cipher.getAuthTag()]);
  const open = (answer) => {
    const fresh = answer.subarray(0, 16);
    const first = hmac(Buffer.concat([enc, fresh]), hpke.expand(exporter, "sec", text("message/bhttp response"), 16));
    const decipher = crypto.createDecipheriv("aes-128-gcm", expand(first, text("key"), 16), expand(first, text("nonce"), 12));
    decipher.setAuthTag(answer.subarray(-16));
    return Buffer.concat([decipher.update(answer.subarray(16, -16)), decipher.final()]);
  };
  return { sealed: Buffer.concat([header, enc, body]), open };
};
