/** Counts, sums and means by group, where nobody may learn which group a user is in. Loaded only for such tasks. */
import { EPSILON } from "./cells.js";
import { BOUND, digitsOf, sum } from "./numbers.js";
import { bad, LABEL, QUERY, wrong, zeroOrOne, type Reader, type Readers, type Value } from "./questions.js";
import { add, ONE, rational, text } from "./rational.js";
import { choice, list, record } from "./schema.js";

const groups: Reader = (data, cellOf) => {
  const { answer, labels, low, high, digits, sizes } = record(
    {
      query: QUERY,
      epsilon: EPSILON,
      answer: choice("count", "integer-sum", "real-sum", "mean"),
      labels: list(LABEL, 2, 1000),
      low: BOUND,
      high: BOUND,
      digits: list(record({ cell: cellOf, down: EPSILON }), 1, 25),
    },
    { sizes: record({ cell: zeroOrOne(cellOf), down: EPSILON }) },
  )(data, "protocol");
  const places = new Map(labels.map((one, place) => [one, place]));
  if (places.size < labels.length || new Set(labels.map((one) => typeof one)).size > 1)
    bad("Groups need different labels, all texts or all whole numbers");
  if (digits.some(({ cell }) => cell.absentValue)) bad("Cells of groups must be without a stand-in");
  if ((sizes !== undefined) !== (answer === "mean" || low[0] !== 0n)) bad("Sizes of groups are counted for means and where the lower bound is not 0, and for nothing else");
  const whole = answer === "count" || answer === "integer-sum";
  const { largest } = digits[0]!.cell;
  const top = text(high);
  if (whole && (digits.length > 1 || low[0] !== 0n || top !== text(answer === "count" ? ONE : rational(largest)) || top !== String(largest)))
    bad("Whole numbers by group are one digit from 0 on, and a count is about 0 and 1");
  const rounded = digitsOf(digits.map(({ cell }) => cell), low, high);
  const wholeOnes = (value: unknown): number[] =>
    Number.isInteger(value) && (value as number) >= 0 && (value as number) <= largest ? [value as number] : wrong(`a pair of a group and a whole number from 0 to ${largest}`);
  const uses = [...digits, ...(sizes ? [sizes] : [])].map(({ cell, down }) => ({ cell, copies: labels.length, up: cell.upLoss, down }));
  return {
    uses,
    loss: sum(uses.map(({ up, down }) => add(up, down))),
    lossRule: "sum over cells of up + down",
    allowsTopUp: true,
    values: {
      kind: "group",
      labels,
      value: whole ? { kind: "whole", least: 0, most: largest } : { kind: "number", least: text(low), most: text(high) },
    },
    encode(answered, words) {
      const [label, value] = Array.isArray(answered) && answered.length === 2 ? (answered as [Value, Value]) : wrong("a pair of a group and a number");
      const group = places.get(label) ?? wrong("a pair whose group is one of the groups of this task");
      const parts = whole ? wholeOnes(value) : rounded(value, words);
      if (sizes) parts.push(1);
      return [parts.flatMap((held) => labels.map((_, one) => (one === group ? held : 0)))];
    },
  };
};

export const READERS: Readers = { "by-group": groups };
