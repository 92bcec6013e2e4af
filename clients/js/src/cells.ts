/** Cells: the randomizer of one counter with values 0..largest. */
import { fail } from "./errors.js";
import { proveDirection, type Direction } from "./proof.js";
import { add, gcd, ONE, over, ZERO, type Rational } from "./rational.js";
import { CutNoise, draw, finite, zeroWith, type Law, type Words } from "./sampling.js";
import { choice, exactly, list, record, whole } from "./schema.js";

/** How many messages a user sends: `sure`, and independent parts, each the sum of `count` draws with
 * these probabilities of 0, 1, 2, … (times 2^MASS_BITS, rounded down). */
export interface MessageLaws {
  readonly sure: number;
  readonly parts: readonly { readonly masses: readonly bigint[]; readonly count: number }[];
}

export const MASS_BITS = 192;

/** What every kind of cell promises. */
export interface Cell {
  readonly kind: string;
  readonly users: number;
  readonly largest: number;
  /** ε that a change upwards costs. */
  readonly upLoss: Rational;
  /** What the estimate counts for an absent user. */
  readonly absentValue: number;
  /** What a user sends at most; null where there is no such number. */
  readonly mostMessages: number | null;
  /** Throws unless a change upwards costs at most `up` and one downwards at most `down`. */
  prove(up: Rational, down: Rational): void;
  /** Whether what a certificate says about its proof is true of this cell. */
  agrees(proof: object): boolean;
  /** [+1 messages, −1 messages] of a user with this value: an exact draw. */
  randomize(value: number, words: Words): readonly [number, number];
  /** In so many copies, of which at most one does not hold 0; parts of at most `most` messages. */
  messageLaws(copies: number, most: number): Promise<MessageLaws>;
}

/** A kind of cell: how to read one from a task. */
export interface CellKind {
  readonly kind: string;
  read(data: unknown, name: string): Cell;
}

export const EPSILON = exactly([1n, 10n ** 9n], [1000n, 1n]);
export const USERS = whole(1, 10 ** 13);
const CUT = whole(0, 65535);
const DIRECTION = record({
  epsilon: EPSILON,
  decay: exactly(ZERO, ONE),
  cut: CUT,
  muted_cut: CUT,
  odds: list(exactly(ZERO, [10n ** 30n, 1n]), 1, 65535),
});
const BOUNDED = record({ kind: choice("bounded"), users: USERS, largest: whole(1, 65535), up: DIRECTION, down: DIRECTION });

export class BoundedCell implements Cell {
  readonly kind = "bounded";
  readonly absentValue = 0;
  readonly upLoss: Rational;
  readonly mostMessages: number;
  private readonly base: number;
  private readonly mute: Law;
  private readonly jumps: Law;
  /** The odds of all branches as whole numbers, where sending the value has `scale`. */
  readonly weights: readonly bigint[];
  readonly scale: bigint;
  readonly noise: { readonly up: CutNoise; readonly upMuted: CutNoise; readonly down: CutNoise; readonly downMuted: CutNoise };

  constructor(
    readonly users: number,
    readonly largest: number,
    readonly up: Direction,
    readonly down: Direction,
  ) {
    this.upLoss = up.epsilon;
    this.base = down.cut + down.muted_cut;
    this.mostMessages = up.cut + up.muted_cut + this.base + largest;
    const law = ({ decay }: Direction, cut: number) => new CutNoise(BigInt(users), decay, cut);
    this.noise = {
      up: law(up, up.cut),
      upMuted: law(up, up.muted_cut),
      down: law(down, down.cut),
      downMuted: law(down, down.muted_cut),
    };
    const odds = [...up.odds, ...down.odds];
    this.scale = common(odds);
    this.weights = odds.map(([n, d]) => (n * this.scale) / d);
    this.jumps = finite(this.weights);
    this.mute = zeroWith(over(ONE, odds.reduce(add, ONE))); // 0: a user sends its value
  }

  prove(up: Rational, down: Rational): void {
    proveDirection(this.up, this.users, this.largest, up);
    proveDirection(this.down, this.users, this.largest, down);
  }

  agrees(proof: { most_messages?: unknown; up?: { rule?: unknown }; down?: { rule?: unknown } }): boolean {
    const rule = (side: "up" | "down"): boolean =>
      (this[side].cut === this[side].muted_cut ? ["equal cuts"] : ["closed form", "per index"]).includes(proof[side]?.rule as string);
    return proof.most_messages === this.mostMessages && rule("up") && rule("down");
  }

  randomize(value: number, words: Words): readonly [number, number] {
    let { up, down } = this.noise;
    let v = value;
    if (draw(this.mute, words)) {
      const branch = draw(this.jumps, words);
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

  async messageLaws(copies: number): Promise<MessageLaws> {
    return (await import("./reserve.js")).boundedLaws(this, copies);
  }
}

/** The least common denominator. */
function common(odds: readonly Rational[]): bigint {
  let found = 1n;
  for (const [, d] of odds) if ((found = (found / gcd(found, d)) * d) >> 8192n) break; // refused by `read`
  return found;
}

export const boundedCell: CellKind = {
  kind: "bounded",
  read(data, name) {
    const { users, largest, up, down } = BOUNDED(data, name);
    for (const { decay, cut, muted_cut, odds } of [up, down])
      if (decay[0] === 0n || decay[0] === decay[1] || muted_cut > cut || odds.length !== largest || odds.some(([n]) => n === 0n) || common(odds) >> 4096n)
        fail("task", `${name} needs 0 < decay < 1, muted_cut up to cut, and ${largest} short odds above 0.`);
    return new BoundedCell(users, largest, up, down);
  },
};
