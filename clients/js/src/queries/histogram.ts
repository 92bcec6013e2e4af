/** How many users have each of some labels: a cell per label, or one for all. Loaded only for such
 * tasks. */
import { equalCells } from "../cells/base.js";
import { bad } from "../errors.js";
import { subtract } from "../numbers/rational.js";
import { anything, list, whole } from "../schema.js";
import { ANY, drawnAtOnce, UP_AND_DOWN } from "./atOnce.js";
import { LABEL, parameters, wrong, zeroOrOne, type Query, type Value } from "./base.js";

const MOST_LABELS = 10 ** 6;

export const query: Query = (data, cells) => {
  const { epsilon, cell, labels, other } = parameters(data, {
    cell: anything,
    labels: (one, name): readonly Value[] =>
      typeof one === "number"
        ? Array.from({ length: whole(2, MOST_LABELS)(one, name) }, (_, label) => label)
        : list(LABEL, 2, MOST_LABELS)(one, name),
    other: (one, name): Value | null => (one === null ? one : LABEL(one, name)),
  });
  const places = new Map(labels.map((one, place) => [one, place]));
  if (places.size < labels.length || (other !== null && !places.has(other)))
    bad("The labels must differ, and the one for other values must be among them");
  const place = (value: unknown): number =>
    places.get(value as Value) ??
    places.get(other as Value) ??
    wrong("one of the labels of this task");
  const common = {
    epsilon,
    allowsTopUp: true,
    values: { kind: "label", labels, other } as const,
  };
  const atOnce = drawnAtOnce(cell, cells, { buckets: labels.length, epsilon });
  if (atOnce)
    return {
      ...common,
      ...atOnce,
      lossRule: atOnce.any ? ANY : UP_AND_DOWN,
      encode: (value) => ({ held: [[place(value)]] }),
    };
  const one = zeroOrOne(cells)(cell, "protocol.cell");
  const { upLoss: up } = one;
  return {
    ...common,
    groups: [equalCells({ cell: one, copies: labels.length, up, down: subtract(epsilon, up) })],
    loss: epsilon,
    lossRule: UP_AND_DOWN,
    encode(value) {
      const held = place(value);
      return { held: [labels.map((_, bucket) => Number(bucket === held))] };
    },
  };
};
