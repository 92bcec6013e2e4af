/** Sparse cells: any number of buckets, at most Z+1 messages per user (docs/protocol.md, "The sparse
 * cell"; docs/mathematics.md, "Sparse histograms"). Loaded only for tasks that have one. */
import { bad, notPrivate } from "../errors.js";
import {
  add,
  atMost,
  holds,
  ONE,
  rational,
  same,
  subtract,
  text,
  times,
  ZERO,
  type Rational,
} from "../numbers/rational.js";
import { exponentialBelow } from "../numbers/rounding.js";
import { CutNoise, draw, finite, type Law, type Words } from "../numbers/sampling.js";
import { choice, exactly, record, whole } from "../schema.js";
import {
  EPSILON,
  USERS,
  type Cell,
  type CellGroup,
  type CellUse,
  type GroupKind,
  type MessageLaws,
  type Messages,
} from "./base.js";
import { urn } from "./urn.js";

const CHANCE = exactly(ZERO, ONE);
const SPARSE = record({
  kind: choice("sparse"),
  users: USERS,
  buckets: whole(1, 1 << 26),
  epsilon: EPSILON,
  decay: CHANCE,
  cut: whole(0, 1023),
  share: CHANCE,
  data: CHANCE,
  muted: CHANCE,
  jump: CHANCE,
});
type Parameters = ReturnType<typeof SPARSE>;

const SHORT = 256n;
const JUMP = 2;
/** About how many operations of a proof a step of the cut counts as. */
const STEPS_PER_CUT = 64;

export class SparseCell implements Cell {
  readonly kind = "sparse";
  readonly largest = 1;
  readonly absentValue = 0;
  readonly users: number;
  readonly upLoss: Rational;
  readonly proofSteps: number;

  constructor(readonly given: Parameters) {
    this.users = given.users;
    this.proofSteps = STEPS_PER_CUT * (given.cut + 1);
    this.upLoss = given.epsilon;
  }

  /** Replacing any value, or none, costs at most ε if p·m·s ≤ φ·o·β·(e^ε − 1) with
   * s = s_(Z+1)/C, and p·m ≤ (m − φ(m − 1))·q·β·(e^ε − 1). */
  prove(up: Rational, down: Rational): void {
    const { epsilon, decay, share, data, muted, jump } = this.given;
    if (!holds("loss", epsilon, up) || !atMost(epsilon, down))
      notPrivate("a replacement costs more than is allowed");
    const price = times(decay, subtract(exponentialBelow(epsilon), ONE));
    const users = rational(this.users);
    const claimed = times(times(data, users), this.spill());
    if (!holds("spill", claimed, times(times(share, jump), price)))
      notPrivate("there are too few jumps for the cut of the noise");
    const left = subtract(users, times(share, rational(this.users - 1)));
    if (!holds("cover", times(data, users), times(times(left, muted), price)))
      notPrivate("too few users are muted");
  }

  /** s_(Z+1)/C, where s_(J+1)/s_J = β(B + J·m)/(m(J + 1)). */
  private spill(): Rational {
    const { buckets, users, decay, cut } = this.given;
    const [m, b] = [BigInt(users), BigInt(buckets)];
    let [mass, sum] = [1n, 1n]; // over one denominator
    for (let j = 0n; j < cut; j++) {
      mass *= decay[0] * (b + j * m);
      sum = sum * decay[1] * m * (j + 1n) + mass;
    }
    const last = BigInt(cut);
    return [mass * decay[0] * (b + last * m), sum * decay[1] * m * (last + 1n)];
  }

  agrees({ rule, replacement }: { rule?: unknown; replacement?: unknown }): boolean {
    return rule === "sparse histogram" && replacement === text(this.upLoss);
  }
}

/** All buckets of a sparse cell; a user's value is the number of its bucket. */
export class SparseBuckets implements CellGroup {
  readonly uses: readonly CellUse<SparseCell>[];
  readonly counters: number;
  readonly mostMessages: number;
  readonly leastMessages: number;
  private readonly branches: Law;
  private readonly noise: Law;

  constructor(private readonly cell: SparseCell) {
    const { users, buckets, cut, decay, data, muted, jump } = cell.given;
    this.uses = [{ cell, copies: buckets, up: cell.upLoss, down: cell.upLoss }];
    this.counters = buckets;
    this.mostMessages = this.leastMessages = cut + 1;
    const scale = data[1] * muted[1] * jump[1];
    this.branches = finite([data, muted, jump].map(([n, d]) => (n * scale) / d));
    this.noise = new CutNoise(rational(buckets, users), decay, cut);
  }

  draw([value]: readonly number[], words: Words): Messages {
    const branch = draw(this.branches, words);
    const noise = branch === JUMP ? this.mostMessages : draw(this.noise, words);
    const plus = urn(this.cell.given, noise, words);
    if (branch === 0) plus.push(value!);
    return [plus.sort((a, b) => a - b), []]; // messages are in the order of the counters
  }

  messageLaws(): Promise<MessageLaws> {
    return bad("Sparse cells need exact padding");
  }
}

export const kind = {
  read(data, name) {
    const cell = SPARSE(data, name);
    const { decay, share, data: p, muted, jump } = cell;
    if (
      same(decay, ONE) ||
      [decay, share, p, muted, jump].some(([n, d]) => n === 0n || d >> SHORT) ||
      !same(add(add(p, muted), jump), ONE)
    )
      bad(`${name} needs chances above 0 that add up to 1, and short decimals`);
    return new SparseBuckets(new SparseCell(cell));
  },
} satisfies GroupKind;
