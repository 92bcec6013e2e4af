/** How many users have each of some labels: a cell per label, or one for all. Loaded only for such
 * tasks. */
import { equalCells, kindOf, type CellGroup, type IndependentCell } from "../cells/base.js";
import type { Cells } from "../cells/registry.js";
import { bad } from "../errors.js";
import { add, atMost, larger, subtract, ZERO, type Rational } from "../numbers/rational.js";
import { anything, list, record, whole } from "../schema.js";
import { ANY, drawnAtOnce, UP_AND_DOWN } from "./atOnce.js";
import { LABEL, parameters, wrong, zeroOrOne, type Query, type Value } from "./base.js";

const MOST_LABELS = 10 ** 6;

export const query: Query = (data, cells) => {
  const fields = {
    cell: anything,
    labels: (one: unknown, name: string): readonly Value[] =>
      typeof one === "number"
        ? Array.from({ length: whole(2, MOST_LABELS)(one, name) }, (_, label) => label)
        : list(LABEL, 2, MOST_LABELS)(one, name),
    other: (one: unknown, name: string): Value | null => (one === null ? one : LABEL(one, name)),
  };
  const { epsilon, cell, labels, other, heavy } = parameters(data, fields, {
    heavy: record({ labels: list(LABEL, 1, MOST_LABELS), cell: zeroOrOne(cells) }),
  });
  const places = new Map(labels.map((one, place) => [one, place]));
  if (places.size < labels.length || (other !== null && !places.has(other)))
    bad("The labels must differ, and the one for other values must be among them");
  const place = (value: unknown): number =>
    places.get(value as Value) ??
    places.get(other as Value) ??
    wrong("one of the labels of this task");
  const common = {
    epsilon,
    allowsTopUp: true,
    values: { kind: "label", labels, other } as const,
  };
  if (heavy) {
    const listed = new Map(heavy.labels.map((one, at) => [places.get(one), at]));
    if (listed.has(undefined) || listed.size < heavy.labels.length || listed.size >= labels.length)
      bad("Heavy labels must be some of the labels, each once");
    const rest = keptCell(cell, cells, labels.length - listed.size);
    let others = 0;
    const buckets = labels.map((_, at) => (listed.has(at) ? -1 : others++));
    return {
      ...common,
      ...beside({ cell: heavy.cell, copies: listed.size }, rest, epsilon),
      encode(value) {
        const at = place(value);
        const exact = heavy.labels.map((_, one) => Number(one === listed.get(at)));
        return { held: [exact, [buckets[at]!]] };
      },
    };
  }
  const atOnce = drawnAtOnce(cell, cells, { buckets: labels.length, epsilon });
  if (atOnce)
    return {
      ...common,
      ...atOnce,
      lossRule: atOnce.any ? ANY : UP_AND_DOWN,
      encode: (value) => ({ held: [[place(value)]] }),
    };
  const one = zeroOrOne(cells)(cell, "protocol.cell");
  const { upLoss: up } = one;
  const down = subtract(epsilon, up);
  if (atMost(down, ZERO)) bad("Nothing is left for changes downwards");
  return {
    ...common,
    groups: [equalCells({ cell: one, copies: labels.length, up, down })],
    loss: epsilon,
    lossRule: UP_AND_DOWN,
    encode(value) {
      const held = place(value);
      return { held: [labels.map((_, bucket) => Number(bucket === held))] };
    },
  };
};

/** The kept cell of all labels that are not heavy. */
function keptCell(cell: unknown, { groups }: Cells, buckets: number): CellGroup {
  const kind = groups.get("kept");
  if (kindOf(cell) !== "kept" || !kind) return bad("Beside heavy labels a kept cell is needed");
  const group = kind.read(cell, "protocol.cell");
  return group.counters === buckets ? group : bad("The cell is for as many labels as buckets");
}

/** Exact cells of heavy labels and the kept cell of all others: a replacement takes one label down
 * and another one up, each of them heavy or not. */
function beside(
  { cell, copies }: { readonly cell: IndependentCell; readonly copies: number },
  rest: CellGroup,
  epsilon: Rational,
) {
  const { up: kept, down: keptDown } = rest.uses[0]!;
  const up = larger(cell.upLoss, kept);
  const down = subtract(epsilon, up);
  if (cell.kind !== "bounded") bad("Heavy labels need bounded cells");
  if (atMost(down, ZERO)) bad("Nothing is left for changes downwards");
  return {
    groups: [equalCells({ cell, copies, up: cell.upLoss, down }), rest],
    loss: add(up, larger(down, keptDown)),
    lossRule: "larger up + larger down",
  };
}
