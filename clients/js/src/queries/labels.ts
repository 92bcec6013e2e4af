/** Labels of any domain: their public hash, and the sparse table to whose buckets they are mapped
 * (docs/protocol.md, "Hashed labels"). */
import { fromHex, hex, join, sha256, utf8, type Bytes } from "../bytes.js";
import { kindOf, type CellGroup } from "../cells/base.js";
import type { Cells } from "../cells/registry.js";
import { bad } from "../errors.js";
import type { Words } from "../numbers/sampling.js";
import { textOf, type Check } from "../schema.js";
import { wrong, type Value } from "./base.js";

const PREFIX = utf8("shuffledp label ");
const LEAST_BUCKETS = 64;
const MOST_BUCKETS = 2 ** 23;

/** The seed of a hash, from its hexadecimal digits. */
export const SEED: Check<Bytes> = (data, name) =>
  fromHex(textOf(64, 64, /^[0-9a-f]*$/)(data, name));

/** The first eight bytes of `bytes` from `at` on, the least significant first. */
export const littleEndian = (bytes: Bytes, at = 0): bigint =>
  BigInt(`0x${hex(bytes.slice(at, at + 8).reverse())}`);

/** A sparse table with a power of two of buckets. */
export const table =
  ({ groups }: Cells): Check<CellGroup> =>
  (data, name) => {
    const kind = groups.get("sparse");
    if (kindOf(data) !== "sparse" || !kind) return bad(`${name} must be a sparse cell`);
    const group = kind.read(data, name);
    const { counters } = group;
    if (
      counters < LEAST_BUCKETS ||
      counters > MOST_BUCKETS ||
      !Number.isInteger(Math.log2(counters))
    )
      bad(`${name} must have a power of two of buckets, ${LEAST_BUCKETS} to ${MOST_BUCKETS}`);
    return group;
  };

/** The bytes of a label that are hashed: its kind, and the label. */
function labelBytes(value: unknown): Bytes {
  if (typeof value === "string") {
    if (/\p{Cs}/u.test(value)) wrong("a text of whole characters");
    return join(Uint8Array.of(0), utf8(value));
  }
  const fits =
    typeof value === "bigint"
      ? value >= -(1n << 63n) && value < 1n << 64n
      : Number.isSafeInteger(value);
  if (!fits) wrong("a text, or a whole number of at most 64 bits (beyond ±(2⁵³ − 1) as a BigInt)");
  const number = BigInt.asUintN(64, BigInt(value as number | bigint));
  const bytes = Uint8Array.from({ length: 8 }, (_, i) => Number((number >> BigInt(8 * i)) & 255n));
  return join(Uint8Array.of(1), bytes);
}

/** The 32 bytes of a label's hash. */
export const labelHash = async (seed: Bytes, value: Value): Promise<Bytes> =>
  sha256(join(PREFIX, seed, labelBytes(value)));

/** A uniform number from 0 to size − 1, of words that are not too large. */
export function uniformBelow(size: number, words: Words): number {
  const all = BigInt(size);
  let word: bigint;
  do word = words();
  while (word >= ((1n << 64n) / all) * all);
  return Number(word % all);
}
