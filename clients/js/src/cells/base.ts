/** Cells, and groups of cells: what a protocol draws at once and what a report must hold for it. */
import { bad } from "../errors.js";
import type { Rational } from "../numbers/rational.js";
import type { Words } from "../numbers/sampling.js";
import { exactly, whole } from "../schema.js";

export const EPSILON = exactly([1n, 10n ** 9n], [1000n, 1n]);
export const USERS = whole(1, 10 ** 13);

/** A counter of values 0..largest, and the proof of what its reports reveal. */
export interface Cell {
  readonly kind: string;
  readonly users: number;
  readonly largest: number;
  /** The ε that a change upwards costs. */
  readonly upLoss: Rational;
  /** What the estimate counts for a missing user. */
  readonly absentValue: number;
  /** About how many exact operations `prove` takes: known before it begins. */
  readonly proofSteps: number;
  /** Throws unless a change upwards costs at most `up` and one downwards at most `down`. */
  prove(up: Rational, down: Rational): void;
  /** Whether what a certificate says about its proof is true of this cell. */
  agrees(proof: object): boolean;
}

/** Equal cells and what a change of their value may cost: an entry of a certificate's `cells`. */
export interface CellUse<C extends Cell = Cell> {
  readonly cell: C;
  readonly copies: number;
  readonly up: Rational;
  readonly down: Rational;
}

/** Counters of a group, numbered from 0, each as often as it gets a message of +1 or −1. */
export type Messages = readonly [plus: readonly number[], minus: readonly number[]];

/** How many messages a user sends: `sure`, and independent parts, each the sum of `count` draws
 * with these probabilities of 0, 1, 2, … (times 2^MASS_BITS, rounded down). */
export interface MessageLaws {
  readonly sure: number;
  readonly parts: readonly { readonly masses: readonly bigint[]; readonly count: number }[];
}

export const MASS_BITS = 192;

/** The message laws of a kind whose reports always hold the most messages that a user sends. */
export const needsExactPadding = (kind: string) => (): Promise<MessageLaws> =>
  bad(`${kind[0]!.toUpperCase()}${kind.slice(1)} cells need exact padding`);

/** What a certificate says about the proof of a cell with two directions. */
export interface StatedProof {
  readonly most_messages?: unknown;
  readonly up?: { readonly rule?: unknown };
  readonly down?: { readonly rule?: unknown };
}

/** What a protocol draws at once: a single cell, equal copies, or cells that share a draw. */
export interface CellGroup {
  /** What the certificate lists for this group. */
  readonly uses: readonly CellUse[];
  /** How many counters it has; the next group's numbers follow. */
  readonly counters: number;
  /** The most messages that a user sends; Infinity if there is no limit. */
  readonly mostMessages: number;
  /** The fewest messages that a report must hold, whatever the noise. */
  readonly leastMessages: number;
  /** One exact draw of a user's messages. What `values` holds is between the group and its query;
   * for cells it is one value per counter. */
  draw(values: readonly number[], words: Words): Messages;
  /** The number of messages if one user holds a value; parts of at most `most` messages. */
  messageLaws(most: number): Promise<MessageLaws>;
}

/** A cell that is drawn independently of all others. */
export interface IndependentCell extends Cell {
  /** The most messages that a user sends; Infinity if there is no limit. */
  readonly mostMessages: number;
  /** The fewest messages that a report must hold, whatever the noise. */
  readonly leastMessages: number;
  /** [+1 messages, −1 messages] of a user with this value: an exact draw. */
  randomize(value: number, words: Words): readonly [number, number];
  /** For `copies` cells of which at most one holds another value than 0. */
  messageLaws(copies: number, most: number): Promise<MessageLaws>;
}

/** Equal copies of a cell, each drawn independently. */
export const equalCells = (use: CellUse<IndependentCell>): CellGroup => ({
  uses: [use],
  counters: use.copies,
  mostMessages: use.cell.mostMessages * use.copies,
  leastMessages: use.cell.leastMessages * use.copies,
  draw(values, words) {
    const messages: [number[], number[]] = [[], []];
    for (let copy = 0; copy < use.copies; copy++)
      use.cell.randomize(values[copy]!, words).forEach((count, sign) => {
        for (let i = 0; i < count; i++) messages[sign]!.push(copy);
      });
    return messages;
  },
  messageLaws: (most) => use.cell.messageLaws(use.copies, most),
});

/** A kind of independent cell: how to read one from a task. */
export interface CellKind {
  readonly kind: string;
  read(data: unknown, name: string): IndependentCell;
}

/** A kind of cells that are drawn together: how to read a group of them from a task. */
export interface GroupKind {
  read(data: unknown, name: string): CellGroup;
}

/** The kind that the JSON of a cell names. */
export const kindOf = (data: unknown): unknown => (data as { kind?: unknown } | null)?.kind;
