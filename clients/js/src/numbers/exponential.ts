/** e^x and ln x, enclosed between whole numbers over a power of 2. */
import { ceil, floor, type Rational } from "./rational.js";
import { above, below } from "./rounding.js";

/** A number between two others; here whole numbers over 2^bits, or fractions. */
export type Between<T> = readonly [T, T];

export const GUARD = 64;
export const DOUBT = 1n << 48n; // of 2^GUARD: more than all roundings below add up to

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
  return negative
    ? [below([low, one]), above([high, one])]
    : [below([one, high]), above([one, low])];
}

/** ln(y/2^bits)·2^bits up to an error of less than 2⁴⁸ (GUARD bits are not added here): y is
 * brought into [½, 1], and ln y = 2·atanh((y − 1)/(y + 1)). */
export function lnFixed(y: bigint, bits: number): bigint {
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
