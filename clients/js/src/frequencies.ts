/** Frequencies of labels of any domain: a user takes part in one group, whose cells count a public hash of
 * the labels. Loaded only for tasks that ask for them. */
import { EPSILON, USERS } from "./cells.js";
import { ascii, bytesOf, fromHex, hex, join, sha256, type Bytes } from "./hpke.js";
import { bad, LABEL, QUERY, wrong, zeroOrOne, type Reader, type Readers, type Value } from "./questions.js";
import { larger, ONE, rational, subtract } from "./rational.js";
import type { Words } from "./sampling.js";
import { exactly, list, record, textOf, whole } from "./schema.js";

const PRIME = (1n << 61n) - 1n;
const BLOCK = 32; // bytes of a SHA-256
const MOST_CELLS = 2 ** 30;

const littleEndian = (bytes: Bytes): bigint => BigInt(`0x${hex(bytes.reverse())}`);

/** The number of `size` bytes (4 or 8) with this index in the stream that the seed gives for a use. */
async function numberAt(seed: Bytes, use: string, index: number, size: number): Promise<bigint> {
  const at = index * size;
  const block = await sha256(join(ascii(`shuffledp hash ${use} `), seed, bytesOf(Math.floor(at / BLOCK), 4)));
  return littleEndian(block.slice(at % BLOCK, (at % BLOCK) + size));
}

/** A label as a number of 64 bits. */
async function labelNumber(seed: Bytes, value: Value): Promise<bigint> {
  if (typeof value === "bigint" ? value >= -(1n << 63n) && value < 1n << 64n : Number.isSafeInteger(value))
    return BigInt.asUintN(64, BigInt(value));
  if (typeof value !== "string" || /\p{Cs}/u.test(value))
    return wrong("a text, or a whole number of at most 64 bits (beyond ±(2⁵³ − 1) as a BigInt)");
  let point = PRIME;
  for (let i = 0; point === PRIME; i++) point = (await numberAt(seed, "point", i, 8)) & PRIME;
  const bytes = join(ascii(value), Uint8Array.of(1));
  let total = 1n;
  for (let at = 0; at < bytes.length; at += 7) total = (total * point + littleEndian(bytes.slice(at, at + 7))) % PRIME;
  return total;
}

/** The cell, of 2^bits, to which a group's hash function maps a number. */
async function placeOf(number: bigint, seed: Bytes, group: number, bits: number): Promise<number> {
  let place = Number(BigInt.asUintN(bits, await numberAt(seed, "shifts", group, 4)));
  for (let bit = 0; bit < bits; bit++) {
    let odd = 0;
    for (let both = number & (await numberAt(seed, "matrices", group * bits + bit, 8)); both; both &= both - 1n) odd ^= 1;
    place ^= odd << bit;
  }
  return place;
}

/** A uniform number from 0 to groups − 1. */
function drawGroup(groups: number, words: Words): number {
  const all = BigInt(groups);
  let word: bigint;
  do word = words();
  while (word >= ((1n << 64n) / all) * all);
  return Number(word % all);
}

const frequencies: Reader = (data, cellOf) => {
  const { epsilon, users, groups, cells_per_group: k, cell, hash_seed, candidates } = record({
    query: QUERY,
    epsilon: EPSILON,
    users: USERS,
    groups: whole(1, 10 ** 6),
    cells_per_group: whole(2, 4096),
    cell: zeroOrOne(cellOf),
    spread: exactly(ONE, rational(10 ** 13)),
    hash_seed: textOf(64, 64, /^[0-9a-f]*$/),
    candidates: list(LABEL, 0, 10 ** 5),
  })(data, "protocol");
  if (k & (k - 1)) bad("A group needs 2, 4, 8, … cells");
  if (groups * cell.users > users) bad("There are fewer users than all groups need together");
  if (new Set(candidates).size < candidates.length || new Set(candidates.map((one) => typeof one)).size > 1)
    bad("Candidates must be different, and all texts or all whole numbers");
  const copies = k > 2 ? k : 1; // one cell is enough to count one of two
  if (groups * (copies + 1) > MOST_CELLS) bad("The groups have too many cells");
  const seed = fromHex(hash_seed);
  const up = cell.upLoss;
  return {
    users,
    calls: 1,
    uses: [{ cell, copies, up, down: copies > 1 ? subtract(epsilon, up) : epsilon }],
    loss: copies > 1 ? epsilon : larger(up, epsilon),
    lossRule: "groups in parallel; in a group up + down, or max(up, down) where it has one cell",
    allowsTopUp: true,
    values: { kind: "any", candidates },
    async encode(value, words) {
      const number = await labelNumber(seed, value as Value);
      const group = drawGroup(groups, words);
      const place = await placeOf(number, seed, group, Math.log2(k));
      const held = copies > 1 ? Array.from({ length: k }, (_, i) => Number(i === place)) : [place];
      return [held, group * copies, [2 * (groups * copies + group) + 1]];
    },
  };
};

export const READERS: Readers = { frequencies };
