/** Numbers between two bounds, and their digits. */
import { bad } from "../errors.js";
import {
  add,
  atMost,
  exact,
  floor,
  over,
  rational,
  subtract,
  text,
  times,
  type Rational,
} from "../numbers/rational.js";
import { draw, finite, Uniform, zeroWith, type Words } from "../numbers/sampling.js";
import { exactly } from "../schema.js";
import { wrong, type Answer } from "./base.js";

const LIMIT = 10n ** 100n;
export const BOUND = exactly([-LIMIT, 1n], [LIMIT, 1n]);

/** The bounds of a query, as its task states them. */
export interface Bounds {
  readonly low: Rational;
  readonly high: Rational;
}

/** The float next to one that is not 0. */
function beside(value: number, up: boolean): number {
  const bits = new BigInt64Array(Float64Array.of(value).buffer);
  bits[0]! += value > 0 === up ? 1n : -1n;
  return new Float64Array(bits.buffer)[0]!;
}

/** Checks bounds; returns how to read a number between them, exactly. A bound such as 1/10 is not a
 * float: the float nearest to it, which is what people write as 0.1, counts as the next one inside
 * if it is outside. */
export function between({ low, high }: Bounds): (value: Answer) => Rational {
  if (!atMost([1n, LIMIT], subtract(high, low)))
    bad("The lower bound must lie below the upper bound");
  return (value) => {
    if (typeof value === "number" && Number.isFinite(value)) {
      const found = exact(value);
      const [above, below] = [!atMost(found, high), !atMost(low, found)];
      if (!above && !below) return found;
      if (value !== 0) {
        const inside = exact(beside(value, below));
        const [middle, twice] = [add(found, inside), times(above ? high : low, rational(2))];
        const nearest = above ? atMost(middle, twice) : atMost(twice, middle);
        if (nearest && atMost(low, inside) && atMost(inside, high)) return inside;
      }
    }
    return wrong(`a number from ${text(low)} to ${text(high)}`);
  };
}

/** How a number becomes the digits of a grid point between bounds: its code, rounded at random so
 * that its mean is exact, in bases `largest` + 1, the most significant digit first. The second
 * result is in which of `dither` equal parts the number that decided about the rounding fell. */
export function digitsOf(
  bounds: Bounds,
  cells: readonly { readonly largest: number }[],
  dither = 1,
): (value: Answer, words: Words) => readonly [digits: number[], part: number] {
  const { low, high } = bounds;
  const within = between(bounds);
  let grid = 1; // values are rounded to 0..grid − 1 steps
  for (const { largest } of cells) {
    grid *= largest + 1;
    if (grid * dither > 1 << 24) bad("The digits span too many grid points");
  }
  const parts = finite(Array<bigint>(dither).fill(1n));
  return (value, words) => {
    const steps = times(subtract(within(value), low), rational(grid - 1));
    const [n, d] = over(steps, subtract(high, low));
    let code = floor(n, d); // then rounded up with the probability of what is left over
    const stays: Rational = [d - (n - code * d), d];
    const uniform = new Uniform(words); // its leading part is public: the dither
    code += BigInt(draw(zeroWith(stays), words, uniform));
    const part = draw(parts, words, uniform);
    const digits = [];
    for (let left = Number(code), place = cells.length - 1; place >= 0; place--) {
      const base = cells[place]!.largest + 1;
      digits.unshift(left % base);
      left = Math.floor(left / base);
    }
    return [digits, part];
  };
}
