/** Questions whose answer is one of some labels. Loaded only for such tasks. */
import { EPSILON } from "./cells.js";
import { bad, LABEL, QUERY, wrong, zeroOrOne, type Reader, type Readers, type Value } from "./questions.js";
import { subtract } from "./rational.js";
import { list, record } from "./schema.js";

const histogram: Reader = (data, cellOf) => {
  const { epsilon, cell, labels, other } = record({
    query: QUERY,
    epsilon: EPSILON,
    cell: zeroOrOne(cellOf),
    labels: list(LABEL, 2, 10 ** 6),
    other: (one, name): Value | null => (one === null ? one : LABEL(one, name)),
  })(data, "protocol");
  const places = new Map(labels.map((one, place) => [one, place]));
  if (places.size < labels.length || (other !== null && !places.has(other))) bad("Buckets need different labels, and the one for others must be one of them");
  return {
    uses: [{ cell, copies: labels.length, up: cell.upLoss, down: subtract(epsilon, cell.upLoss) }],
    loss: epsilon,
    lossRule: "up + down",
    allowsTopUp: true,
    values: { kind: "label", labels, other },
    encode(value) {
      const place = places.get(value as Value) ?? places.get(other as Value) ?? wrong("one of the labels of this task");
      return [labels.map((_, bucket) => Number(bucket === place))];
    },
  };
};

export const READERS: Readers = { histogram };
