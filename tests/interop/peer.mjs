// The other side, made of packages from npm alone: one JSON command per line comes in, one JSON answer leaves.
import { createInterface } from "node:readline";
import { hkdfSync, createCipheriv, createDecipheriv, randomBytes, webcrypto } from "node:crypto";
import { RSABSSA } from "@cloudflare/blindrsa-ts";
import { BHttpDecoder, BHttpEncoder } from "bhttp-js";
import { AeadId, CipherSuite, KdfId, KemId } from "hpke-js";

const bytes = (hex) => new Uint8Array(Buffer.from(hex, "hex"));
const hex = (data) => Buffer.from(data).toString("hex");
const url = (text) => Buffer.from(text, "hex").toString("base64url");
const rsa = { name: "RSA-PSS", hash: "SHA-384" };
const variants = {
  "RSABSSA-SHA384-PSS-Randomized": () => RSABSSA.SHA384.PSS.Randomized(),
  "RSABSSA-SHA384-PSSZERO-Randomized": () => RSABSSA.SHA384.PSSZero.Randomized(),
  "RSABSSA-SHA384-PSS-Deterministic": () => RSABSSA.SHA384.PSS.Deterministic(),
  "RSABSSA-SHA384-PSSZERO-Deterministic": () => RSABSSA.SHA384.PSSZero.Deterministic(),
};
const jwk = (key) => Object.fromEntries(Object.entries(key).map(([name, value]) => [name, url(value)]));
const publicKey = (key) => webcrypto.subtle.importKey("jwk", { kty: "RSA", ...jwk(key) }, rsa, true, ["verify"]);
const secretKey = (key) => webcrypto.subtle.importKey("jwk", { kty: "RSA", ...jwk(key) }, rsa, true, ["sign"]);

const suite = new CipherSuite({ kem: KemId.DhkemX25519HkdfSha256, kdf: KdfId.HkdfSha256, aead: AeadId.Aes128Gcm });
const header = (config) => Buffer.concat([config.subarray(0, 3), Buffer.from([0, 1, 0, 1])]);
const info = (head) => Buffer.concat([Buffer.from("message/bhttp request\0"), head]);
const answerKeys = (enc, nonce, secret) => {
  const salt = Buffer.concat([enc, nonce]);
  const part = (label, length) => Buffer.from(hkdfSync("sha256", secret, salt, label, length));
  return [part("key", 16), part("nonce", 12)];
};
const exported = async (context) => Buffer.from(await context.export(Buffer.from("message/bhttp response"), 16));
const kept = new Map();

const commands = {
  async blind({ variant, key, message }) {
    const scheme = variants[variant]();
    const prepared = scheme.prepare(bytes(message));
    const { blindedMsg, inv } = await scheme.blind(await publicKey(key), prepared);
    kept.set("blinding", { scheme, prepared, inv, key });
    return { prepared: hex(prepared), blinded: hex(blindedMsg) };
  },
  async finalize({ signed }) {
    const { scheme, prepared, inv, key } = kept.get("blinding");
    return { signature: hex(await scheme.finalize(await publicKey(key), prepared, bytes(signed), inv)) };
  },
  async sign({ variant, key, blinded }) {
    return { signed: hex(await variants[variant]().blindSign(await secretKey(key), bytes(blinded))) };
  },
  async verify({ variant, key, signature, prepared }) {
    return { good: await variants[variant]().verify(await publicKey(key), bytes(signature), bytes(prepared)) };
  },
  // An Oblivious HTTP client: bhttp-js writes the request, hpke-js seals it.
  async request({ config, target, method, body, headers = {} }) {
    const plain = Buffer.from(config, "hex");
    const options = body ? { method, body: Buffer.from(body, "hex"), headers } : { method, headers };
    const message = Buffer.from(await new BHttpEncoder().encodeRequest(new Request(target, options)));
    const recipientPublicKey = await suite.kem.deserializePublicKey(plain.subarray(3, 35));
    const sender = await suite.createSenderContext({ recipientPublicKey, info: info(header(plain)) });
    const sealed = Buffer.from(await sender.seal(message));
    kept.set("exchange", { enc: Buffer.from(sender.enc), secret: await exported(sender) });
    return { sealed: hex(Buffer.concat([header(plain), Buffer.from(sender.enc), sealed])) };
  },
  async answer({ sealed }) {
    const { enc, secret } = kept.get("exchange");
    const data = Buffer.from(sealed, "hex");
    const [key, nonce] = answerKeys(enc, data.subarray(0, 16), secret);
    const cipher = createDecipheriv("aes-128-gcm", key, nonce);
    cipher.setAuthTag(data.subarray(-16));
    const plain = Buffer.concat([cipher.update(data.subarray(16, -16)), cipher.final()]);
    const response = new BHttpDecoder().decodeResponse(plain);
    return { status: response.status, body: hex(Buffer.from(await response.arrayBuffer())) };
  },
  // An Oblivious HTTP gateway: opens what we sealed, and answers with the path it was asked for.
  async serve({ secret, sealed }) {
    const data = Buffer.from(sealed, "hex");
    const [head, enc] = [data.subarray(0, 7), data.subarray(7, 39)];
    const recipientKey = await suite.kem.importKey("raw", bytes(secret).buffer, false);
    const context = await suite.createRecipientContext({ recipientKey, enc, info: info(head) });
    const request = new BHttpDecoder().decodeRequest(Buffer.from(await context.open(data.subarray(39))));
    const body = `${request.method} ${new URL(request.url).pathname} ${await request.text()}`;
    const message = Buffer.from(await new BHttpEncoder().encodeResponse(new Response(body, { status: 201 })));
    const fresh = randomBytes(16);
    const [key, nonce] = answerKeys(enc, fresh, await exported(context));
    const cipher = createCipheriv("aes-128-gcm", key, nonce);
    const out = Buffer.concat([fresh, cipher.update(message), cipher.final(), cipher.getAuthTag()]);
    return { sealed: hex(out) };
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const { command, ...rest } = JSON.parse(line);
  try {
    console.log(JSON.stringify(await commands[command](rest)));
  } catch (error) {
    console.log(JSON.stringify({ error: `${error}` }));
  }
}
