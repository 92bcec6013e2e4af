/** What sparse and kept cells have in common: a user sends its value, is muted or jumps, and noise
 * goes to the buckets by the urn (docs/mathematics.md, "Sparse histograms"). */
import { bad, notPrivate } from "../errors.js";
import {
  add,
  holds,
  ONE,
  rational,
  same,
  times,
  ZERO,
  type Rational,
} from "../numbers/rational.js";
import { CutNoise, draw, finite, type Words } from "../numbers/sampling.js";
import { exactly, whole, type Check, type Checked } from "../schema.js";
import { needsExactPadding, USERS, type Cell, type CellGroup, type GroupKind } from "./base.js";

export const CHANCE = exactly(ZERO, ONE);
export const BRANCHED = {
  users: USERS,
  buckets: whole(1, 1 << 26),
  decay: CHANCE,
  cut: whole(0, 1023),
  data: CHANCE,
  muted: CHANCE,
  jump: CHANCE,
};
export type Branched = Checked<typeof BRANCHED>;

const SHORT = 256n;
const DATA = 0;
const JUMP = 2;
/** About how many operations of a proof a step of the cut counts as. */
const STEPS_PER_CUT = 64;

/** What is particular to a kind of such cells. */
export interface Particulars extends Pick<Cell, "kind" | "upLoss" | "prove" | "agrees"> {
  readonly downLoss: Rational;
  /** The messages of every report. */
  readonly size: number;
  /** The buckets of the noise: of `tokens()` tokens, or what a jump sends. */
  noise(tokens: () => number, jumps: boolean, words: Words): number[];
}

/** Throws unless p·m·s_(Z+1) ≤ `allowed`·o, where s_0 = 1 and s_(J+1)/s_J = β(B + J·m)/(m(J + 1));
 * if `cut`, s_(Z+1) is divided by C = s_0 + … + s_Z. */
export function proveJumps(
  given: Branched,
  { name, allowed, cut }: { name: string; allowed: Rational; cut: boolean },
): void {
  const { users, buckets, decay, data, jump } = given;
  const [m, b] = [BigInt(users), BigInt(buckets)];
  let [mass, divisor] = [1n, cut ? 0n : 1n];
  for (let j = 0n; j <= given.cut; j++) {
    const step = decay[1] * m * (j + 1n);
    divisor = (cut ? divisor + mass : divisor) * step;
    mass *= decay[0] * (b + j * m);
  }
  if (!holds(name, times(data, [m * mass, divisor]), times(allowed, jump)))
    notPrivate("there are too few jumps for the cut of the noise");
}

/** All buckets of such a cell; a user's value is the number of its bucket, or −1 for none. */
function allBuckets(given: Branched, own: Particulars): CellGroup {
  const { users, buckets, cut, decay, data, muted, jump } = given;
  const { kind, upLoss: up, downLoss: down, size, noise } = own;
  const proofSteps = STEPS_PER_CUT * (cut + 1);
  const cell: Cell = { ...own, users, largest: 1, absentValue: 0, proofSteps };
  const scale = data[1] * muted[1] * jump[1];
  const branches = finite([data, muted, jump].map(([n, d]) => (n * scale) / d));
  const tokens = new CutNoise(rational(buckets, users), decay, cut);
  return {
    uses: [{ cell, copies: buckets, up, down }],
    counters: buckets,
    mostMessages: size,
    leastMessages: size,
    messageLaws: needsExactPadding(kind),
    draw([value], words) {
      const branch = draw(branches, words);
      const plus = noise(() => draw(tokens, words), branch === JUMP, words);
      if (branch === DATA && value! >= 0) plus.push(value!);
      return [plus.sort((a, b) => a - b), []]; // messages are in the order of the counters
    },
  };
}

/** A kind of such cells: what `check` reads, if its chances are possible. */
export const branched = <P extends Branched & { readonly share?: Rational }>(
  check: Check<P>,
  make: (given: P) => Particulars,
): GroupKind => ({
  read(from, name) {
    const given = check(from, name);
    const { decay, data, muted, jump, share = jump } = given;
    if (
      same(decay, ONE) ||
      [decay, data, muted, jump, share].some(([n, d]) => n === 0n || d >> SHORT) ||
      !same(add(add(data, muted), jump), ONE)
    )
      bad(`${name} needs chances above 0 that add up to 1, and short decimals`);
    if (given.buckets + given.cut * given.users > 2 ** 53) bad(`${name} has too long a cut`);
    return allBuckets(given, make(given));
  },
});
