/** Cells that share their way up: the digits of real sums whose reports are to be short (docs/mathematics.md,
 * "Cells that share their way up"). Loaded only for tasks that have them. */
import { boundedCell, type BoundedCell, type Cell, type MessageLaws } from "./cells.js";
import { fail } from "./errors.js";
import { above, power, proveDirection } from "./proof.js";
import { bad, type Reader } from "./questions.js";
import { add, atMost, gcd, ONE, over, rational, subtract, times, ZERO, type Rational } from "./rational.js";
import { draw, finite, zeroWith, type Law, type Words } from "./sampling.js";
import { exactly, list, record, whole } from "./schema.js";

const ODDS = exactly(ZERO, [10n ** 30n, 1n]);
/** What a cell says about all cells that share their way up, itself included; `Group` holds it against the truth. */
const TOGETHER = record({
  cells: whole(2, 24),
  others: whole(1, 1 << 24),
  decay: exactly(ZERO, ONE),
  other_odds: ODDS,
  stray_odds: list(ODDS, 1, 23),
});

const same = (a: Rational, b: Rational): boolean => a[0] * b[1] === b[0] * a[1];

/** n(n−1)⋯(n−k+1)/k! */
function choose(n: number, k: number): bigint {
  let found = 1n;
  for (let i = 0; i < k; i++) found = (found * BigInt(n - i)) / BigInt(i + 1);
  return found;
}

/** One exact draw of the uniform law on 0..size − 1. */
export function uniform(size: bigint, words: Words): number {
  for (let [value, bits] = [words(), 64n]; ; value = (value << 64n) | words(), bits += 64n) {
    const found = (value * size) >> bits;
    if ((found + 1n) << bits >= (value + 1n) * size) return Number(found);
  }
}

/** Odds as whole numbers, and the one by which all were multiplied. */
function scaled(odds: readonly Rational[]): readonly [weights: bigint[], scale: bigint] {
  let scale = 1n;
  for (const [, d] of odds) scale = (scale / gcd(scale, d)) * d;
  return [odds.map(([n, d]) => (n * scale) / d), scale];
}

/** 0 with the odds 1, 1 with all of these odds together; and then which one of them. */
function jumpLaws(odds: readonly Rational[]): { readonly mute: Law; readonly jumps: Law } {
  const [weights, scale] = scaled(odds);
  return { mute: zeroWith([scale, weights.reduce((all, one) => all + one, scale)]), jumps: finite(weights) };
}

export class SharedCell implements Cell {
  readonly kind = "shared";
  readonly absentValue = 0;
  readonly users: number;
  readonly largest: number;
  readonly upLoss: Rational;
  readonly base: number;
  readonly down: { readonly mute: Law; readonly jumps: Law };
  /** Of what a user sends at most to all cells; the first one counts their way up. */
  mostMessages: number;

  constructor(
    /** Its directions, noises and limits are those of a bounded cell. */
    readonly bounded: BoundedCell,
    readonly together: ReturnType<typeof TOGETHER>,
  ) {
    const { users, largest, upLoss, down } = bounded;
    [this.users, this.largest, this.upLoss] = [users, largest, upLoss];
    this.base = down.cut + down.muted_cut;
    this.down = jumpLaws(down.odds);
    this.mostMessages = this.base + largest;
  }

  prove(upLoss: Rational, downLoss: Rational): void {
    const { users, largest, together } = this;
    const { up, down } = this.bounded;
    const others = rational(together.others); // each of their combinations gets its part of a jump
    proveDirection({ ...up, odds: up.odds.map((one) => over(one, others)) }, users, largest, upLoss);
    proveDirection(down, users, largest, downLoss);
    if (!this.straysHold())
      fail("privacy", "The task's parameters are not private: the odds of stray jumps are too small. Do not answer it.");
  }

  /** Whether users·(r·ρ)^q·β^(Z+1)·C(k,q)·C(Z,q−1)·N(D+1) ≤ (Z+2−q)·(1 − β_s^D)·s_q for every q = 2..k, where β
   * is the largest of all cells, β_s this one's, ρ = (1+r)(1+r/2)⋯(1+r/Z) and r = 1/users. */
  private straysHold(): boolean {
    const { users, largest: d, together } = this;
    const { cut: z, decay } = this.bounded.up;
    let part = rational(1, users); // r·ρ
    for (let i = 1; i <= z; i++) part = above(times(part, add(ONE, rational(1n, BigInt(users) * BigInt(i)))));
    const all = times(power(together.decay, z + 1), rational(BigInt(users) * BigInt(together.others) * BigInt(d + 1)));
    const spare = subtract(ONE, power(decay, d));
    return together.stray_odds.every((odds, i) => {
      const q = i + 2;
      const ways = rational(choose(together.cells, q) * choose(z, q - 1));
      return atMost(times(times(all, power(part, q)), ways), times(times(rational(z + 2 - q), spare), odds));
    });
  }

  agrees({ most_messages, up, down }: { most_messages?: unknown; up?: { rule?: unknown }; down?: { rule?: unknown } }): boolean {
    const alone = this.bounded.mostMessages; // 2Z upwards, and one more after a jump
    const below = this.bounded.agrees({ most_messages: alone, up: { rule: "equal cuts" }, down: down ?? {} });
    return most_messages === alone + 1 && up?.rule === "shared way up" && below;
  }

  /** All cells were drawn together when the value was encoded (`Group.draw`): what comes is what it sends. */
  randomize(sent: number): readonly [number, number] {
    return [sent, 0];
  }

  messageLaws(): Promise<MessageLaws> {
    return bad("Cells that share their way up need exact padding");
  }
}

/** The cells of one question, which are drawn together. */
export class Group {
  private readonly cut: number;
  private readonly up: { readonly mute: Law; readonly jumps: Law };
  /** The branches in which one cell jumps: the cell, and the value that it takes. */
  private readonly own: readonly (readonly [place: number, value: number])[];

  constructor(private readonly cells: readonly SharedCell[]) {
    const [first] = cells;
    const { cut } = first!.bounded.up;
    const strays = first!.together.stray_odds;
    this.cut = cut;
    this.own = cells.flatMap(({ largest }, place) => Array.from({ length: largest }, (_, value) => [place, value] as const));
    this.up = jumpLaws([...cells.flatMap(({ bounded }) => bounded.up.odds), ...strays]);
    const [weights, scale] = scaled(cells.flatMap(({ bounded }) => bounded.up.odds));
    const codes = cells.reduce((all, { largest }) => all * (largest + 1), 1);
    const total = weights.reduce((all, one) => all + one);
    let begin = 0;
    for (const { bounded, together, largest } of cells) {
      const ownOdds = weights.slice(begin, (begin += largest)).reduce((all, one) => all + one);
      if (
        together.cells !== cells.length || together.others * (largest + 1) !== codes ||
        !cells.every(({ bounded: { up } }) => atMost(up.decay, together.decay)) ||
        !cells.some(({ bounded: { up } }) => same(up.decay, together.decay)) ||
        !same(together.other_odds, [total - ownOdds, scale]) ||
        together.stray_odds.length !== cells.length - 1 || !together.stray_odds.every((odds, i) => same(odds, strays[i]!)) ||
        bounded.up.cut !== cut || bounded.up.muted_cut !== cut || cut < cells.length
      )
        bad("The digits do not share one way up: their users, cuts, odds or numbers of values do not fit together");
    }
    first!.mostMessages += 2 * cut + 1;
  }

  /** How many messages a user with these values sends to each cell. */
  draw(values: readonly number[], words: Words): number[] {
    const { cells, up } = this;
    const [held, added] = draw(up.mute, words) ? this.jump(draw(up.jumps, words), words) : [values, cells.map(() => 0)];
    let noise: number[];
    do noise = cells.map(({ bounded }) => draw(bounded.noise.up, words));
    while (noise.reduce((all, one) => all + one) > this.cut);
    return cells.map(({ bounded, base, largest, down }, place) => {
      const jumped = draw(down.mute, words);
      const value = jumped ? largest - bounded.down.cut - draw(down.jumps, words) - 1 : held[place]!;
      return base + value - draw(jumped ? bounded.noise.downMuted : bounded.noise.down, words) + added[place]! + noise[place]!;
    });
  }

  /** Values that say nothing about the user's own, and additions of Z + 1 in all. */
  private jump(branch: number, words: Words): readonly [values: number[], added: number[]] {
    const { cells, cut, own } = this;
    const added = cells.map(() => 0);
    const [place, value] = own[branch] ?? [-1, 0];
    if (place < 0) this.stray(branch - own.length + 2, words).forEach(([cell, part]) => (added[cell] = part));
    else added[place] = cut + 1;
    return [cells.map(({ largest }, cell) => (cell === place ? value : uniform(BigInt(largest + 1), words))), added];
  }

  /** Which cells get something, and how much: Z + 1 in so many parts above 0. */
  private stray(parts: number, words: Words): (readonly [cell: number, part: number])[] {
    const { cells: { length }, cut } = this;
    let left = uniform(choose(length, parts), words); // the place among all choices, in lexicographic order
    const chosen: number[] = [];
    for (let cell = 0; chosen.length < parts; cell++) {
      const here = Number(choose(length - cell - 1, parts - chosen.length - 1)); // choices with this cell
      if (left < here) chosen.push(cell);
      else left -= here;
    }
    let ends: number[];
    do ends = Array.from({ length: parts - 1 }, () => uniform(BigInt(cut), words) + 1);
    while (new Set(ends).size < ends.length);
    ends = [0, ...ends.sort((a, b) => a - b), cut + 1];
    return chosen.map((cell, i) => [cell, ends[i + 1]! - ends[i]!] as const);
  }
}

/** A cell that shares its way up, from a task. */
export function readShared(data: unknown, name: string): SharedCell {
  const { kind, together, ...rest } = (data ?? {}) as { kind?: unknown; together?: unknown };
  if (kind !== "shared") bad("Either all digits share their way up or none does");
  const cell = boundedCell.read({ kind: "bounded", ...rest }, name) as BoundedCell;
  return new SharedCell(cell, TOGETHER(together, `${name}.together`));
}

/** How to read real sums whose digits share their way up. */
export const sharing = (reals: Reader): Reader => (data) => {
  const cells: SharedCell[] = [];
  const found = reals(data, (one, name) => {
    cells.push(readShared(one, name));
    return cells.at(-1)!;
  });
  const group = new Group(cells);
  return {
    ...found,
    async encode(value, words) {
      const [held, ...more] = await found.encode(value, words);
      return [group.draw(held, words), ...more];
    },
  };
};
