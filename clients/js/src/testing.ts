/** Hooks for tests: chosen random words, chosen ephemeral keys, storage in memory. Never for
 * people. */
import { bytesOf, fromBase64, fromHex, hex, join, sha256, utf8, type Bytes } from "./bytes.js";
import { emptyRecord, type DeviceRecord, type Storage } from "./device/storage.js";
import type { Words } from "./numbers/sampling.js";
import { ANSWER_NONCE_BYTES, answerKeys, REQUEST } from "./send/oblivious.js";
import { context, sharedWith, type Ephemeral } from "./task/hpke.js";

export { fromHex, hex } from "./bytes.js";
export { boundedCell } from "./cells/bounded.js";
export { kind as sharedDigits } from "./cells/digits.js";
export { kind as keptBuckets } from "./cells/kept.js";
export { kind as pooledBuckets } from "./cells/pooled.js";
export { kind as sparseBuckets } from "./cells/sparse.js";
export { CutNoise, draw, finite, uniform, zeroWith } from "./numbers/sampling.js";
export { negativeBinomial, poisson } from "./numbers/unboundedLaws.js";
export { between } from "./queries/bounds.js";
export { readCanonical } from "./schema.js";
export { blind, finalize, verifies } from "./send/blind.js";
export { binaryRequest, binaryResponse, sealRequest } from "./send/oblivious.js";
export { challengeOf, modulusOf, tokenOf, tokenRequest } from "./send/tokens.js";
export { sealer } from "./task/hpke.js";
export { encryptReport, plainNumbers } from "./task/report.js";

/** These 64-bit words, one after the other (hexadecimal digits); an error after the last one. */
export function givenWords(words: readonly string[]): Words & { left(): number } {
  let next = 0;
  const take = (): bigint => {
    const word = words[next++];
    if (word === undefined)
      throw new RangeError("More random words were asked for than were given.");
    return BigInt(`0x${word}`);
  };
  return Object.assign(take, { left: () => words.length - next });
}

const PKCS8 = fromHex("302e020100300506032b656e04220420");
const PUBLIC_BASE = join(new Uint8Array([9]), new Uint8Array(31));

/** These private keys (hexadecimal digits), one for each message in order. */
export function givenKeys(secrets: readonly string[]): Ephemeral {
  let next = 0;
  return async () => {
    const secret = secrets[next++];
    if (secret === undefined) throw new RangeError("More keys were asked for than were given.");
    const key = await crypto.subtle.importKey(
      "pkcs8",
      join(PKCS8, fromHex(secret)),
      { name: "X25519" },
      false,
      ["deriveBits"],
    );
    return {
      publicKey: await sharedWith(key, PUBLIC_BASE),
      shared: (peer: Bytes) => sharedWith(key, peer),
    };
  };
}

/** A gateway of Oblivious HTTP with this private key (hexadecimal digits): its public key, as tasks
 * name it, and how it answers a sealed request. */
export async function givenGateway(
  secret: string,
  respond: (request: Bytes) => Bytes,
  nonce?: Bytes,
): Promise<{ key: string; answer(sealed: Bytes): Promise<Bytes> }> {
  const { publicKey: own, shared } = await givenKeys([secret])();
  const aes = async (
    use: "encrypt" | "decrypt",
    [key, iv]: readonly [key: Bytes, iv: Bytes],
    data: Bytes,
  ): Promise<Bytes> => {
    const cipher = await crypto.subtle.importKey("raw", key, "AES-GCM", false, [use]);
    return new Uint8Array(await crypto.subtle[use]({ name: "AES-GCM", iv }, cipher, data));
  };
  return {
    key: `010020${hex(own)}000400010001`,
    async answer(sealed) {
      const [header, enc] = [sealed.slice(0, 7), sealed.slice(7, 39)];
      const info = join(utf8(REQUEST), bytesOf(0, 1), header);
      // the recipient's key schedule is the sender's, with the same exchanged secret
      const begin = await context(own, info, async () => ({
        publicKey: enc,
        shared: () => shared(enc),
      }));
      const { derive } = await begin();
      const keys = await Promise.all([derive("key", 16), derive("base_nonce", 12)]);
      const request = await aes("decrypt", keys, sealed.slice(39));
      const drawn = nonce ?? crypto.getRandomValues(new Uint8Array(ANSWER_NONCE_BYTES));
      const answering = await answerKeys(derive, enc, drawn);
      return join(drawn, await aes("encrypt", answering, respond(request)));
    },
  };
}

const ED25519 = fromHex("302e020100300506032b657004220420");

/** The proof of a task that is alone in its log, signed with keys made from these names. */
export async function madeProof(
  id: string,
  names = { collector: "collector", shuffler: "shuffler", analyzer: "analyzer" },
): Promise<string> {
  const roles = ["collector", "shuffler", "analyzer"] as const;
  const keys: Record<string, Bytes> = {};
  const secrets: Record<string, CryptoKey> = {};
  for (const role of roles) {
    const seed = join(ED25519, await sha256(utf8(names[role])));
    secrets[role] = await crypto.subtle.importKey("pkcs8", seed, { name: "Ed25519" }, true, [
      "sign",
    ]);
    const { x } = await crypto.subtle.exportKey("jwk", secrets[role]!);
    keys[role] = fromBase64(x!);
  }
  const sign = async (role: string, text: Bytes): Promise<string> =>
    hex(new Uint8Array(await crypto.subtle.sign("Ed25519", secrets[role]!, text)));
  const signatures: Record<string, string> = {};
  for (const role of roles)
    signatures[role] = await sign(role, join(utf8(`shuffledp/v1 task ${role} `), fromHex(id)));
  const root = await sha256(
    join(bytesOf(0, 1), fromHex(id), keys.collector!, fromHex(signatures.collector!)),
  );
  const head = (role: string): Bytes =>
    join(utf8(`shuffledp/v1 head ${role} `), keys.analyzer!, bytesOf(1, 8), root);
  return JSON.stringify({
    format: "shuffledp task proof 1",
    task: id,
    keys: Object.fromEntries(roles.map((role) => [role, hex(keys[role]!)])),
    signatures,
    log: {
      index: 0,
      size: 1,
      root: hex(root),
      path: [],
      analyzer_signature: await sign("analyzer", head("analyzer")),
      shuffler_signature: await sign("shuffler", head("shuffler")),
    },
  });
}

/** A record in memory. */
export function memoryStorage(record: DeviceRecord = emptyRecord()): Storage {
  let held = record;
  let turn: Promise<unknown> = Promise.resolve();
  return {
    async update(change) {
      const copy = structuredClone(held);
      const result = change(copy);
      held = copy;
      return result;
    },
    alone<T>(work: () => Promise<T>): Promise<T> {
      const mine = turn.then(work, work);
      turn = mine.catch(() => undefined);
      return mine;
    },
  };
}
