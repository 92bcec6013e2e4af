/** The paper's cells, for tasks that use them:
 *
 *     loadTask(text, { cells: [paperCell] })
 *
 * Their laws and their proof need e^x and ln x, which are enclosed between whole numbers. */
import { EPSILON, MASS_BITS, USERS, type Cell, type CellKind, type MessageLaws } from "./cells.js";
import { fail } from "./errors.js";
import { above, below } from "./proof.js";
import { add, atMost, ceil, floor, ONE, over, rational, subtract, times, ZERO, type Rational } from "./rational.js";
import { draw, zeroWith, type Law, type Words } from "./sampling.js";
import { choice, exactly, record, whole } from "./schema.js";

/** A number between two others; here whole numbers over 2^bits, or fractions. */
type Between<T> = readonly [T, T];

const GUARD = 64;
const DOUBT = 1n << 48n; // of 2^GUARD: more than all roundings below add up to

/** e^−x·2^bits for x ≥ 0, at most and at least.
 *
 * The argument is halved until it is at most ½, the series is added up (fewer terms than bits, each
 * cut by less than 2), and the result is squared back, which doubles the error each time; with at
 * most 2²⁰ bits and 2⁵ halvings that is below 2⁴⁷. */
export function expMinus(x: Rational, bits: number): Between<bigint> {
  const size = BigInt(bits + GUARD);
  const halvings = floor(x[0], x[1]).toString(2).length + 1;
  const t = (x[0] << size) / (x[1] << BigInt(halvings));
  let [total, term] = [1n << size, 1n << size];
  for (let k = 1n; term; k++) {
    term = -(term * t) / (k << size);
    total += term;
  }
  for (let i = 0; i < halvings; i++) total = (total * total) >> size;
  const found = (add: bigint): bigint => (total + add < 0n ? 0n : (total + add) >> BigInt(GUARD));
  return [found(-DOUBT), found(DOUBT) + 1n];
}

/** e^x as fractions, for any x up to a few thousand. */
export function expBetween(x: Rational): Between<Rational> {
  const negative = x[0] < 0n;
  const size: Rational = [negative ? -x[0] : x[0], x[1]];
  const bits = 320 + 2 * Number(ceil(size[0], size[1]));
  const [low, high] = expMinus(size, bits);
  const one = 1n << BigInt(bits);
  return negative ? [below([low, one]), above([high, one])] : [below([one, high]), above([one, low])];
}

/** ln(y/2^bits)·2^bits up to an error of less than 2⁴⁸ (GUARD bits are not added here): y is brought
 * into [½, 1], and ln y = 2·atanh((y − 1)/(y + 1)). */
function lnFixed(y: bigint, bits: number): bigint {
  const size = BigInt(bits);
  const one = 1n << size;
  const shift = BigInt(bits - y.toString(2).length + (y === one ? 1 : 0));
  const atanh = (z: bigint): bigint => {
    const square = (z * z) >> size;
    let total = 0n;
    for (let [power, k] = [z, 1n]; power; power = (power * square) >> size, k += 2n) {
      total += power / k;
      if (power === -1n) break; // shifting rounds towards −∞: −1 would stay
    }
    return 2n * total;
  };
  const m = y << shift;
  const ln2 = atanh(one / 3n);
  return atanh(((m - one) << size) / (m + one)) - shift * ln2;
}

/** A law on 0, 1, 2, … by its first mass and by how much likelier each value is than the one before. */
class Series implements Law {
  private readonly tables = new Map<number, { mass: Between<bigint>[]; sum: Between<bigint>[]; ratio: (k: number, mass: bigint, up: boolean) => bigint }>();

  constructor(
    readonly last: number,
    /** Bits by which later masses exceed the first one at most. */
    private readonly growth: number,
    private readonly start: (bits: number) => { first: Between<bigint>; ratio: (k: number, mass: bigint, up: boolean) => bigint },
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
      const mass: Between<bigint> = [table.ratio(j - 1, low, false), table.ratio(j - 1, high, true)];
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

const NOTHING = new Series(0, 0, (bits) => ({ first: [1n << BigInt(bits), 1n << BigInt(bits)], ratio: () => 0n }));

/** NB(shape, 1 − e^−decay): C(k+r−1, k)·(1 − e^−decay)^r·e^(−decay·k). */
export function negativeBinomial([a, b]: Rational, decay: Rational): Series {
  return new Series(Infinity, 0, (bits) => {
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
    const ratio = (k: number, mass: bigint, up: boolean): bigint => {
      const [top, bottom] = [mass * (up ? high : low) * (a + BigInt(k) * b), (b * BigInt(k + 1)) << BigInt(work)];
      return up ? ceil(top, bottom) : top / bottom;
    };
    return { first, ratio };
  });
}

/** Poi(rate): rate^k·e^−rate/k! */
export function poisson([n, d]: Rational): Series {
  if (n === 0n) return NOTHING;
  return new Series(Infinity, 2 * Number(ceil(n, d)), (bits) => ({
    first: expMinus([n, d], bits),
    ratio: (k, mass, up) => (up ? ceil(mass * n, d * BigInt(k + 1)) : (mass * n) / (d * BigInt(k + 1))),
  }));
}

const PAPER = record({
  kind: choice("paper"),
  users: USERS,
  largest: whole(1, 10 ** 6),
  up_epsilon: EPSILON,
  down_epsilon: exactly([1n, 10n ** 9n], [10n ** 9n, 1n]),
  mute_probability: exactly(ZERO, ONE),
  input_pairs: whole(0, 10 ** 9),
  flood_mean: exactly(ZERO, [10n ** 100n, 1n]),
  stand_in: whole(0, 10 ** 6),
});

class PaperCell implements Cell {
  readonly kind = "paper";
  readonly mostMessages = null;
  readonly users: number;
  readonly largest: number;
  readonly upLoss: Rational;
  readonly absentValue: number;
  private readonly laws: { readonly mute: Law; readonly plus: Series; readonly minus: Series; readonly flood: Series };

  constructor(private readonly data: ReturnType<typeof PAPER>) {
    this.users = data.users;
    this.largest = data.largest;
    this.upLoss = data.up_epsilon;
    this.absentValue = data.stand_in;
    this.laws = { mute: zeroWith(subtract(ONE, data.mute_probability)), ...this.noise(1) };
  }

  /** The noises of one user in so many copies. */
  private noise(copies: number) {
    const { users, largest, up_epsilon, down_epsilon, flood_mean } = this.data;
    const share = rational(copies, users);
    return {
      plus: negativeBinomial(share, over(up_epsilon, rational(largest))),
      minus: negativeBinomial(share, over(down_epsilon, rational(largest))),
      flood: poisson(times(flood_mean, share)),
    };
  }

  agrees(proof: { inequality?: unknown }): boolean {
    return proof.inequality === "down";
  }

  randomize(value: number, words: Words): readonly [number, number] {
    const { input_pairs: s, stand_in: h } = this.data;
    const kept = draw(this.laws.mute, words) === 0;
    const plus = draw(this.laws.plus, words);
    const minus = draw(this.laws.minus, words);
    const both = draw(this.laws.flood, words);
    return [(kept ? s + value : 0) + plus + both, (kept ? s + h : 0) + minus + both];
  }

  async messageLaws(copies: number, most: number): Promise<MessageLaws> {
    const { input_pairs: s, stand_in: h, largest } = this.data;
    const { plus, minus, flood } = this.noise(copies);
    const pairs = flood.masses(MASS_BITS, flood.last ? Math.floor(most / 2) : 0).flatMap((mass) => [mass, 0n]);
    return {
      sure: copies * (2 * s + h) + largest,
      parts: [plus.masses(MASS_BITS, most), minus.masses(MASS_BITS, most), pairs].map((masses) => ({ masses, count: 1 })),
    };
  }

  prove(up: Rational, down: Rational): void {
    const { largest, stand_in } = this.data;
    const refuse = (why: string): never => fail("privacy", `The task's parameters are not private: ${why}. Do not answer it.`);
    if (!atMost(this.upLoss, up)) refuse("a direction's loss exceeds what it may cost");
    for (let delta = 1; delta <= largest; delta++)
      for (const x of new Set(stand_in ? [0, largest - delta] : [largest - delta]))
        if (!this.holds(down, delta, x)) refuse("a change downwards costs more than it may");
  }

  /** Whether g(m) > 1 for every m ≥ 0 (docs/mathematics.md, "The inequality"), which is convex in m. */
  private holds(loss: Rational, delta: number, x: number): boolean {
    const { down_epsilon: b, up_epsilon: a, mute_probability: q, flood_mean, largest, stand_in: h, input_pairs } = this.data;
    const t = Math.min(x, h);
    const fade = over(add(times(a, rational(x - t)), times(b, rational(h - t))), rational(largest));
    const odds = over(q, subtract(ONE, q));
    const [grown, faded] = [expBetween(loss), expBetween([-fade[0], fade[1]])];
    const lift = [0, 1].map((i) => times(times(subtract(grown[i]!, ONE), odds), faded[i]!)) as [Rational, Rational];
    if (flood_mean[0] === 0n) return !atMost(lift[0], ONE);
    const data = expBetween(subtract(loss, over(times(b, rational(delta)), rational(largest))));
    const known = new Map<bigint, Between<Rational>>();
    const g = (m: bigint): Between<Rational> => {
      let found = known.get(m);
      if (!found) {
        found = [below, above].map((round, i) => {
          let total = lift[i]!;
          for (let k = 1; k <= input_pairs + t; k++) total = round(over(times(total, flood_mean), rational(m + BigInt(k))));
          if (m < BigInt(delta)) return total;
          let falling = data[i]!;
          for (let k = 0; k < delta; k++) falling = round(over(times(falling, rational(m - BigInt(k))), flood_mean));
          return round(add(total, falling));
        }) as [Rational, Rational];
        known.set(m, found);
      }
      return found;
    };
    const rises = (m: bigint): boolean => !atMost(g(m + 1n)[0], g(m)[1]);
    let [left, right] = [0n, 1n]; // the least place at which g certainly rises
    while (!rises(right)) {
      right *= 2n;
      if (right > 1n << 400n) return false;
    }
    while (left < right) {
      const middle = (left + right) / 2n;
      if (rises(middle)) right = middle;
      else left = middle + 1n;
    }
    for (let [place, steps] = [right, 0]; steps < 16; place--, steps++) {
      if (atMost(g(place)[0], ONE)) return false;
      if (place === 0n || !atMost(g(place - 1n)[0], g(place)[1])) return true;
    }
    return false;
  }
}

export const paperCell: CellKind = {
  kind: "paper",
  read(data, name) {
    const cell = PAPER(data, name);
    const { mute_probability: q, flood_mean, input_pairs, stand_in, largest, down_epsilon } = cell;
    const bare = input_pairs === 0 && stand_in === 0;
    if (q[0] === 0n || q[0] === q[1] || stand_in > largest || (flood_mean[0] === 0n && !bare) || !atMost(down_epsilon, rational(1000 * largest)))
      fail("task", `${name} has parameters outside of what is allowed; ask for a new task.`);
    return new PaperCell(cell);
  },
};
