/** What sparse and kept cells have in common: a user sends its value, is muted or jumps, and noise
 * goes to the buckets by the urn (docs/mathematics.md, "Sparse histograms"). */
import { bad } from "../errors.js";
import { add, ONE, rational, same, ZERO, type Rational } from "../numbers/rational.js";
import { CutNoise, draw, finite, type Law, type Words } from "../numbers/sampling.js";
import { exactly, whole, type Checked } from "../schema.js";
import { needsExactPadding, USERS, type Cell, type CellGroup, type Messages } from "./base.js";

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

export abstract class BranchedCell<P extends Branched = Branched> implements Cell {
  abstract readonly kind: string;
  readonly largest = 1;
  readonly absentValue = 0;
  readonly users: number;
  readonly proofSteps: number;

  constructor(
    readonly given: P,
    readonly upLoss: Rational,
    readonly downLoss: Rational,
  ) {
    this.users = given.users;
    this.proofSteps = STEPS_PER_CUT * (given.cut + 1);
  }

  /** The messages of every report. */
  abstract readonly size: number;
  /** The buckets of the noise: of `tokens()` tokens, or what a jump sends. */
  abstract noise(tokens: () => number, jumps: boolean, words: Words): number[];
  abstract prove(up: Rational, down: Rational): void;
  abstract agrees(proof: object): boolean;
}

/** All buckets of such a cell; a user's value is the number of its bucket, or −1 for none. */
export class BranchedBuckets implements CellGroup {
  readonly uses;
  readonly counters: number;
  readonly mostMessages: number;
  readonly leastMessages: number;
  readonly messageLaws;
  private readonly branches: Law;
  private readonly tokens: Law;

  constructor(private readonly cell: BranchedCell) {
    const { users, buckets, cut, decay, data, muted, jump } = cell.given;
    this.uses = [{ cell, copies: buckets, up: cell.upLoss, down: cell.downLoss }];
    this.counters = buckets;
    this.mostMessages = this.leastMessages = cell.size;
    this.messageLaws = needsExactPadding(cell.kind);
    const scale = data[1] * muted[1] * jump[1];
    this.branches = finite([data, muted, jump].map(([n, d]) => (n * scale) / d));
    this.tokens = new CutNoise(rational(buckets, users), decay, cut);
  }

  draw([value]: readonly number[], words: Words): Messages {
    const branch = draw(this.branches, words);
    const plus = this.cell.noise(() => draw(this.tokens, words), branch === JUMP, words);
    if (branch === DATA && value! >= 0) plus.push(value!);
    return [plus.sort((a, b) => a - b), []]; // messages are in the order of the counters
  }
}

/** Refuses parameters that no such cell has; `more` are further chances. */
export function checkBranched(cell: Branched, name: string, ...more: readonly Rational[]): void {
  const { decay, data, muted, jump } = cell;
  if (
    same(decay, ONE) ||
    [decay, data, muted, jump, ...more].some(([n, d]) => n === 0n || d >> SHORT) ||
    !same(add(add(data, muted), jump), ONE)
  )
    bad(`${name} needs chances above 0 that add up to 1, and short decimals`);
}
