/** How many users have each of some labels: a cell per label. Loaded only for such tasks. */
import { equalCells } from "../cells/base.js";
import { bad } from "../errors.js";
import { subtract } from "../numbers/rational.js";
import { list } from "../schema.js";
import { LABEL, parameters, wrong, zeroOrOne, type Query, type Value } from "./base.js";

export const query: Query = (data, cells) => {
  const { epsilon, cell, labels, other } = parameters(data, {
    cell: zeroOrOne(cells),
    labels: list(LABEL, 2, 10 ** 6),
    other: (one, name): Value | null => (one === null ? one : LABEL(one, name)),
  });
  const places = new Map(labels.map((one, place) => [one, place]));
  if (places.size < labels.length || (other !== null && !places.has(other)))
    bad("The labels must differ, and the one for other values must be among them");
  const { upLoss: up } = cell;
  return {
    epsilon,
    groups: [equalCells({ cell, copies: labels.length, up, down: subtract(epsilon, up) })],
    loss: epsilon,
    lossRule: "up + down",
    allowsTopUp: true,
    values: { kind: "label", labels, other },
    encode(value) {
      const place =
        places.get(value as Value) ??
        places.get(other as Value) ??
        wrong("one of the labels of this task");
      return { held: [labels.map((_, bucket) => Number(bucket === place))] };
    },
  };
};
