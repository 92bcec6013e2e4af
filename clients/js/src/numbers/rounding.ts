/** Fractions of 256 significant bits, rounded to the side that is safe in a proof. */
import { add, atMost, ceil, floor, ONE, times, type Rational } from "./rational.js";

const BITS = 256;
/** The bits of a number, rounded up to a multiple of 4. */
export const length = (n: bigint): number => n.toString(16).length * 4;

/** A fraction that is not negative, rounded down or up to about BITS significant bits. */
function rounded([n, d]: Rational, up: boolean): Rational {
  const size = length(d);
  if (size <= BITS) return [n, d];
  const shift = BITS + size - length(n);
  const [top, bottom] = shift >= 0 ? [n << BigInt(shift), d] : [n, d << BigInt(-shift)];
  const units = up ? ceil(top, bottom) : floor(top, bottom);
  return shift >= 0 ? [units, 1n << BigInt(shift)] : [units << BigInt(-shift), 1n];
}
export const below = (number: Rational): Rational => rounded(number, false);
export const above = (number: Rational): Rational => rounded(number, true);

/** At most e^x, for x > 0: the first terms of the series. */
export function exponentialBelow(x: Rational): Rational {
  let [total, term] = [ONE, ONE];
  for (let k = 1n; !atMost([term[0] << BigInt(BITS), term[1]], total); k++) {
    term = below([term[0] * x[0], term[1] * x[1] * k]);
    total = below(add(total, term));
  }
  return total;
}

/** At least β^x. */
export function power(beta: Rational, x: number): Rational {
  let result = ONE;
  for (let i = 0; i < x; i++) result = above(times(result, beta));
  return result;
}
