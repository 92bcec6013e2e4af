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
import { CutNoise, draw, finite, zeroWith } from "../numbers/sampling.js";
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

export interface BoundedCell extends IndependentCell {
  readonly up: Direction;
  readonly down: Direction;
  /** What is drawn in each direction, also by muted users. */
  readonly noise: Readonly<Record<"up" | "upMuted" | "down" | "downMuted", CutNoise>>;
  /** The last two are for cells that are made of one like this: their most messages, and the rule
   * upwards. */
  agrees(proof: StatedProof, most?: number, upwards?: readonly string[]): boolean;
}

function cellOf({ users, largest, up, down }: ReturnType<typeof BOUNDED>): BoundedCell {
  const base = down.cut + down.muted_cut;
  const mostMessages = up.cut + up.muted_cut + base + largest;
  const law = ({ decay }: Direction, cut: number) => new CutNoise([1n, BigInt(users)], decay, cut);
  const noise = {
    up: law(up, up.cut),
    upMuted: law(up, up.muted_cut),
    down: law(down, down.cut),
    downMuted: law(down, down.muted_cut),
  };
  const zero = [...up.odds, ...reduced(down)];
  const above = [...reduced(up), ...down.odds];
  const scale = commonDenominator([...zero, ...above]);
  // the branches of a muted user with the value 0, and with a larger one
  const jumps = [zero, above].map((odds) => finite(odds.map(([n, d]) => (n * scale) / d)));
  const mute = zeroWith(over(ONE, zero.reduce(add, ONE))); // 0: the user sends the value
  const sides = { up, down };
  return {
    kind: "bounded",
    absentValue: 0,
    users,
    largest,
    up,
    down,
    upLoss: up.epsilon,
    mostMessages,
    leastMessages: 0,
    messageLaws: needsExactPadding("bounded"),
    proofSteps: steps(up) + steps(down),
    noise,

    prove(most, mostDown) {
      for (const [{ ratio = ONE }, { decay }] of [
        [up, down],
        [down, up],
      ] as const)
        if (!holds("ratio", decay, ratio))
          notPrivate("a direction's ratio is below the other one's decay");
      if (!same(lostOdds(up), lostOdds(down)))
        notPrivate("users with one value are muted more often than others");
      proveDirection(up, { users, largest }, most);
      proveDirection(down, { users, largest }, mostDown);
    },

    agrees(proof, most = mostMessages, upwards?) {
      const rule = (side: "up" | "down", rules?: readonly string[]): boolean => {
        const { cut, muted_cut } = sides[side];
        rules ??= cut === muted_cut ? ["equal cuts"] : ["closed form", "per index"];
        return rules.includes(proof[side]?.rule as string);
      };
      return proof.most_messages === most && rule("up", upwards) && rule("down");
    },

    randomize(value, words) {
      let { up: more, down: less } = noise;
      let v = value;
      if (draw(mute, words)) {
        const branch = draw(jumps[value ? 1 : 0]!, words);
        if (branch < largest) {
          v = up.cut + branch + 1;
          more = noise.upMuted; // muted upwards: its noise upwards is cut shorter
        } else {
          v = 2 * largest - down.cut - branch - 1; // D − z_d − y, y = branch − D + 1
          less = noise.downMuted;
        }
      }
      const plus = draw(more, words);
      return [base + v + plus - draw(less, words), 0];
    },
  };
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

export const boundedCell = {
  kind: "bounded",
  read(data: unknown, name: string): BoundedCell {
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
    return cellOf(cell);
  },
} satisfies CellKind;
