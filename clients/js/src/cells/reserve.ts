/** Whether padded reports are long enough where they may be shorter than the longest report
 * (padding "2^-64"). Loaded only for such tasks. */
import { holds } from "../numbers/rational.js";
import type { CutNoise } from "../numbers/sampling.js";
import { MASS_BITS, type CellGroup, type MessageLaws } from "./base.js";
import type { BoundedCell } from "./bounded.js";

/** `messageLaws` of a bounded cell. */
export function boundedLaws(cell: BoundedCell, copies: number): MessageLaws {
  const parts = [{ masses: massesOf(cell, cell.largest), count: 1 }];
  if (copies > 1) parts.push({ masses: massesOf(cell, 0), count: copies - 1 });
  return { sure: 0, parts };
}

/** P(a user with this value sends 0..K messages)·2^MASS_BITS, rounded down. */
function massesOf(cell: BoundedCell, value: number): bigint[] {
  const { mostMessages, scale, noise, up, down, largest } = cell;
  const weights = cell.weights[value ? 1 : 0];
  const found = Array<bigint>(mostMessages + 1).fill(0n);
  const total = weights.reduce((all, one) => all + one, scale);
  const branch = (
    offset: number,
    odds: readonly bigint[],
    [upwards, downwards]: readonly [CutNoise, CutNoise],
  ) => {
    const chances = odds.map((one) => (one << BigInt(MASS_BITS)) / total);
    const both = multiply(noiseMasses(upwards), noiseMasses(downwards).reverse());
    multiply(chances, both).forEach((mass, k) => (found[offset + k]! += mass));
  };
  branch(down.muted_cut + value, [scale], [noise.up, noise.down]);
  branch(down.muted_cut + up.cut + 1, weights.slice(0, largest), [noise.upMuted, noise.down]);
  branch(0, weights.slice(largest).reverse(), [noise.up, noise.downMuted]);
  return found;
}

/** P(X = 0..cut)·2^MASS_BITS, rounded down. */
const noiseMasses = (law: CutNoise): bigint[] =>
  Array.from({ length: law.last + 1 }, (_, k) => {
    const to = k < law.last ? law.around(k, MASS_BITS)[0] : 1n << BigInt(MASS_BITS);
    const from = k ? law.around(k - 1, MASS_BITS)[1] : 0n;
    return to > from ? to - from : 0n;
  });

/** Whether reports of `size` messages are too short with probability at most 2⁻⁶⁴ in a batch of
 * `reports`. */
export async function reserveHolds(
  groups: readonly CellGroup[],
  size: number,
  reports: number,
): Promise<boolean> {
  const laws = await Promise.all(groups.map((group) => group.messageLaws(size)));
  const most = size - laws.reduce((sum, law) => sum + law.sure, 0);
  if (most < 0) return false;
  let masses = [1n << BigInt(MASS_BITS)]; // of up to `most` messages, rounded down
  for (const { parts } of laws)
    for (const { masses: base, count } of parts)
      masses = multiply(masses, power(base, count, most), most);
  const sent = masses.reduce((sum, mass) => sum + mass, 0n);
  const short = (1n << BigInt(MASS_BITS)) - sent;
  return holds("padding", [short * BigInt(reports), 1n << BigInt(MASS_BITS)], [1n, 1n << 64n]);
}

function power(base: readonly bigint[], count: number, most: number): bigint[] {
  let result = [1n << BigInt(MASS_BITS)];
  for (let square = base.slice(0, most + 1), left = count; left; left = Math.floor(left / 2)) {
    if (left % 2) result = multiply(result, square, most);
    if (left > 1) square = multiply(square, square, most);
  }
  return result;
}

/** The product of two polynomials with coefficients over 2^MASS_BITS, up to x^most, rounded down.
 * Both are packed into one long number each, so that one multiplication does. */
function multiply(a: readonly bigint[], b: readonly bigint[], most = Infinity): bigint[] {
  const digits = (2 * MASS_BITS + 24) / 4; // of a slot in hexadecimal: no sum of products is longer
  const pack = (all: readonly bigint[]) =>
    BigInt(
      `0x${all
        .map((one) => one.toString(16).padStart(digits, "0"))
        .reverse()
        .join("")}`,
    );
  const both = (pack(a) * pack(b)).toString(16).padStart((a.length + b.length) * digits, "0");
  const found = [];
  for (let k = 0; k <= Math.min(most, a.length + b.length - 2); k++) {
    const end = both.length - k * digits;
    found.push(BigInt(`0x${both.slice(end - digits, end)}`) >> BigInt(MASS_BITS));
  }
  return found;
}
