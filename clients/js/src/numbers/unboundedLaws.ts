/** Laws without a largest value: negative binomial and Poisson. */
import { DOUBT, expMinus, GUARD, lnFixed, type Between } from "./exponential.js";
import { ceil, type Rational } from "./rational.js";
import type { Law } from "./sampling.js";

/** P(X = k + 1) from P(X = k), both times 2^bits, rounded up or down. */
type Step = (k: number, mass: bigint, up: boolean) => bigint;

/** A law on 0, 1, 2, …, given by P(X = 0) and by the ratios of successive probabilities. */
export class UnboundedLaw implements Law {
  private readonly tables = new Map<
    number,
    { mass: Between<bigint>[]; sum: Between<bigint>[]; ratio: Step }
  >();

  constructor(
    readonly last: number,
    /** At most how many bits longer later masses are than the first one. */
    private readonly growth: number,
    private readonly start: (bits: number) => { first: Between<bigint>; ratio: Step },
  ) {}

  private upTo(k: number, bits: number) {
    let table = this.tables.get(bits);
    if (!table) {
      const { first, ratio } = this.start(bits);
      table = { mass: [first], sum: [first], ratio };
      this.tables.set(bits, table);
    }
    for (let j = table.mass.length; j <= k; j++) {
      const [low, high] = table.mass[j - 1]!;
      const mass: Between<bigint> = [
        table.ratio(j - 1, low, false),
        table.ratio(j - 1, high, true),
      ];
      const [lowSum, highSum] = table.sum[j - 1]!;
      table.mass.push(mass);
      table.sum.push([lowSum + mass[0], highSum + mass[1]]);
    }
    return table;
  }

  around(k: number, bits: number): Between<bigint> {
    const extra = 64 + this.growth;
    const [low, high] = this.upTo(k, bits + extra).sum[k]!;
    const most = 1n << BigInt(bits);
    const rounded = (high >> BigInt(extra)) + 1n;
    return [low >> BigInt(extra), rounded < most ? rounded : most];
  }

  /** P(X = 0..most)·2^bits, rounded down. */
  masses(bits: number, most: number): bigint[] {
    const extra = 64 + this.growth;
    const { mass } = this.upTo(most, bits + extra);
    return mass.slice(0, most + 1).map(([low]) => low >> BigInt(extra));
  }
}

const NOTHING = new UnboundedLaw(0, 0, (bits) => ({
  first: [1n << BigInt(bits), 1n << BigInt(bits)],
  ratio: () => 0n,
}));

/** NB(shape, 1 − e^−decay): C(k+r−1, k)·(1 − e^−decay)^r·e^(−decay·k). */
export function negativeBinomial([a, b]: Rational, decay: Rational): UnboundedLaw {
  return new UnboundedLaw(Infinity, 0, (bits) => {
    const work = bits + 2 * GUARD;
    const one = 1n << BigInt(work);
    const [low, high] = expMinus(decay, work);
    // p₀ = e^(r·ln(1 − e^−decay)); the exponent is enclosed, then rounded outwards
    const exponent = (y: bigint, doubt: bigint): bigint => -((lnFixed(y, work) + doubt) * a);
    const most = exponent(one - low, DOUBT * 4n);
    const first: Between<bigint> = [
      expMinus([exponent(one - high, -DOUBT * 4n), b << BigInt(work)], bits)[0],
      expMinus([most > 0n ? most : 0n, b << BigInt(work)], bits)[1],
    ];
    const ratio: Step = (k, mass, up) => {
      const [top, bottom] = [
        mass * (up ? high : low) * (a + BigInt(k) * b),
        (b * BigInt(k + 1)) << BigInt(work),
      ];
      return up ? ceil(top, bottom) : top / bottom;
    };
    return { first, ratio };
  });
}

/** Poi(rate): rate^k·e^−rate/k! */
export function poisson([n, d]: Rational): UnboundedLaw {
  if (n === 0n) return NOTHING;
  return new UnboundedLaw(Infinity, 2 * Number(ceil(n, d)), (bits) => ({
    first: expMinus([n, d], bits),
    ratio: (k, mass, up) =>
      up ? ceil(mass * n, d * BigInt(k + 1)) : (mass * n) / (d * BigInt(k + 1)),
  }));
}
