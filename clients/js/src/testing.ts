/** Hooks for tests: chosen random words, chosen ephemeral keys, storage in memory. Never for people. */
import { fromHex, join, sharedWith, type Bytes, type Ephemeral } from "./hpke.js";
import type { Words } from "./sampling.js";
import { emptyRecord, type DeviceRecord, type Storage } from "./storage.js";

export { boundedCell } from "./cells.js";
export { fromHex, hex, sealer } from "./hpke.js";
export { negativeBinomial, poisson } from "./paper.js";
export { readCanonical } from "./schema.js";
export { encryptReport, plainNumbers } from "./report.js";
export { CutNoise, draw, finite, zeroWith } from "./sampling.js";

/** These 64-bit words, one after the other (hexadecimal digits); an error after the last one. */
export function givenWords(words: readonly string[]): Words & { left(): number } {
  let next = 0;
  const take = (): bigint => {
    const word = words[next++];
    if (word === undefined) throw new RangeError("More random words were asked for than were given.");
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
    const key = await crypto.subtle.importKey("pkcs8", join(PKCS8, fromHex(secret)), { name: "X25519" }, false, ["deriveBits"]);
    return { publicKey: await sharedWith(key, PUBLIC_BASE), shared: (peer: Bytes) => sharedWith(key, peer) };
  };
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
