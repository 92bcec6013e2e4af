/** The bounded cell: its noise is cut off, so that a user sends a limited number of messages
 * (docs/mathematics.md, "The bounded cell"). */
import { bad, notPrivate } from "../errors.js";
import {
  add,
  gcd,
  holds,
  ONE,
  over,
  same,
  times,
  ZERO,
  type Rational,
} from "../numbers/rational.js";
import { CutNoise, draw, finite, zeroWith, type Law, type Words } from "../numbers/sampling.js";
import { choice, exactly, list, record, whole } from "../schema.js";
import {
  EPSILON,
  needsExactPadding,
  USERS,
  type CellKind,
  type IndependentCell,
  type StatedProof,
} from "./base.js";
import { lostOdds, proveDirection, type Direction } from "./boundedProof.js";

const CUT = whole(0, 65535);
/** Exact operations of a direction's proof for each value of its noise, about. */
const STEPS_PER_CUT = 20;
/** Bits that an operation takes at the usual price. */
const STEP_BITS = 256;
const DIRECTION = record(
  {
    epsilon: EPSILON,
    decay: exactly(ZERO, ONE),
    cut: CUT,
    muted_cut: CUT,
    odds: list(exactly(ZERO, [10n ** 30n, 1n]), 1, 65535),
  },
  { ratio: exactly(ZERO, ONE) },
);
const BOUNDED = record({
  kind: choice("bounded"),
  users: USERS,
  largest: whole(1, 65535),
  up: DIRECTION,
  down: DIRECTION,
});

export class BoundedCell implements IndependentCell {
  readonly kind = "bounded";
  readonly absentValue = 0;
  readonly users: number;
  readonly largest: number;
  readonly up: Direction;
  readonly down: Direction;
  readonly upLoss: Rational;
  readonly mostMessages: number;
  readonly leastMessages = 0;
  readonly messageLaws = needsExactPadding("bounded");
  readonly proofSteps: number;
  private readonly base: number;
  private readonly mute: Law;
  /** The branches of a muted user with the value 0, and with a larger one. */
  private readonly jumps: readonly [Law, Law];
  /** The odds of all branches for both, as whole numbers, where sending the value has `scale`. */
  readonly weights: readonly [readonly bigint[], readonly bigint[]];
  readonly scale: bigint;
  readonly noise: {
    readonly up: CutNoise;
    readonly upMuted: CutNoise;
    readonly down: CutNoise;
    readonly downMuted: CutNoise;
  };

  constructor({ users, largest, up, down }: ReturnType<typeof BOUNDED>) {
    this.users = users;
    this.largest = largest;
    this.up = up;
    this.down = down;
    this.upLoss = up.epsilon;
    this.base = down.cut + down.muted_cut;
    this.mostMessages = up.cut + up.muted_cut + this.base + largest;
    this.proofSteps = steps(up) + steps(down);
    const law = ({ decay }: Direction, cut: number) =>
      new CutNoise([1n, BigInt(users)], decay, cut);
    this.noise = {
      up: law(up, up.cut),
      upMuted: law(up, up.muted_cut),
      down: law(down, down.cut),
      downMuted: law(down, down.muted_cut),
    };
    const zero = [...up.odds, ...reduced(down)];
    const above = [...reduced(up), ...down.odds];
    this.scale = commonDenominator([...zero, ...above]);
    const whole = (odds: readonly Rational[]) => odds.map(([n, d]) => (n * this.scale) / d);
    this.weights = [whole(zero), whole(above)];
    this.jumps = [finite(this.weights[0]), finite(this.weights[1])];
    this.mute = zeroWith(over(ONE, zero.reduce(add, ONE))); // 0: the user sends the value
  }

  prove(up: Rational, down: Rational): void {
    for (const [{ ratio = ONE }, { decay }] of [
      [this.up, this.down],
      [this.down, this.up],
    ] as const)
      if (!holds("ratio", decay, ratio))
        notPrivate("a direction's ratio is below the other one's decay");
    if (!same(lostOdds(this.up), lostOdds(this.down)))
      notPrivate("users with one value are muted more often than others");
    proveDirection(this.up, this, up);
    proveDirection(this.down, this, down);
  }

  /** The last two are for cells that are made of one like this: their most messages, and the rule
   * upwards. */
  agrees(proof: StatedProof, most = this.mostMessages, upwards?: readonly string[]): boolean {
    const rule = (side: "up" | "down", rules?: readonly string[]): boolean =>
      (
        rules ??
        (this[side].cut === this[side].muted_cut ? ["equal cuts"] : ["closed form", "per index"])
      ).includes(proof[side]?.rule as string);
    return proof.most_messages === most && rule("up", upwards) && rule("down");
  }

  randomize(value: number, words: Words): readonly [number, number] {
    let { up, down } = this.noise;
    let v = value;
    if (draw(this.mute, words)) {
      const branch = draw(this.jumps[value ? 1 : 0], words);
      if (branch < this.largest) {
        v = this.up.cut + branch + 1;
        up = this.noise.upMuted; // muted upwards: its noise upwards is cut shorter
      } else {
        v = 2 * this.largest - this.down.cut - branch - 1; // D − z_d − y, y = branch − D + 1
        down = this.noise.downMuted;
      }
    }
    const plus = draw(up, words);
    return [this.base + v + plus - draw(down, words), 0];
  }
}

/** The odds of users whose value cannot change in this direction. */
const reduced = ({ odds, ratio = ONE }: Direction): readonly Rational[] =>
  odds.map((one) => times(ratio, one));

/** About how many operations the proof of a direction takes. Its numbers have more bits the further
 * the noise has fallen. */
function steps({ decay: [n, d], cut, odds }: Direction): number {
  const bitsLost = -Math.log2(Number((n << 64n) / d) / 2 ** 64) * cut;
  return STEPS_PER_CUT * (cut + odds.length) * (1 + bitsLost / STEP_BITS);
}

/** The least common denominator; too large a one is cut short, and refused by `read`. */
function commonDenominator(odds: readonly Rational[]): bigint {
  let found = 1n;
  for (const [, d] of odds) if ((found = (found / gcd(found, d)) * d) >> 8192n) break;
  return found;
}

export const boundedCell: CellKind = {
  kind: "bounded",
  read(data, name) {
    const cell = BOUNDED(data, name);
    for (const { decay, cut, muted_cut, odds, ratio } of [cell.up, cell.down])
      if (
        decay[0] === 0n ||
        (ratio && (ratio[0] === 0n || ratio[0] === ratio[1] || cell.largest > 1)) ||
        decay[0] === decay[1] ||
        muted_cut > cut ||
        odds.length !== cell.largest ||
        odds.some(([n]) => n === 0n) ||
        commonDenominator(odds) >> 4096n
      )
        bad(
          `${name} needs 0 < decay < 1, muted_cut up to cut, and ${cell.largest} short odds above 0`,
        );
    return new BoundedCell(cell);
  },
};
