/** Exact draws: inversion of a uniform number whose bits are drawn on demand. No float decides. */
import { ceil, floor, type Rational } from "./rational.js";

/** A source of independent uniform 64-bit words. */
export type Words = () => bigint;

/** A law on 0..last, by its cumulative probabilities F(k) = P(X ≤ k). */
export interface Law {
  readonly last: number;
  /** Integers around F(k)·2^bits: at most it, at least it. For k < last. */
  around(k: number, bits: number): readonly [bigint, bigint];
  /** F(k) itself where it is rational. Slow, and needed about once in 2⁶⁴ draws. */
  exactly?(k: number): Rational;
}

/** A uniform number in [0, 1) of which the leading bits are known. */
export class Uniform {
  private value: bigint;
  private bits = 64;

  constructor(private readonly words: Words) {
    this.value = words();
  }

  /** Whether U lies below F(k). A further word is drawn if and only if F(k) lies strictly between
   * two neighbouring values of the bits that are known. */
  below(law: Law, k: number): boolean {
    for (let extra = 64; ; ) {
      const [from, to] = [this.value << BigInt(extra), (this.value + 1n) << BigInt(extra)];
      let [low, high] = law.around(k, this.bits + extra);
      if (low < to && high > from && (low <= from || high >= to)) {
        if (!law.exactly) {
          extra *= 2; // not tight enough to tell
          continue;
        }
        [low, high] = aroundRatio(law.exactly(k), this.bits + extra);
      }
      if (low >= to) return true;
      if (high <= from) return false;
      this.value = (this.value << 64n) | this.words();
      this.bits += 64;
    }
  }
}

/** One exact draw: the number of cumulative probabilities that U does not lie below. */
export function draw(law: Law, words: Words, uniform = new Uniform(words)): number {
  let k = 0;
  while (k < law.last && !uniform.below(law, k)) k++;
  return k;
}

export function aroundRatio([n, d]: Rational, bits: number): readonly [bigint, bigint] {
  const scaled = n << BigInt(bits);
  return [floor(scaled, d), ceil(scaled, d)];
}

/** One exact draw of the uniform law on 0..size − 1. */
export function uniform(size: bigint, words: Words): number {
  for (let [value, bits] = [words(), 64n]; ; value = (value << 64n) | words(), bits += 64n) {
    const found = (value * size) >> bits;
    if ((found + 1n) << bits >= (value + 1n) * size) return Number(found);
  }
}

/** 0 with this probability, else 1. */
export const zeroWith = (probability: Rational): Law => ({
  last: 1,
  around: (_, bits) => aroundRatio(probability, bits),
  exactly: () => probability,
});

/** P(X = k) = weights[k] / their sum. */
export function finite(weights: readonly bigint[]): Law {
  let total = 0n;
  const sums = weights.map((weight) => (total += weight));
  return {
    last: weights.length - 1,
    around: (k, bits) => aroundRatio([sums[k]!, total], bits),
    exactly: (k) => [sums[k]!, total],
  };
}

/** A negative binomial law cut at `cut`: P(X = j) = c_j/C_cut, c_j = β^j·r(r+1)⋯(r+j−1)/j!,
 * r the shape, C_k = c_0 + … + c_k. */
export class CutNoise implements Law {
  private readonly tables = new Map<number, readonly [bigint[], bigint[]]>();

  constructor(
    readonly shape: Rational,
    readonly beta: Rational,
    readonly last: number,
  ) {}

  /** c_{j+1}/c_j as a fraction. */
  private step(j: bigint): Rational {
    const [a, b] = this.shape;
    return [this.beta[0] * (a + j * b), this.beta[1] * b * (j + 1n)];
  }

  /** C_0..C_cut times 2^bits, each rounded down and rounded up. */
  private sums(bits: number): readonly [bigint[], bigint[]] {
    let table = this.tables.get(bits);
    if (!table) {
      let low = 1n << BigInt(bits);
      let high = low;
      table = [[low], [high]];
      for (let j = 0n; j < this.last; j++) {
        const [up, down] = this.step(j);
        [low, high] = [(low * up) / down, ceil(high * up, down)];
        table[0].push(table[0].at(-1)! + low);
        table[1].push(table[1].at(-1)! + high);
      }
      this.tables.set(bits, table);
    }
    return table;
  }

  exactly(k: number): Rational {
    let [mass, sum, found] = [1n, 1n, 1n]; // c_j, C_j and C_k, over one denominator
    for (let j = 0n; j < this.last; j++) {
      const [up, down] = this.step(j);
      mass *= up;
      sum = sum * down + mass;
      found = j < k ? sum : found * down;
    }
    return [found, sum];
  }

  around(k: number, bits: number): readonly [bigint, bigint] {
    const [low, high] = this.sums(bits + 64);
    const scale = BigInt(bits);
    return [(low[k]! << scale) / high.at(-1)!, ceil(high[k]! << scale, low.at(-1)!)];
  }
}

const FULL = new BigUint64Array(512);
let used = FULL.length;

/** Words from the operating system; each is used once and erased. */
export function systemWords(): bigint {
  if (used === FULL.length) {
    crypto.getRandomValues(FULL);
    used = 0;
  }
  const word = FULL[used]!;
  FULL[used++] = 0n;
  return word;
}
