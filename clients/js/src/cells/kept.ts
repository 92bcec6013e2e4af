/** Kept cells: the labels outside a list of heavy ones; a user may have none of them
 * (docs/protocol.md, "The kept cell"; docs/mathematics.md, "Sparse histograms"). Loaded only for
 * tasks that have one. */
import { bad, notPrivate } from "../errors.js";
import {
  add,
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
const KEPT = record({
  kind: choice("kept"),
  users: USERS,
  buckets: whole(1, 1 << 26),
  up: EPSILON,
  down: EPSILON,
  decay: CHANCE,
  cut: whole(0, 1023),
  data: CHANCE,
  muted: CHANCE,
  jump: CHANCE,
});
type Parameters = ReturnType<typeof KEPT>;

const SHORT = 256n;
const JUMP = 2;
/** About how many operations of a proof a step of the cut counts as. */
const STEPS_PER_CUT = 64;

export class KeptCell implements Cell {
  readonly kind = "kept";
  readonly largest = 1;
  readonly absentValue = 0;
  readonly users: number;
  readonly upLoss: Rational;
  readonly proofSteps: number;

  constructor(readonly given: Parameters) {
    this.users = given.users;
    this.proofSteps = STEPS_PER_CUT * (given.cut + 1);
    this.upLoss = given.up;
  }

  /** A value instead of none costs at most u if p + q·β ≤ e^u·β(p + q) and
   * p·m·s_(Z+1) ≤ (e^u − 1)·β·o; none instead of a value at most d if p + q ≤ e^d·q. */
  prove(up: Rational, down: Rational): void {
    const { decay, data, muted, jump } = this.given;
    if (!holds("loss", this.upLoss, up) || !holds("loss downwards", this.given.down, down))
      notPrivate("a change costs more than is allowed");
    const [taken, given] = [exponentialBelow(this.upLoss), exponentialBelow(this.given.down)];
    const stay = add(data, muted);
    if (!holds("taken", add(data, times(muted, decay)), times(times(taken, decay), stay)))
      notPrivate("too few users are muted for a value instead of none");
    const claimed = times(times(data, rational(this.users)), this.beyond());
    if (!holds("beyond", claimed, times(times(subtract(taken, ONE), decay), jump)))
      notPrivate("there are too few jumps for the cut of the noise");
    if (!holds("muting", stay, times(given, muted)))
      notPrivate("too few users are muted for none instead of a value");
  }

  /** s_(Z+1), where s_(J+1)/s_J = β(B + J·m)/(m(J + 1)). */
  private beyond(): Rational {
    const { buckets, users, decay, cut } = this.given;
    const [m, b] = [BigInt(users), BigInt(buckets)];
    let [mass, scale] = [1n, 1n];
    for (let j = 0n; j <= cut; j++) {
      mass *= decay[0] * (b + j * m);
      scale *= decay[1] * m * (j + 1n);
    }
    return [mass, scale];
  }

  agrees({ rule, up, down }: { rule?: unknown; up?: unknown; down?: unknown }): boolean {
    return (
      rule === "sparse histogram beside exact cells" &&
      up === text(this.upLoss) &&
      down === text(this.given.down)
    );
  }
}

/** All buckets of a kept cell; a user's value is the number of its bucket, or −1 for none. */
export class KeptBuckets implements CellGroup {
  readonly uses: readonly CellUse<KeptCell>[];
  readonly counters: number;
  readonly mostMessages: number;
  readonly leastMessages: number;
  private readonly branches: Law;
  private readonly noise: Law;

  constructor(private readonly cell: KeptCell) {
    const { users, buckets, cut, decay, data, muted, jump, up, down } = cell.given;
    this.uses = [{ cell, copies: buckets, up, down }];
    this.counters = buckets;
    this.mostMessages = this.leastMessages = 2 * cut + 1;
    const scale = data[1] * muted[1] * jump[1];
    this.branches = finite([data, muted, jump].map(([n, d]) => (n * scale) / d));
    this.noise = new CutNoise(rational(buckets, users), decay, cut);
  }

  draw([value]: readonly number[], words: Words): Messages {
    const { given } = this.cell;
    const branch = draw(this.branches, words);
    const plus = urn(given, draw(this.noise, words), words);
    if (branch === JUMP) plus.push(...urn(given, given.cut + 1, words));
    if (branch === 0 && value! >= 0) plus.push(value!);
    return [plus.sort((a, b) => a - b), []]; // messages are in the order of the counters
  }

  messageLaws(): Promise<MessageLaws> {
    return bad("Kept cells need exact padding");
  }
}

export const kind = {
  read(data, name) {
    const cell = KEPT(data, name);
    const { decay, data: p, muted, jump } = cell;
    if (
      same(decay, ONE) ||
      [decay, p, muted, jump].some(([n, d]) => n === 0n || d >> SHORT) ||
      !same(add(add(p, muted), jump), ONE)
    )
      bad(`${name} needs chances above 0 that add up to 1, and short decimals`);
    return new KeptBuckets(new KeptCell(cell));
  },
} satisfies GroupKind;
