/** The sum of numbers between two bounds: a cell per digit. Loaded only for such tasks. */
import { equalCells, kindOf, type CellGroup } from "../cells/base.js";
import type { Cells } from "../cells/registry.js";
import { sum, text } from "../numbers/rational.js";
import { list, whole, type Check } from "../schema.js";
import { parameters, type Query } from "./base.js";
import { BOUND, digitsOf } from "./bounds.js";

/** The digits' cells: one group if they are drawn together, else one group each. */
const digitGroups =
  ({ cell, groups }: Cells): Check<readonly CellGroup[]> =>
  (data, name) => {
    const together = groups.get(kindOf(Array.isArray(data) ? data[0] : data));
    if (together) return [together.read(data, name)];
    return list(
      cell,
      1,
      25,
    )(data, name).map((one) =>
      equalCells({ cell: one, copies: 1, up: one.upLoss, down: one.upLoss }),
    );
  };

export const query: Query = (data, cells) => {
  const {
    epsilon,
    low,
    high,
    digits: groups,
    dither = 1,
  } = parameters(
    data,
    { low: BOUND, high: BOUND, digits: digitGroups(cells) },
    { dither: whole(2, 64) },
  );
  const digits = groups.flatMap(({ uses }) => uses.map(({ cell }) => cell));
  const encode = digitsOf({ low, high }, digits, dither);
  return {
    epsilon,
    publicMessages: dither - 1,
    groups,
    loss: sum(digits.map((cell) => cell.upLoss)),
    lossRule: "sum over cells of max(up, down)",
    allowsTopUp: true,
    values: { kind: "number", least: text(low), most: text(high) },
    encode(value, words) {
      const [values, part] = encode(value, words);
      return {
        held: groups.map(({ uses }) => values.splice(0, uses.length)),
        publicMessages: Array<number>(part).fill(2 * digits.length + 1),
      };
    },
  };
};
