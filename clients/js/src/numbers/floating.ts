/** Numbers of 256 significant bits and an exponent, rounded down or up as asked: what takes long in
 * fractions, because they grow with the exponent, takes the same time for any exponent here. */
import type { Rational } from "./rational.js";
import { length } from "./rounding.js";

const BITS = 256;

/** [units, e] is units·2^e: zero, or units between 2^252 and 2^256. */
export type Float = readonly [bigint, number];

function float(units: bigint, e: number, up: boolean): Float {
  if (units === 0n) return NOTHING;
  const extra = length(units) - BITS;
  const cut = extra > 0 ? (units >> BigInt(extra)) + (up ? 1n : 0n) : units << BigInt(-extra);
  return [cut, e + extra];
}
export const NOTHING: Float = [0n, 0];
export const UNIT = float(1n, 0, false);

export const fromWhole = (n: bigint, up: boolean): Float => float(n, 0, up);
/** A fraction; throws if it is negative, because nothing here has a sign. */
export function fromRational([n, d]: Rational, up: boolean): Float {
  if (n < 0n || d <= 0n) throw new RangeError("a number is negative");
  return scaled(fromWhole(n, up), [UNIT, fromWhole(d, !up)], up);
}
export const toRational = ([units, e]: Float): Rational =>
  e < 0 ? [units, 1n << BigInt(-e)] : [units << BigInt(e), 1n];

/** a·(b/c). */
export function scaled(a: Float, [b, c]: readonly [Float, Float], up: boolean): Float {
  const units = ((a[0] * b[0]) << BigInt(BITS)) / c[0];
  return float(up ? units + 1n : units, a[1] + b[1] - c[1] - BITS, up);
}
export const product = (a: Float, b: Float, up: boolean): Float => scaled(a, [b, UNIT], up);

export function power(base: Float, exponent: number, up: boolean): Float {
  let result = UNIT;
  for (let i = 0; i < exponent; i++) result = product(result, base, up);
  return result;
}

export function sum(a: Float, b: Float, up: boolean): Float {
  if (!a[0] || !b[0]) return a[0] ? a : b;
  const [large, small] = a[1] < b[1] ? [b, a] : [a, b];
  const gap = large[1] - small[1];
  if (gap > 2 * BITS) return [up ? large[0] + 1n : large[0], large[1]]; // small < 2^large[1]
  return float((large[0] << BigInt(gap)) + small[0], small[1], up);
}

export function atMost(a: Float, b: Float): boolean {
  if (!a[0] || !b[0]) return !a[0];
  const gap = a[1] - b[1];
  if (gap > 8 || gap < -8) return gap < 0;
  return gap > 0 ? a[0] << BigInt(gap) <= b[0] : a[0] <= b[0] << BigInt(-gap);
}
