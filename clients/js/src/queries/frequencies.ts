/** Frequencies of labels of any domain: a user takes part in one group, whose cells count a public
 * hash of the labels. Loaded only for such tasks. */
import { bytesOf, fromHex, hex, join, sha256, utf8, type Bytes } from "../bytes.js";
import { equalCells, USERS } from "../cells/base.js";
import { bad } from "../errors.js";
import { larger, ONE, rational, subtract } from "../numbers/rational.js";
import type { Words } from "../numbers/sampling.js";
import { exactly, list, textOf, whole } from "../schema.js";
import { LABEL, parameters, wrong, zeroOrOne, type Query, type Value } from "./base.js";

const PRIME = (1n << 61n) - 1n;
const BLOCK = 32; // bytes of a SHA-256
const MOST_CELLS = 2 ** 30;

const littleEndian = (bytes: Bytes): bigint => BigInt(`0x${hex(bytes.reverse())}`);

/** Bytes of the numbers in each stream that a seed gives. */
const STREAMS = { point: 8, shifts: 4, matrices: 8 };

/** The number with this index in one of the seed's streams. */
async function numberAt(seed: Bytes, stream: keyof typeof STREAMS, index: number): Promise<bigint> {
  const size = STREAMS[stream];
  const at = index * size;
  const prefix = utf8(`shuffledp hash ${stream} `);
  const block = await sha256(join(prefix, seed, bytesOf(Math.floor(at / BLOCK), 4)));
  return littleEndian(block.slice(at % BLOCK, (at % BLOCK) + size));
}

/** A label as a number of 64 bits. */
async function labelNumber(seed: Bytes, value: Value): Promise<bigint> {
  if (
    typeof value === "bigint"
      ? value >= -(1n << 63n) && value < 1n << 64n
      : Number.isSafeInteger(value)
  )
    return BigInt.asUintN(64, BigInt(value));
  if (typeof value !== "string" || /\p{Cs}/u.test(value))
    return wrong("a text, or a whole number of at most 64 bits (beyond ±(2⁵³ − 1) as a BigInt)");
  let point = PRIME;
  for (let i = 0; point === PRIME; i++) point = (await numberAt(seed, "point", i)) & PRIME;
  const bytes = join(utf8(value), Uint8Array.of(1));
  let total = 1n;
  for (let at = 0; at < bytes.length; at += 7)
    total = (total * point + littleEndian(bytes.slice(at, at + 7))) % PRIME;
  return total;
}

/** The cell, of 2^bits, to which a group's hash function maps a number. */
async function placeOf(
  number: bigint,
  { seed, group, bits }: { seed: Bytes; group: number; bits: number },
): Promise<number> {
  let place = Number(BigInt.asUintN(bits, await numberAt(seed, "shifts", group)));
  for (let bit = 0; bit < bits; bit++) {
    const row = await numberAt(seed, "matrices", group * bits + bit);
    let odd = 0;
    for (let both = number & row; both; both &= both - 1n) odd ^= 1;
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

export const query: Query = (data, cells) => {
  const {
    epsilon,
    users,
    groups,
    cells_per_group: k,
    cell,
    hash_seed,
    candidates,
  } = parameters(data, {
    users: USERS,
    groups: whole(1, 10 ** 6),
    cells_per_group: whole(2, 4096),
    cell: zeroOrOne(cells),
    spread: exactly(ONE, rational(10 ** 13)),
    hash_seed: textOf(64, 64, /^[0-9a-f]*$/),
    candidates: list(LABEL, 0, 10 ** 5),
  });
  if (k & (k - 1)) bad("A group needs 2, 4, 8, … cells");
  if (groups * cell.users > users) bad("There are fewer users than all groups need together");
  if (
    new Set(candidates).size < candidates.length ||
    new Set(candidates.map((one) => typeof one)).size > 1
  )
    bad("Candidates must be different, and all texts or all whole numbers");
  const copies = k > 2 ? k : 1; // one cell is enough to count one of two
  if (groups * (copies + 1) > MOST_CELLS) bad("The groups have too many cells");
  const seed = fromHex(hash_seed);
  const up = cell.upLoss;
  const down = copies > 1 ? subtract(epsilon, up) : epsilon;
  return {
    epsilon,
    users,
    publicMessages: 1,
    groups: [equalCells({ cell, copies, up, down })],
    loss: copies > 1 ? epsilon : larger(up, epsilon),
    lossRule: "groups in parallel; in a group up + down, or max(up, down) where it has one cell",
    allowsTopUp: true,
    values: { kind: "any", candidates },
    async encode(value, words) {
      const number = await labelNumber(seed, value as Value);
      const group = drawGroup(groups, words);
      const place = await placeOf(number, { seed, group, bits: Math.log2(k) });
      const held = copies > 1 ? Array.from({ length: k }, (_, i) => Number(i === place)) : [place];
      return {
        held: [held],
        first: group * copies,
        publicMessages: [2 * (groups * copies + group) + 1],
      };
    },
  };
};
