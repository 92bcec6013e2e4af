/** Counts, sums and means by group, where nobody may learn which group a user is in. Loaded only
 * for such tasks. */
import { EPSILON, equalCells } from "../cells/base.js";
import { bad } from "../errors.js";
import { add, ONE, rational, same, sum, text } from "../numbers/rational.js";
import { anything, choice, list, record } from "../schema.js";
import { ANY, drawnAtOnce } from "./atOnce.js";
import { LABEL, parameters, wholeUpTo, wrong, zeroOrOne, type Query, type Value } from "./base.js";
import { BOUND, digitsOf } from "./bounds.js";

const PAIR = "a pair of a group and a";
const RULE = "sum over cells of up + down";
const MOST_GROUPS = 1000;
const MOST_COUNTED_GROUPS = 10 ** 5;

export const query: Query = (data, cells) => {
  const {
    epsilon,
    answer,
    labels,
    low,
    high,
    digits: given,
    sizes,
  } = parameters(
    data,
    {
      answer: choice("count", "integer-sum", "real-sum", "mean"),
      labels: list(LABEL, 2, MOST_COUNTED_GROUPS),
      low: BOUND,
      high: BOUND,
      digits: list(record({ cell: anything, down: EPSILON }), 1, 25),
    },
    { sizes: record({ cell: zeroOrOne(cells), down: EPSILON }) },
  );
  const places = new Map(labels.map((one, place) => [one, place]));
  if (places.size < labels.length || new Set(labels.map((one) => typeof one)).size > 1)
    bad("Groups need different labels, all texts or all whole numbers");
  if (answer !== "count" && labels.length > MOST_GROUPS)
    bad(`Sums and means have at most ${MOST_GROUPS} groups`);
  const pair = (answered: unknown): readonly [group: number, value: Value] => {
    const [label, value] =
      Array.isArray(answered) && answered.length === 2
        ? (answered as [Value, Value])
        : wrong(`${PAIR} number`);
    return [
      places.get(label) ?? wrong("a pair whose group is one of the groups of this task"),
      value,
    ];
  };
  const buckets = labels.length + 1;
  const atOnce =
    answer === "count" ? drawnAtOnce(given[0]!.cell, cells, { buckets, epsilon }) : null;
  if (atOnce) {
    if (given.length > 1 || low[0] !== 0n || text(high) !== "1" || sizes)
      bad("A count by group needs one digit and the bounds 0 and 1");
    if (!same(given[0]!.down, atOnce.groups[0]!.uses[0]!.down))
      bad("The cell is for its own losses");
    return {
      ...atOnce,
      epsilon,
      lossRule: atOnce.any ? ANY : RULE,
      allowsTopUp: true,
      values: { kind: "group", labels, value: { kind: "whole", least: 0, most: 1 } },
      encode(answered) {
        const [group, value] = pair(answered);
        // the last bucket is for all who hold 0
        return { held: [[wholeUpTo(1, value, `${PAIR} whole number`) ? group : labels.length]] };
      },
    };
  }
  const digits = given.map(({ cell, down }) => ({ cell: cells.cell(cell, "protocol.cell"), down }));
  if (digits.some(({ cell }) => cell.absentValue)) bad("Cells of groups must have no stand-in");
  if ((sizes !== undefined) !== (answer === "mean" || low[0] !== 0n))
    bad("Group sizes are counted for means and where the lower bound is not 0, and nowhere else");
  const whole = answer === "count" || answer === "integer-sum";
  const { largest } = digits[0]!.cell;
  const top = text(high);
  const most = answer === "count" ? ONE : rational(largest);
  if (
    whole &&
    (digits.length > 1 || low[0] !== 0n || top !== text(most) || top !== String(largest))
  )
    bad(
      "Whole numbers by group need one digit and the lower bound 0, and a count the upper bound 1",
    );
  const rounded = digitsOf(
    { low, high },
    digits.map(({ cell }) => cell),
  );
  const uses = [...digits, ...(sizes ? [sizes] : [])].map(({ cell, down }) => ({
    cell,
    copies: labels.length,
    up: cell.upLoss,
    down,
  }));
  return {
    epsilon,
    groups: uses.map(equalCells),
    loss: sum(uses.map(({ up, down }) => add(up, down))),
    lossRule: RULE,
    allowsTopUp: true,
    values: {
      kind: "group",
      labels,
      value: whole
        ? { kind: "whole", least: 0, most: largest }
        : { kind: "number", least: text(low), most: text(high) },
    },
    encode(answered, words) {
      const [group, value] = pair(answered);
      const parts = whole
        ? [wholeUpTo(largest, value, `${PAIR} whole number`)]
        : rounded(value, words)[0];
      if (sizes) parts.push(1);
      return { held: parts.map((part) => labels.map((_, one) => (one === group ? part : 0))) };
    },
  };
};
