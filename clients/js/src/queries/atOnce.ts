/** Buckets whose cell draws all of them at once. */
import { kindOf, type CellGroup } from "../cells/base.js";
import type { Cells } from "../cells/registry.js";
import { bad } from "../errors.js";
import { add, same, type Rational } from "../numbers/rational.js";

export const UP_AND_DOWN = "up + down";

/** The group of such a cell and what a replacement costs; null for a cell that is drawn
 * independently of others. A sparse cell has one price for every replacement. */
export function drawnAtOnce(
  cell: unknown,
  { groups }: Cells,
  { buckets, epsilon }: { readonly buckets: number; readonly epsilon: Rational },
): {
  readonly groups: readonly CellGroup[];
  readonly loss: Rational;
  readonly any: boolean;
} | null {
  const kind = groups.get(kindOf(cell));
  if (!kind) return null;
  const group = kind.read(cell, "protocol.cell");
  const { up, down, cell: one } = group.uses[0]!;
  if (group.counters !== buckets) bad("The cell is for as many labels as buckets");
  if (one.kind === "kept") bad("A kept cell is for the labels beside heavy ones");
  const any = one.kind === "sparse";
  if (!any && !same(add(up, down), epsilon)) bad("The cell is for its own losses");
  return { groups: [group], loss: any ? up : epsilon, any };
}

/** How losses add up where every replacement costs the same. */
export const ANY = "any replacement";
