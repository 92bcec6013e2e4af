/** The proof that a bounded cell is private for the exact parameters of a task
 * (docs/mathematics.md, "The bounded cell"). Every quantity is bounded on its unsafe side by a
 * fraction of 256 significant bits; e^ε is bounded from below by its series. */
import { notPrivate } from "../errors.js";
import {
  add,
  holds,
  larger,
  ONE,
  over,
  rational,
  subtract,
  times,
  ZERO,
  type Rational,
} from "../numbers/rational.js";
import { above, below, exponentialBelow, power } from "../numbers/rounding.js";

/** Among whom a user is hidden: this many users with values 0..largest. */
export interface Among {
  readonly users: number;
  readonly largest: number;
}

export interface Direction {
  readonly epsilon: Rational;
  readonly decay: Rational;
  readonly cut: number;
  readonly muted_cut: number;
  readonly odds: readonly Rational[];
  /** κ, 1 if not given: the odds' factor for users whose value cannot change in this direction. */
  readonly ratio?: Rational | undefined;
}

/** A = 1 − κβ^D, or less. */
const spareOf = ({ decay, ratio = ONE }: Direction, { largest }: Among): Rational =>
  subtract(ONE, times(ratio, power(decay, largest)));

/** (1 − κ)·o_1: by how much the odds of users with the two values differ. */
export const lostOdds = ({ odds, ratio = ONE }: Direction): Rational =>
  times(subtract(ONE, ratio), odds[0]!);

/** Throws unless D·ln(1/β) ≤ ε ≤ `allowed`. */
export function proveLoss({ epsilon, decay }: Direction, d: number, allowed: Rational): void {
  if (!holds("loss", epsilon, allowed)) notPrivate("a direction's loss exceeds what it may cost");
  let bound = exponentialBelow(epsilon); // β^D·e^ε ≥ 1
  for (let i = 0; i < d; i++) bound = below(times(bound, decay));
  if (!holds("decay", ONE, bound)) notPrivate("the noise falls too fast for its loss");
}

/** Throws unless a change in this direction costs at most `allowed`. */
export function proveDirection(side: Direction, among: Among, allowed: Rational): void {
  const { users, largest: d } = among;
  proveLoss(side, d, allowed);
  const { cut: z, muted_cut: w } = side;
  const used = share(side, among);
  if (w !== z && (users < 3 || w < d - 1 || z < w + d))
    notPrivate("no rule covers the cuts of its noise");
  if (w === z ? !holds("odds", used, ONE) : !placesHold(side, among, used))
    notPrivate("the odds are too small");
}

/** At least φ = max over y of users·c_{z+1}·(C_w/C_z)·β^(y−D−1)/(o_y(β^(−D) − κ)). */
function share(side: Direction, among: Among): Rational {
  const { decay: beta, cut: z, muted_cut: w, odds } = side;
  const { users } = among;
  let [high, low] = [ONE, ONE]; // c_j lies between low and high
  let [upper, lower, toW] = [ZERO, ZERO, ZERO];
  for (let j = 0; j <= z; j++) {
    upper = above(add(upper, high));
    lower = below(add(lower, low));
    if (j === w) toW = upper;
    const step = times(
      beta,
      rational(1n + BigInt(j) * BigInt(users), BigInt(users) * BigInt(j + 1)),
    );
    [high, low] = [above(times(high, step)), below(times(low, step))];
  }
  let claim = above(over(times(times(rational(users), high), toW), lower));
  claim = above(over(claim, times(beta, spareOf(side, among))));
  let found = ZERO;
  for (const one of odds) {
    claim = above(times(claim, beta));
    found = larger(found, above(over(claim, one)));
  }
  return found;
}

/** Whether φ(1+rh) ≤ 1, and φ(1+rh)(z+1)/(z+1+I−x) + β^x·η(I) ≤ 1 for I = w+1..z+1 and x = 0, D,
 * which imply it for all others. */
function placesHold(side: Direction, among: Among, used: Rational): boolean {
  const { users, largest: d } = among;
  const { decay: beta, cut: z, muted_cut: w } = side;
  const r = rational(1, users);
  const rho = [ONE]; // ρ_k = (1+r)(1+r/2)⋯(1+r/k)
  for (let i = 1; i <= z; i++) rho.push(above(times(rho[i - 1]!, add(ONE, over(r, rational(i))))));
  let past = ZERO;
  let harmonic = ZERO;
  for (let s = 1; s <= d; s++) {
    past = above(add(past, rational(z, BigInt(z + 1 - s) * BigInt(z - w + 1 - s))));
    harmonic = above(add(harmonic, rational(1, s)));
  }
  const spent = above(times(used, add(ONE, times(r, above(times(rho[w]!, past))))));
  if (!holds("muted odds", spent, ONE)) return false;
  const spare = spareOf(side, among);
  const noisy = times(times(r, rho[w]!), times(rho[Math.max(z - w - 2, 0)]!, harmonic));
  const kappa = above(over(times(noisy, rational(w + d + 1, w + 2)), spare));
  const factor = above(over(rho[w]!, spare));
  const fade = power(beta, d);
  for (const [place, ask] of asked(side, among, rho[w]!)) {
    const eta = above(add(kappa, times(factor, ask)));
    for (const [x, fallen] of [
      [0, ONE],
      [d, fade],
    ] as const) {
      const own = above(times(spent, rational(z + 1, z + 1 + place - x)));
      if (!holds(`I=${place}, x=${x}`, add(own, above(times(fallen, eta))), ONE)) return false;
    }
  }
  return true;
}

/** [I, at least e(I)] for I = w+1..z+1: what the muted users' cut asks of a swapped branch. */
function* asked(
  { cut: z, muted_cut: w }: Direction,
  { users, largest: d }: Among,
  rho: Rational,
): Generator<readonly [number, Rational]> {
  const first = rational(users - 2, users);
  let [high, low] = [ONE, ONE]; // N_n, rounded up and down
  const [upper, lower] = [[ZERO], [ZERO]]; // Σ_{k<n} N_k/(k+w+1), rounded up and down
  for (let n = 0; n < z - w; n++) {
    const [part, step] = [rational(1, n + w + 1), over(add(first, rational(n)), rational(n + 1))];
    upper.push(above(add(upper[n]!, times(high, part))));
    lower.push(below(add(lower[n]!, times(low, part))));
    [high, low] = [above(times(high, step)), below(times(low, step))];
  }
  let [least, covered] = [ONE, ZERO]; // u_n and U_I, rounded down
  for (let place = 1; place <= z; place++) {
    const n = place - 1;
    covered = below(add(covered, least));
    let rest = times(least, add(rational(n), first));
    if (n >= w) rest = subtract(rest, times(first, rho));
    least = below(over(larger(rest, ZERO), rational(place)));
    if (place > w) {
      const terms = subtract(upper[place - w]!, lower[Math.max(place - w - d, 0)]!);
      yield [place, above(over(times(rational(place), terms), covered))];
    }
  }
  let total = ZERO;
  for (let s = 1; s <= d; s++)
    total = above(add(total, rational(z + 1, BigInt(z + 2 - s) * BigInt(z - w - s + 1))));
  yield [z + 1, total];
}
