/** Frequent words of an unknown domain: a user sends one unit of its word to a sparse table
 * (docs/protocol.md, "Words"). Loaded only for such tasks. */
import { join, sha256, utf8, type Bytes } from "../bytes.js";
import { whole } from "../schema.js";
import { parameters, wrong, type Query } from "./base.js";
import { labelHash, littleEndian, SEED, table, uniformBelow } from "./labels.js";

const LETTERS = "abcdefghijklmnopqrstuvwxyz";
const TWO_UNITS = [
  ...("0123456789 !\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~" +
    "ABCDEFGHIJKLMNOPQRSTUVWXYZ" +
    "ßàáâãäåæçèéêëìíîïðñòóôõöøùúûüýþÿ" +
    "абвгдежзийклмнопрстуфхцчшщъыьэюяё" +
    "čćěřšžůłąęśźżńőűğışœ’–€“”…"),
];
const PAIR = 26;
const ESCAPE = 31;
const LAST = 32;
const LEAST_ROWS = 3;
const BLOCK = 64;

/** The 5-bit units of a character. */
function unitsOf(letter: string): number[] {
  const one = LETTERS.indexOf(letter);
  if (one >= 0) return [one];
  const two = TWO_UNITS.indexOf(letter);
  if (two >= 0) return [PAIR + (two >> 5), two & 31];
  const code = letter.codePointAt(0)!;
  return [ESCAPE, ...[20, 15, 10, 5, 0].map((shift) => (code >> shift) & 31)];
}

/** What each row of a word carries. */
function symbolsOf(word: string): number[] {
  const symbols = word ? [...word].flatMap(unitsOf) : [ESCAPE];
  symbols[symbols.length - 1]! += LAST;
  while (symbols.length < LEAST_ROWS) symbols.push(0);
  return symbols;
}

const wrap = (number: bigint): bigint => BigInt.asUintN(64, number);

/** A number of 64 bits for a row of the word with this number, as SplitMix64 mixes it. */
async function mixed(seed: Bytes, id: bigint, row: number): Promise<bigint> {
  const key = littleEndian(await sha256(join(utf8("shuffledp rows "), seed)));
  let found = wrap(key + ((id << 32n) | BigInt(row)) * 0x9e3779b97f4a7c15n);
  found = wrap((found ^ (found >> 30n)) * 0xbf58476d1ce4e5b9n);
  found = wrap((found ^ (found >> 27n)) * 0x94d049bb133111ebn);
  return found ^ (found >> 31n);
}

export const query: Query = (data, cells) => {
  const { epsilon, cell, hash_seed, id_bits } = parameters(data, {
    cell: table(cells),
    hash_seed: SEED,
    id_bits: whole(8, 22),
  });
  const blocks = BigInt(cell.counters / BLOCK);
  return {
    epsilon,
    groups: [cell],
    loss: cell.uses[0]!.up,
    lossRule: "any replacement",
    allowsTopUp: true,
    values: { kind: "any", candidates: [] },
    async encode(value, words) {
      if (typeof value !== "string") return wrong("a text");
      const hash = littleEndian(await labelHash(hash_seed, value));
      const symbols = symbolsOf(value);
      const row = uniformBelow(symbols.length, words);
      const place = await mixed(hash_seed, BigInt.asUintN(id_bits, hash), row);
      const block = Number((place >> 6n) % blocks);
      return { held: [[block * BLOCK + ((symbols[row]! + Number(place & 63n)) % BLOCK)]] };
    },
  };
};
