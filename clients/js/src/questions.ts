/** The questions that can be asked: how a value becomes the values of cells, and what that costs. */
import { boundedCell, EPSILON, type Cell, type CellKind } from "./cells.js";
import { fail } from "./errors.js";
import { atMost, larger, type Rational } from "./rational.js";
import type { Words } from "./sampling.js";
import { choice, record, textOf, whole, type Check } from "./schema.js";

/** A BigInt is for labels of frequencies beyond ±(2⁵³ − 1). */
export type Value = number | string | bigint;

/** What a person answers: a value, or in tasks by group the label of a group and a number. */
export type Answer = Value | readonly [group: Value, value: number];

/** A cell, how many copies of it run side by side, and what a change may cost. */
export interface CellUse {
  readonly cell: Cell;
  readonly copies: number;
  readonly up: Rational;
  readonly down: Rational;
}

/** Which values a question takes. */
export type Values =
  | { readonly kind: "whole"; readonly least: number; readonly most: number }
  | { readonly kind: "number"; readonly least: string; readonly most: string }
  | { readonly kind: "date"; readonly least: string; readonly most: string; readonly unit: "day" | "second" }
  | { readonly kind: "label"; readonly labels: readonly Value[]; readonly other: Value | null }
  | { readonly kind: "any"; readonly candidates: readonly Value[] }
  | { readonly kind: "group"; readonly labels: readonly Value[]; readonly value: Values };

/** What cells hold, in the order of their numbers; the number of the first of them (0); +1 messages beside
 * those of the cells. */
export type Held = readonly [values: readonly number[], first?: number, calls?: readonly number[]];

export interface Question {
  readonly query: string;
  readonly epsilon: Rational;
  readonly uses: readonly CellUse[];
  readonly loss: Rational;
  readonly lossRule: string;
  readonly allowsTopUp: boolean;
  readonly values: Values;
  /** How many users take part in all. */
  readonly users: number;
  /** How many messages every report has beside those of its cells. */
  readonly calls: number;
  encode(value: Answer, words: Words): Held | Promise<Held>;
}

export const QUERY = choice("count", "integer-sum", "real-sum", "histogram", "quantiles", "frequencies", "by-group");

export type Reader = (data: unknown, cell: Check<Cell>) => Omit<Question, "query" | "epsilon" | "users" | "calls"> & Partial<Question>;

export const wrong = (allowed: string): never => fail("value", `The value must be ${allowed}; nothing was sent.`);

export const bad = (why: string): never => fail("task", `${why}; ask for a new task.`);

/** Cells for the values 0 and 1. */
export const zeroOrOne =
  (cellOf: Check<Cell>): Check<Cell> =>
  (data, name) => {
    const cell = cellOf(data, name);
    return cell.largest === 1 && !cell.absentValue ? cell : bad(`${name} must be for the values 0 and 1`);
  };

const integers =
  (restrict: (cellOf: Check<Cell>) => Check<Cell>): Reader =>
  (data, cellOf) => {
  const { epsilon, cell } = record({ query: QUERY, epsilon: EPSILON, cell: restrict(cellOf) })(data, "protocol");
  return {
    uses: [{ cell, copies: 1, up: cell.upLoss, down: epsilon }],
    loss: larger(cell.upLoss, epsilon),
    lossRule: "max(up, down)",
    allowsTopUp: true,
    values: { kind: "whole", least: 0, most: cell.largest },
    encode: (value) =>
      Number.isInteger(value) && (value as number) >= 0 && (value as number) <= cell.largest
        ? [[value as number]]
        : wrong(`a whole number from 0 to ${cell.largest}`),
  };
};

export const LABEL: Check<Value> = (data, name) =>
  (typeof data === "number" ? whole(-Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER) : textOf(0, 1000))(data, name);

export type Readers = Partial<Record<ReturnType<typeof QUERY>, Reader>>;

/** How to read the question of a task; those beyond counts and integer sums are loaded only when one is asked. */
export async function readersFor(task: string): Promise<Readers> {
  return {
    count: integers(zeroOrOne),
    "integer-sum": integers((cellOf) => cellOf),
    ...(/"query":"histogram"/.test(task) && (await import("./labels.js")).READERS),
    ...(/"query":"(real-sum|quantiles)"/.test(task) && (await import("./numbers.js")).READERS),
    ...(/"query":"by-group"/.test(task) && (await import("./groups.js")).READERS),
    ...(/"query":"frequencies"/.test(task) && (await import("./frequencies.js")).READERS),
  };
}

/** The question in a task's certificate; its cells add up to no more than its ε. */
export const questionOf =
  (readers: Readers, kinds: readonly CellKind[]): Check<Question> =>
  (data, name) => {
    const fields = data as { query?: unknown; epsilon?: unknown } | null;
    const query = QUERY(fields?.query, `${name}.query`);
    const epsilon = EPSILON(fields!.epsilon, `${name}.epsilon`);
    const cellOf: Check<Cell> = (cell, where) => {
      const kind = (cell as { kind?: unknown } | null)?.kind;
      const known = [boundedCell, ...kinds].find((one) => one.kind === kind);
      return (known ?? bad(`${where} is of a kind that this client was not given`)).read(cell, where);
    };
    const found = readers[query]!(data, cellOf);
    const { users } = found.uses[0]!.cell;
    const question = { query, epsilon, users, calls: 0, ...found };
    if (question.uses.some(({ cell }) => cell.users !== users) || !atMost(question.loss, epsilon))
      fail("privacy", "The cells' users differ, or their losses add up to more than ε. Do not answer this task.");
    return question;
  };
