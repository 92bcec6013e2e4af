/** Quantiles of numbers or dates: a histogram per level, each finer than the one before. Loaded
 * only for such tasks. */
import { EPSILON, equalCells, kindOf, type CellGroup } from "../cells/base.js";
import { bad } from "../errors.js";
import {
  add,
  floor,
  over,
  rational,
  same,
  subtract,
  sum,
  text,
  times,
  type Rational,
} from "../numbers/rational.js";
import { anything, choice, list, record, whole } from "../schema.js";
import { parameters, wrong, zeroOrOne, type Answer, type Query } from "./base.js";
import { between, BOUND } from "./bounds.js";

const UNIT_SECONDS = { day: 86400, second: 1 };

/** A date without a zone in whole units since 1970; null for anything else. */
function dateNumber(value: Answer, unit: "day" | "second"): number | null {
  const found = /^(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d)(:\d\d)?)?$/.exec(String(value));
  const time = found ? Date.parse(`${found[1]}T${found[2] ?? "00:00"}${found[3] ?? ":00"}Z`) : NaN;
  if (!found || Number.isNaN(time) || !new Date(time).toISOString().startsWith(found[1]!))
    return null;
  return Math.floor(time / 1000 / UNIT_SECONDS[unit]);
}

const dateText = (number: Rational, unit: "day" | "second"): string =>
  new Date(Number(number[0]) * 1000 * UNIT_SECONDS[unit])
    .toISOString()
    .slice(0, unit === "day" ? 10 : 19);

const isSafeInteger = ([n, d]: Rational): boolean => d === 1n && Number.isSafeInteger(Number(n));

export const query: Query = (data, cells) => {
  const level = record({ buckets: whole(2, 4096), cell: anything, down: EPSILON });
  const {
    epsilon,
    low,
    high,
    levels: given,
    points,
    unit,
  } = parameters(
    data,
    { low: BOUND, high: BOUND, levels: list(level, 1, 13) },
    { points: choice(true), unit: choice("day", "second") },
  );
  const within = between({ low, high });
  const levels = given.map(({ buckets, cell, down }): CellGroup => {
    const together = kindOf(cell) === "pooled" && cells.groups.get("pooled");
    if (together) {
      const group = together.read(cell, "cell");
      if (group.counters !== buckets || !same(group.uses[0]!.down, down))
        bad("The cell is for its own buckets and losses");
      return group;
    }
    const one = zeroOrOne(cells)(cell, "cell");
    return equalCells({ cell: one, copies: buckets, up: one.upLoss, down });
  });
  const coarser = (i: number): number => levels[i - 1]!.counters;
  if (levels.some(({ counters }, i) => i && (counters % coarser(i) || counters === coarser(i))))
    bad("Each level's number of buckets must divide the next one's");
  if ((unit && !points) || (points && !(isSafeInteger(low) && isSafeInteger(high))))
    bad("Points need whole bounds");
  const bins = levels.at(-1)!.counters;
  const dates = unit && ([dateText(low, unit), dateText(high, unit)] as const);

  function bin(value: Answer): number {
    if (!points) {
      const parts = times(subtract(within(value), low), rational(bins));
      const [n, d] = over(parts, subtract(high, low));
      return Math.min(Number(floor(n, d)), bins - 1);
    }
    const point = (unit ? dateNumber(value, unit) : value) as number;
    if (!Number.isSafeInteger(point) || BigInt(point) < low[0] || BigInt(point) > high[0])
      wrong(
        dates
          ? `a date from ${dates[0]} to ${dates[1]}`
          : `a whole number from ${low[0]} to ${high[0]}`,
      );
    const width = -floor(-(high[0] - low[0] + 1n), BigInt(bins));
    return Number((BigInt(point) - low[0]) / width);
  }

  return {
    epsilon,
    groups: levels,
    loss: sum(levels.map(({ uses: [use] }) => add(use!.up, use!.down))),
    lossRule: "sum over levels of up + down",
    allowsTopUp: false,
    values: dates
      ? { kind: "date", least: dates[0], most: dates[1], unit: unit! }
      : points
        ? { kind: "whole", least: Number(low[0]), most: Number(high[0]) }
        : { kind: "number", least: text(low), most: text(high) },
    encode(value) {
      const place = bin(value);
      return {
        held: levels.map(({ counters, uses: [use] }) => {
          const bucket = Math.floor(place / (bins / counters));
          if (use!.cell.kind === "pooled") return [bucket];
          return Array.from({ length: counters }, (_, one) => Number(one === bucket));
        }),
      };
    },
  };
};
