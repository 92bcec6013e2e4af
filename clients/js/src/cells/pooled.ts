/** Pooled cells: the buckets of a histogram share one noise upwards (docs/protocol.md, "The pooled
 * cell"; docs/mathematics.md, "Histograms with one way up"). Loaded only for tasks that have one. */
import { bad, notPrivate } from "../errors.js";
import {
  add,
  holds,
  ONE,
  over,
  rational,
  subtract,
  times,
  type Rational,
} from "../numbers/rational.js";
import { above } from "../numbers/rounding.js";
import { CutNoise, draw, zeroWith, type Law, type Words } from "../numbers/sampling.js";
import { anything, choice, record, whole } from "../schema.js";
import {
  needsExactPadding,
  USERS,
  type Cell,
  type CellGroup,
  type CellUse,
  type GroupKind,
  type Messages,
  type StatedProof,
} from "./base.js";
import { boundedCell, type BoundedCell } from "./bounded.js";
import { proveDirection, proveLoss } from "./boundedProof.js";
import { urn } from "./urn.js";

const POOLED = record({
  kind: choice("pooled"),
  users: USERS,
  buckets: whole(1, 10 ** 6),
  up: anything,
  down: anything,
});

export class PooledCell implements Cell {
  readonly kind = "pooled";
  readonly largest = 1;
  readonly absentValue = 0;
  readonly users: number;
  readonly upLoss: Rational;
  readonly proofSteps: number;
  readonly mostMessages: number;

  constructor(
    /** The bounded cell with the same directions, noises downwards and limits. */
    readonly bounded: BoundedCell,
    readonly buckets: number,
  ) {
    const { users, up, down, upLoss, proofSteps } = bounded;
    this.users = users;
    this.upLoss = upLoss;
    this.proofSteps = proofSteps;
    this.mostMessages = buckets * (down.cut + down.muted_cut) + 2 * up.cut + 1;
  }

  prove(upLoss: Rational, downLoss: Rational): void {
    const { up, down } = this.bounded;
    if (!holds("ratio", up.decay, down.ratio ?? ONE))
      notPrivate("the ratio downwards is below the decay upwards");
    proveLoss(up, 1, upLoss);
    if (!holds("drop", this.dropClaim(), ONE))
      notPrivate("labels are dropped too rarely for the cut of the noise upwards");
    proveDirection(down, this, downLoss);
  }

  /** At least β_d·m·s_(Z+1)/((1 − β_u·β_d)·R), where s_(t+1)/s_t = β_u(B + t·m)/(m(t + 1)). */
  private dropClaim(): Rational {
    const { up, down } = this.bounded;
    const [m, b] = [BigInt(this.users), BigInt(this.buckets)];
    const spare = subtract(ONE, times(up.decay, down.decay));
    let claim = above(over(times(down.decay, [m, 1n]), times(spare, up.odds[0]!)));
    for (let t = 0n; t <= up.cut; t++)
      claim = above(times(claim, times(up.decay, [b + t * m, m * (t + 1n)])));
    return claim;
  }

  agrees({ most_messages, up, down }: StatedProof): boolean {
    const below = this.bounded.agrees({
      most_messages: this.bounded.mostMessages,
      up: { rule: "equal cuts" },
      down: down ?? {},
    });
    return most_messages === this.mostMessages && up?.rule === "pooled way up" && below;
  }
}

/** 1 with these odds, against 1 for 0. */
const withOdds = (odds: Rational): Law => zeroWith(over(ONE, add(ONE, odds)));

/** All buckets of a pooled cell; a user's value is the number of its bucket. */
export class PooledBuckets implements CellGroup {
  readonly uses: readonly CellUse<PooledCell>[];
  readonly counters: number;
  readonly mostMessages: number;
  readonly leastMessages: number;
  readonly messageLaws = needsExactPadding("pooled");
  private readonly drop: Law;
  private readonly tokens: Law;
  /** The jumps downwards of buckets that hold 0, and 1. */
  private readonly jumps: readonly [Law, Law];

  constructor(private readonly cell: PooledCell) {
    const { bounded, buckets, users, upLoss: up } = cell;
    this.uses = [{ cell, copies: buckets, up, down: bounded.down.epsilon }];
    this.counters = buckets;
    this.mostMessages = this.leastMessages = cell.mostMessages;
    const { odds, ratio = ONE } = bounded.down;
    this.drop = withOdds(bounded.up.odds[0]!);
    this.jumps = [withOdds(times(ratio, odds[0]!)), withOdds(odds[0]!)];
    this.tokens = new CutNoise(rational(buckets, users), bounded.up.decay, bounded.up.cut);
  }

  draw([label]: readonly number[], words: Words): Messages {
    const { up, down, noise } = this.cell.bounded;
    const kept = !draw(this.drop, words);
    const dealt = kept ? [] : urn(this.cell, up.cut + 1, words);
    dealt.push(...urn(this.cell, draw(this.tokens, words), words));
    const sent = Array<number>(this.counters).fill(0);
    for (const bucket of dealt) sent[bucket]!++;
    const plus: number[] = [];
    sent.forEach((count, bucket) => {
      const value = Number(kept && bucket === label);
      if (draw(this.jumps[value]!, words)) count += down.muted_cut - draw(noise.downMuted, words);
      else count += down.cut + down.muted_cut + value - draw(noise.down, words);
      for (let i = 0; i < count; i++) plus.push(bucket);
    });
    return [plus, []];
  }
}

export const kind = {
  read(data, name) {
    const { users, buckets, up, down } = POOLED(data, name);
    const bounded = boundedCell.read({ kind: "bounded", users, largest: 1, up, down }, name);
    const found = bounded as BoundedCell;
    if (found.up.cut !== found.up.muted_cut || found.up.ratio)
      bad(`${name} needs equal cuts and no ratio upwards`);
    if (buckets + found.up.cut * users > 2 ** 53) bad(`${name} has too long a cut upwards`);
    return new PooledBuckets(new PooledCell(found, buckets));
  },
} satisfies GroupKind;
