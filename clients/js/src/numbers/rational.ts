/** Exact fractions of BigInts, as [numerator, denominator above 0]; not reduced. */
export type Rational = readonly [bigint, bigint];

export const rational = (n: bigint | number, d: bigint | number = 1n): Rational => [
  BigInt(n),
  BigInt(d),
];
export const add = (a: Rational, b: Rational): Rational => [a[0] * b[1] + b[0] * a[1], a[1] * b[1]];
export const subtract = (a: Rational, b: Rational): Rational => add(a, [-b[0], b[1]]);
export const times = (a: Rational, b: Rational): Rational => [a[0] * b[0], a[1] * b[1]];
/** a/b, for b above 0. */
export const over = (a: Rational, b: Rational): Rational => [a[0] * b[1], a[1] * b[0]];
export const atMost = (a: Rational, b: Rational): boolean => a[0] * b[1] <= b[0] * a[1];

let watcher: ((name: string, left: Rational, right: Rational) => void) | undefined;
/** Has `holds` tell both sides of every inequality; for the page that shows a proof. */
export const watch = (told: typeof watcher): void => void (watcher = told);
/** Whether left ≤ right: an inequality of a proof, with its name. */
export function holds(name: string, left: Rational, right: Rational): boolean {
  watcher?.(name, left, right);
  return atMost(left, right);
}
export const same = (a: Rational, b: Rational): boolean => a[0] * b[1] === b[0] * a[1];
export const larger = (a: Rational, b: Rational): Rational => (atMost(a, b) ? b : a);
export const ONE: Rational = [1n, 1n];
export const ZERO: Rational = [0n, 1n];

export const sum = (all: Iterable<Rational>): Rational => {
  let total = ZERO;
  for (const one of all) total = add(total, one);
  return total;
};

/** The quotient rounded down, for a divisor above 0. */
export function floor(n: bigint, d: bigint): bigint {
  const whole = n / d;
  return n < 0n && whole * d !== n ? whole - 1n : whole;
}

/** The quotient rounded up, for a divisor above 0. */
export const ceil = (n: bigint, d: bigint): bigint => -floor(-n, d);

export function gcd(a: bigint, b: bigint): bigint {
  while (b) [a, b] = [b, a % b];
  return a < 0n ? -a : a;
}

/** The canonical text of a fraction: reduced, "3" or "-1/3". */
export function text([n, d]: Rational): string {
  const common = gcd(n, d);
  return d === common ? `${n / common}` : `${n / common}/${d / common}`;
}

/** The fraction whose canonical text this is; null for anything else. */
export function parse(written: unknown): Rational | null {
  if (typeof written !== "string" || !/^-?\d{1,400}(\/\d{1,400})?$/.test(written)) return null;
  const [n, d = "1"] = written.split("/") as [string, string?];
  const found: Rational = [BigInt(n), BigInt(d)];
  return found[1] > 0n && text(found) === written ? found : null;
}

/** A float as the fraction that it is exactly. */
export function exact(number: number): Rational {
  let d = 1n;
  while (!Number.isInteger(number)) [number, d] = [number * 2, d * 2n]; // doubling a float is exact
  return [BigInt(number), d];
}

/** The fraction for people: a decimal of at most six digits. */
export function show([n, d]: Rational): string {
  return String(Number((Number(n) / Number(d)).toPrecision(6)));
}
