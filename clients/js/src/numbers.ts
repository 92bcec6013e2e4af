/** Questions about numbers: real sums and quantiles. Loaded only for tasks that ask one. */
import { EPSILON, type Cell } from "./cells.js";
import { bad, QUERY, wrong, zeroOrOne, type Answer, type Reader, type Readers } from "./questions.js";
import { add, atMost, exact, floor, over, rational, subtract, text, times, ZERO } from "./rational.js";
import type { Rational } from "./rational.js";
import { draw, zeroWith, type Words } from "./sampling.js";
import { choice, exactly, list, record, whole } from "./schema.js";

const LIMIT = 10n ** 100n;
export const BOUND = exactly([-LIMIT, 1n], [LIMIT, 1n]);

export function sum(parts: Iterable<Rational>): Rational {
  let total = ZERO;
  for (const part of parts) total = add(total, part);
  return total;
}

/** Checks bounds; gives how a number between them is taken, exactly. */
function between(low: Rational, high: Rational): (value: Answer) => Rational {
  const width = subtract(high, low);
  if (!atMost([1n, LIMIT], width)) bad("The lower bound must lie below the upper bound");
  return (value) => {
    if (typeof value === "number" && Number.isFinite(value)) {
      const found = exact(value);
      if (atMost(low, found) && atMost(found, high)) return found;
    }
    return wrong(`a number from ${text(low)} to ${text(high)}`);
  };
}

/** How numbers between bounds become digits: each cell for 0..D is a digit of base D + 1, the most significant first. */
export function digitsOf(cells: readonly Cell[], low: Rational, high: Rational): (value: Answer, words: Words) => number[] {
  const within = between(low, high);
  let grid = 1; // values are rounded to 0..grid − 1 steps
  for (const { largest } of cells) {
    grid *= largest + 1;
    if (grid > 1 << 24) bad("The digits span too many grid points");
  }
  return (value, words) => {
    const [n, d] = over(times(subtract(within(value), low), rational(grid - 1)), subtract(high, low));
    let code = floor(n, d); // then rounded up with the probability of what is left over
    const stays: Rational = [d - (n - code * d), d];
    code += BigInt(draw(zeroWith(stays), words));
    const digits = [];
    for (let left = Number(code), place = cells.length - 1; place >= 0; place--) {
      const base = cells[place]!.largest + 1;
      digits.unshift(left % base);
      left = Math.floor(left / base);
    }
    return digits;
  };
}

const reals: Reader = (data, cellOf) => {
  const { low, high, digits: cells } = record({ query: QUERY, epsilon: EPSILON, low: BOUND, high: BOUND, digits: list(cellOf, 1, 25) })(data, "protocol");
  const encode = digitsOf(cells, low, high);
  return {
    uses: cells.map((cell) => ({ cell, copies: 1, up: cell.upLoss, down: cell.upLoss })),
    loss: sum(cells.map((cell) => cell.upLoss)),
    lossRule: "sum over cells of max(up, down)",
    allowsTopUp: true,
    values: { kind: "number", least: text(low), most: text(high) },
    encode: (value, words) => [encode(value, words)],
  };
};

const UNIT_SECONDS = { day: 86400, second: 1 };

/** A date without a zone in whole units since 1970; null for anything else. */
function dateNumber(value: Answer, unit: "day" | "second"): number | null {
  const found = /^(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d)(:\d\d)?)?$/.exec(String(value));
  const time = found ? Date.parse(`${found[1]}T${found[2] ?? "00:00"}${found[3] ?? ":00"}Z`) : NaN;
  if (!found || Number.isNaN(time) || !new Date(time).toISOString().startsWith(found[1]!)) return null;
  return Math.floor(time / 1000 / UNIT_SECONDS[unit]);
}

const dateText = (number: Rational, unit: "day" | "second"): string =>
  new Date(Number(number[0]) * 1000 * UNIT_SECONDS[unit]).toISOString().slice(0, unit === "day" ? 10 : 19);

const quantiles: Reader = (data, cellOf) => {
  const level = record({ buckets: whole(2, 4096), cell: zeroOrOne(cellOf), down: EPSILON });
  const { low, high, levels: given, points, unit } = record(
    { query: QUERY, epsilon: EPSILON, low: BOUND, high: BOUND, levels: list(level, 1, 13) },
    { points: choice(true), unit: choice("day", "second") },
  )(data, "protocol");
  const within = between(low, high);
  const levels = given.map(({ buckets, cell, down }) => ({ cell, copies: buckets, up: cell.upLoss, down }));
  if (levels.some(({ copies }, i) => i && (copies % levels[i - 1]!.copies || copies === levels[i - 1]!.copies)))
    bad("Each level's number of buckets must divide the next one's");
  const whole53 = ([n, d]: Rational): boolean => d === 1n && Number.isSafeInteger(Number(n));
  if ((unit && !points) || (points && !(whole53(low) && whole53(high)))) bad("Points need whole bounds");
  const bins = levels.at(-1)!.copies;
  const dates = unit && ([dateText(low, unit), dateText(high, unit)] as const);

  function bin(value: Answer): number {
    if (!points) {
      const [n, d] = over(times(subtract(within(value), low), rational(bins)), subtract(high, low));
      return Math.min(Number(floor(n, d)), bins - 1);
    }
    const place = unit ? dateNumber(value, unit) : value;
    if (!Number.isSafeInteger(place) || BigInt(place as number) < low[0] || BigInt(place as number) > high[0])
      wrong(dates ? `a date from ${dates[0]} to ${dates[1]}` : `a whole number from ${low[0]} to ${high[0]}`);
    const group = -floor(-(high[0] - low[0] + 1n), BigInt(bins));
    return Number((BigInt(place as number) - low[0]) / group);
  }

  return {
    uses: levels,
    loss: sum(levels.map(({ up, down }) => add(up, down))),
    lossRule: "sum over levels of up + down",
    allowsTopUp: false,
    values: dates
      ? { kind: "date", least: dates[0], most: dates[1], unit: unit! }
      : points
        ? { kind: "whole", least: Number(low[0]), most: Number(high[0]) }
        : { kind: "number", least: text(low), most: text(high) },
    encode(value) {
      const place = bin(value);
      return [
        levels.flatMap(({ copies }) => {
          const held = Math.floor(place / (bins / copies));
          return Array.from({ length: copies }, (_, bucket) => Number(bucket === held));
        }),
      ];
    },
  };
};

export const READERS: Readers = { "real-sum": reals, quantiles };
