/** The sum of whole numbers from 0 to D: one cell. */
import { equalCells, type IndependentCell } from "../cells/base.js";
import { larger } from "../numbers/rational.js";
import type { Check } from "../schema.js";
import { parameters, wholeUpTo, type Query } from "./base.js";

/** The protocol of one cell that `check` accepts. */
export function oneCell(data: unknown, check: Check<IndependentCell>): ReturnType<Query> {
  const { epsilon, cell } = parameters(data, { cell: check });
  return {
    epsilon,
    groups: [equalCells({ cell, copies: 1, up: cell.upLoss, down: epsilon })],
    loss: larger(cell.upLoss, epsilon),
    lossRule: "max(up, down)",
    allowsTopUp: true,
    values: { kind: "whole", least: 0, most: cell.largest },
    encode: (value) => ({ held: [[wholeUpTo(cell.largest, value, "a whole number")]] }),
  };
}

export const query: Query = (data, { cell }) => oneCell(data, cell);
