/** Shared cells: the digits of real sums with short reports, drawn together because they share the
 * noise upwards (docs/protocol.md, "The shared cell"; docs/mathematics.md, "Cells that share their
 * way up"). Loaded only for tasks that have them. */
import { bad, notPrivate } from "../errors.js";
import {
  add,
  atMost,
  gcd,
  holds,
  ONE,
  over,
  rational,
  same,
  subtract,
  times,
  ZERO,
  type Rational,
} from "../numbers/rational.js";
import { above, power } from "../numbers/rounding.js";
import { draw, finite, uniform, zeroWith, type Law, type Words } from "../numbers/sampling.js";
import { exactly, list, record, whole } from "../schema.js";
import {
  needsExactPadding,
  type CellGroup,
  type CellUse,
  type GroupKind,
  type Messages,
  type StatedProof,
} from "./base.js";
import { boundedCell, type BoundedCell } from "./bounded.js";
import { proveDirection } from "./boundedProof.js";

const ODDS = exactly(ZERO, [10n ** 30n, 1n]);
/** What each cell states about all cells of its group; `Digits` checks that it is true. */
const TOGETHER = record({
  cells: whole(2, 24),
  others: whole(1, 1 << 24),
  decay: exactly(ZERO, ONE),
  other_odds: ODDS,
  stray_odds: list(ODDS, 1, 23),
});

/** n(n−1)⋯(n−k+1)/k! */
function choose(n: number, k: number): bigint {
  let found = 1n;
  for (let i = 0; i < k; i++) found = (found * BigInt(n - i)) / BigInt(i + 1);
  return found;
}

const total = (numbers: readonly bigint[]): bigint => numbers.reduce((all, one) => all + one, 0n);

/** Odds as whole numbers, and the factor by which they were multiplied. */
function scaled(odds: readonly Rational[]): readonly [weights: bigint[], scale: bigint] {
  let scale = 1n;
  for (const [, d] of odds) scale = (scale / gcd(scale, d)) * d;
  return [odds.map(([n, d]) => (n * scale) / d), scale];
}

/** Whether a user jumps (0: odds 1, 1: all of these odds together), and which jump it is. */
function jumpLaws(odds: readonly Rational[]): { readonly mute: Law; readonly jumps: Law } {
  const [weights, scale] = scaled(odds);
  return { mute: zeroWith([scale, scale + total(weights)]), jumps: finite(weights) };
}

/** A shared cell; `bounded` is the bounded cell with the same directions, noises and limits. */
function sharedCell(bounded: BoundedCell, together: ReturnType<typeof TOGETHER>) {
  const { users, largest, upLoss, up, down, proofSteps, mostMessages } = bounded;
  return {
    kind: "shared",
    absentValue: 0,
    users,
    largest,
    upLoss,
    bounded,
    together,
    base: down.cut + down.muted_cut,
    down: jumpLaws(down.odds),
    proofSteps: 2 * proofSteps,

    prove(most: Rational, mostDown: Rational): void {
      // each combination of the other digits gets a share of a jump
      const others = rational(together.others);
      const shares = { ...up, odds: up.odds.map((one) => over(one, others)) };
      proveDirection(shares, { users, largest }, most);
      if (!straysHold(bounded, together)) notPrivate("the odds of stray jumps are too small");
      proveDirection(down, { users, largest }, mostDown);
    },

    /** There are 2Z messages upwards, and one more after a jump. */
    agrees: (proof: StatedProof): boolean =>
      bounded.agrees(proof, mostMessages + 1, ["shared way up"]),
  };
}
type SharedCell = ReturnType<typeof sharedCell>;

/** Whether users·(r·ρ)^q·β^(Z+1)·C(k,q)·C(Z,q−1)·N(D+1) ≤ (Z+2−q)·(1 − β_s^D)·s_q for every
 * q = 2..k, where β is the largest of all cells, β_s this one's, ρ = (1+r)(1+r/2)⋯(1+r/Z) and
 * r = 1/users. */
function straysHold(
  { users, largest: d, up: { cut: z, decay } }: BoundedCell,
  together: ReturnType<typeof TOGETHER>,
): boolean {
  let part = rational(1, users); // r·ρ
  for (let i = 1; i <= z; i++)
    part = above(times(part, add(ONE, rational(1n, BigInt(users) * BigInt(i)))));
  const all = times(
    power(together.decay, z + 1),
    rational(BigInt(users) * BigInt(together.others) * BigInt(d + 1)),
  );
  const spare = subtract(ONE, power(decay, d));
  return together.stray_odds.every((odds, i) => {
    const q = i + 2;
    const ways = rational(choose(together.cells, q) * choose(z, q - 1));
    return holds(
      `stray ${q}`,
      times(times(all, power(part, q)), ways),
      times(times(rational(z + 2 - q), spare), odds),
    );
  });
}

/** The digits of one value, drawn together. */
export class Digits implements CellGroup {
  readonly uses: readonly CellUse<SharedCell>[];
  readonly counters: number;
  readonly mostMessages: number;
  readonly leastMessages = 0;
  readonly messageLaws = needsExactPadding("shared");
  private readonly cut: number;
  private readonly up: { readonly mute: Law; readonly jumps: Law };
  /** The branches in which one cell jumps: the cell, and the value that it takes. */
  private readonly own: readonly (readonly [cell: number, value: number])[];

  constructor(private readonly cells: readonly SharedCell[]) {
    this.checkTogether();
    const { bounded, together } = cells[0]!;
    this.cut = bounded.up.cut;
    this.uses = cells.map((cell) => ({ cell, copies: 1, up: cell.upLoss, down: cell.upLoss }));
    this.counters = cells.length;
    const below = cells.reduce((all, { base, largest }) => all + base + largest, 0);
    this.mostMessages = below + 2 * this.cut + 1;
    this.own = cells.flatMap(({ largest }, cell) =>
      Array.from({ length: largest }, (_, value) => [cell, value] as const),
    );
    this.up = jumpLaws([...cells.flatMap((one) => one.bounded.up.odds), ...together.stray_odds]);
  }

  /** Throws unless what each cell states about the others is true. */
  private checkTogether(): void {
    const { cells } = this;
    const { cut } = cells[0]!.bounded.up;
    const strays = cells[0]!.together.stray_odds;
    const [weights, scale] = scaled(cells.flatMap(({ bounded }) => bounded.up.odds));
    const codes = cells.reduce((all, { largest }) => all * (largest + 1), 1);
    let begin = 0;
    for (const { bounded, together, largest } of cells) {
      const own = total(weights.slice(begin, (begin += largest)));
      if (
        together.cells !== cells.length ||
        together.others * (largest + 1) !== codes ||
        !cells.every(({ bounded: { up } }) => atMost(up.decay, together.decay)) ||
        !cells.some(({ bounded: { up } }) => same(up.decay, together.decay)) ||
        !same(together.other_odds, [total(weights) - own, scale]) ||
        together.stray_odds.length !== cells.length - 1 ||
        !together.stray_odds.every((odds, i) => same(odds, strays[i]!)) ||
        bounded.up.cut !== cut ||
        bounded.up.muted_cut !== cut ||
        cut < cells.length
      )
        bad("The digits state different users, cuts, odds or numbers of values about each other");
    }
  }

  draw(values: readonly number[], words: Words): Messages {
    const plus = this.counts(values, words).flatMap((count, cell) =>
      Array<number>(count).fill(cell),
    );
    return [plus, []];
  }

  /** How many messages a user with these values sends to each cell. */
  private counts(values: readonly number[], words: Words): number[] {
    const { cells, up } = this;
    const [held, added] = draw(up.mute, words)
      ? this.jump(draw(up.jumps, words), words)
      : [values, cells.map(() => 0)];
    let noise: number[];
    do noise = cells.map(({ bounded }) => draw(bounded.noise.up, words));
    while (noise.reduce((all, one) => all + one) > this.cut);
    return cells.map(({ bounded, base, largest, down }, cell) => {
      const jumped = draw(down.mute, words);
      const value = jumped ? largest - bounded.down.cut - draw(down.jumps, words) - 1 : held[cell]!;
      const less = draw(jumped ? bounded.noise.downMuted : bounded.noise.down, words);
      return base + value - less + added[cell]! + noise[cell]!;
    });
  }

  /** Values that do not depend on the user's own, and additions of Z + 1 in all. */
  private jump(branch: number, words: Words): readonly [values: number[], added: number[]] {
    const { cells, cut, own } = this;
    const added = cells.map(() => 0);
    const [jumping, value] = own[branch] ?? [-1, 0];
    if (jumping < 0)
      this.stray(branch - own.length + 2, words).forEach(([cell, part]) => (added[cell] = part));
    else added[jumping] = cut + 1;
    const values = cells.map(({ largest }, cell) =>
      cell === jumping ? value : uniform(BigInt(largest + 1), words),
    );
    return [values, added];
  }

  /** Which cells get how much: Z + 1 in `parts` parts above 0. */
  private stray(parts: number, words: Words): (readonly [cell: number, part: number])[] {
    const { cut } = this;
    const { length } = this.cells;
    let left = uniform(choose(length, parts), words); // among all choices, in lexicographic order
    const chosen: number[] = [];
    for (let cell = 0; chosen.length < parts; cell++) {
      const here = Number(choose(length - cell - 1, parts - chosen.length - 1)); // with this cell
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

function readCell(data: unknown, name: string): SharedCell {
  const { kind, together, ...rest } = (data ?? {}) as { kind?: unknown; together?: unknown };
  if (kind !== "shared") bad("Either all digits are shared cells or none is");
  const cell = boundedCell.read({ kind: "bounded", ...rest }, name);
  if (cell.up.ratio || cell.down.ratio) bad("The odds of shared cells do not depend on the value");
  return sharedCell(cell, TOGETHER(together, `${name}.together`));
}

export const kind = {
  read: (data, name) => new Digits(list(readCell, 2, 24)(data, name)),
} satisfies GroupKind;
