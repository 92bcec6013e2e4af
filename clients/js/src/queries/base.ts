/** What all queries have in common: a protocol, read from a task, and the values it takes. */
import { EPSILON, type CellGroup, type IndependentCell } from "../cells/base.js";
import type { Cells } from "../cells/registry.js";
import { bad, fail } from "../errors.js";
import type { Rational } from "../numbers/rational.js";
import type { Words } from "../numbers/sampling.js";
import { anything, record, textOf, whole, type Check, type Fields } from "../schema.js";

/** A BigInt is for labels of frequencies beyond ±(2⁵³ − 1). */
export type Value = number | string | bigint;

/** What a person answers: a value, or in tasks by group the label of a group and a number. */
export type Answer = Value | readonly [group: Value, value: number];

/** Which values a query takes. */
export type Values =
  | { readonly kind: "whole"; readonly least: number; readonly most: number }
  | { readonly kind: "number"; readonly least: string; readonly most: string }
  | {
      readonly kind: "date";
      readonly least: string;
      readonly most: string;
      readonly unit: "day" | "second";
    }
  | { readonly kind: "label"; readonly labels: readonly Value[]; readonly other: Value | null }
  | { readonly kind: "any"; readonly candidates: readonly Value[] }
  | { readonly kind: "group"; readonly labels: readonly Value[]; readonly value: Values };

/** What a value becomes before noise is drawn. */
export interface Encoded {
  /** For each group of cells, what `CellGroup.draw` takes. */
  readonly held: readonly (readonly number[])[];
  /** Numbers of messages without noise, beside those of the cells. */
  readonly publicMessages?: readonly number[];
}

/** A query with all its parameters, as a task's certificate states it. */
export interface Protocol {
  readonly query: string;
  readonly epsilon: Rational;
  readonly groups: readonly CellGroup[];
  readonly loss: Rational;
  readonly lossRule: string;
  readonly allowsTopUp: boolean;
  readonly values: Values;
  /** How many users take part. */
  readonly users: number;
  /** How many messages without noise a report has at most. */
  readonly publicMessages: number;
  encode(value: Answer, words: Words): Encoded | Promise<Encoded>;
}

/** A query: reads its protocol from a task. The registry fills in what is the same for all. */
export type Query = (
  data: unknown,
  cells: Cells,
) => Omit<Protocol, "query" | "users" | "publicMessages"> & Partial<Protocol>;

/** Checks the parameters of a protocol, beside `query` and `epsilon`. */
export const parameters = <F extends Fields, O extends Fields = Record<never, never>>(
  data: unknown,
  fields: F,
  optional?: O,
) => record({ query: anything, epsilon: EPSILON, ...fields }, optional)(data, "protocol");

export const LABEL: Check<Value> = (data, name) =>
  (typeof data === "number"
    ? whole(-Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER)
    : textOf(0, 1000))(data, name);

/** A cell for the values 0 and 1. */
export const zeroOrOne =
  ({ cell }: Cells): Check<IndependentCell> =>
  (data, name) => {
    const found = cell(data, name);
    return found.largest === 1 && !found.absentValue
      ? found
      : bad(`${name} must be for the values 0 and 1`);
  };

/** Refuses a person's value, without showing it. */
export const wrong = (allowed: string): never =>
  fail("value", `The value must be ${allowed}; nothing was sent.`);

/** A whole number from 0 to `largest`. */
export const wholeUpTo = (largest: number, value: unknown, allowed: string): number =>
  Number.isInteger(value) && (value as number) >= 0 && (value as number) <= largest
    ? (value as number)
    : wrong(`${allowed} from 0 to ${largest}`);
