/** Checks of JSON from outside: nothing is used before it has passed one. */
import { bad, fail } from "./errors.js";
import { atMost, parse, show, type Rational } from "./numbers/rational.js";

/** Returns the data with the type it was checked to have, or throws; `name` is its path in the
 * document. */
export type Check<T> = (data: unknown, name: string) => T;
export type Fields = Record<string, Check<unknown>>;
export type Checked<F extends Fields> = { readonly [K in keyof F]: ReturnType<F[K]> };

const refuse = (name: string, allowed: string): never =>
  fail(name.startsWith("policy") ? "policy" : "task", `${name} must be ${allowed}.`);

/** An object with all of `fields`, any of `optional`, and nothing else. */
export const record =
  <F extends Fields, O extends Fields = Record<never, never>>(
    fields: F,
    optional?: O,
  ): Check<Checked<F> & Partial<Checked<O>>> =>
  (data, name) => {
    if (typeof data !== "object" || !data || Array.isArray(data)) refuse(name, "an object");
    const known: Fields = { ...fields, ...optional };
    const found: Record<string, unknown> = {};
    for (const field of new Set([...Object.keys(fields), ...Object.keys(data as object)])) {
      if (!Object.hasOwn(known, field) || !Object.hasOwn(data as object, field))
        refuse(name, `an object with ${Object.keys(known).join(", ")}`);
      found[field] = known[field]!((data as Record<string, unknown>)[field], `${name}.${field}`);
    }
    return found as Checked<F> & Partial<Checked<O>>;
  };

export const whole =
  (least: number, most: number): Check<number> =>
  (data, name) =>
    Number.isSafeInteger(data) && (data as number) >= least && (data as number) <= most
      ? (data as number)
      : refuse(name, `a whole number from ${least} to ${most}`);

/** An exact number as text, from `least` to `most`. */
export const exactly =
  (least: Rational, most: Rational): Check<Rational> =>
  (data, name) => {
    const found = parse(data);
    return found && atMost(least, found) && atMost(found, most)
      ? found
      : refuse(name, `an exact number as text, like "1/3", from ${show(least)} to ${show(most)}`);
  };

/** A text of `least` to `most` characters that matches `form`. */
export const textOf =
  (least: number, most: number, form = /^/): Check<string> =>
  (data, name) => {
    const long =
      typeof data === "string" && !/\p{Cs}/u.test(data) && form.test(data) ? [...data].length : -1;
    return long >= least && long <= most
      ? (data as string)
      : refuse(
          name,
          `a text of ${least} to ${most} characters${form.source === "^" ? "" : " of the right form"}`,
        );
  };

export const choice =
  <T extends string | boolean>(...allowed: readonly T[]): Check<T> =>
  (data, name) =>
    allowed.includes(data as T)
      ? (data as T)
      : refuse(name, allowed.map((one) => JSON.stringify(one)).join(" or "));

export const list =
  <T>(item: Check<T>, least: number, most: number): Check<readonly T[]> =>
  (data, name) =>
    Array.isArray(data) && data.length >= least && data.length <= most
      ? data.map((one) => item(one, name))
      : refuse(name, `a list of ${least} to ${most} items`);

export const anything: Check<unknown> = (data) => data;

/** Parses canonical JSON: names sorted, no spaces, only whole numbers within ±(2⁵³ − 1). */
export function readCanonical(text: string): unknown {
  try {
    const data: unknown = JSON.parse(text);
    if (canonical(data) === text) return data;
  } catch {
    // not JSON, or nested too deeply
  }
  return bad("The task is not canonical JSON");
}

/** The canonical text of JSON; `readCanonical` refuses what this writes for other data. */
export function canonical(data: unknown, depth = 0): string {
  if (depth > 24) throw new RangeError();
  const inside = (one: unknown): string => canonical(one, depth + 1);
  if (Array.isArray(data)) return `[${data.map(inside)}]`;
  if (typeof data !== "object" || !data)
    return typeof data === "number" && !Number.isSafeInteger(data) ? "" : JSON.stringify(data);
  const names = Object.keys(data).sort();
  return names.some((name) => /[^ -~]/.test(name))
    ? ""
    : `{${names.map((name) => `${JSON.stringify(name)}:${inside((data as Record<string, unknown>)[name])}`)}}`;
}
