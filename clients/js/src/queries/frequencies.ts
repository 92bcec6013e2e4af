/** Frequencies of labels of any domain: two hashed rows in one sparse table. Loaded only for such
 * tasks. */
import { bad } from "../errors.js";
import { list } from "../schema.js";
import { LABEL, parameters, type Query, type Value } from "./base.js";
import { labelHash, littleEndian, SEED, table, uniformBelow } from "./labels.js";

const ROWS = 2;

export const query: Query = (data, cells) => {
  const { epsilon, cell, hash_seed, candidates } = parameters(data, {
    cell: table(cells),
    hash_seed: SEED,
    candidates: list(LABEL, 0, 10 ** 5),
  });
  if (
    new Set(candidates).size < candidates.length ||
    new Set(candidates.map((one) => typeof one)).size > 1
  )
    bad("Candidates must be different, and all texts or all whole numbers");
  const buckets = cell.counters / ROWS; // of one row
  return {
    epsilon,
    groups: [cell],
    loss: cell.uses[0]!.up,
    lossRule: "any replacement",
    allowsTopUp: true,
    values: { kind: "any", candidates },
    async encode(value, words) {
      const hash = await labelHash(hash_seed, value as Value);
      const row = uniformBelow(ROWS, words);
      const bucket = Number(littleEndian(hash, 8 * row) % BigInt(buckets));
      return { held: [[row * buckets + bucket]] };
    },
  };
};
