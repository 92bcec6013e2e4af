/** Whether padded reports are long enough where there is no longest report: the paper's cells
 * (padding "2^-64"). Loaded only for such tasks. */
import { holds } from "../numbers/rational.js";
import { MASS_BITS, type CellGroup } from "./base.js";

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
