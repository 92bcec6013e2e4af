/** The kinds of cells that this client knows: one line per kind. */
import { bad } from "../errors.js";
import type { Check } from "../schema.js";
import { kindOf, type CellKind, type GroupKind, type IndependentCell } from "./base.js";
import { boundedCell } from "./bounded.js";

/** Cells that are drawn together. Each kind is loaded for tasks that name it. */
const GROUPS: Record<string, () => Promise<{ readonly kind: GroupKind }>> = {
  kept: () => import("./kept.js"),
  pooled: () => import("./pooled.js"),
  shared: () => import("./digits.js"),
  sparse: () => import("./sparse.js"),
};

/** How a task's cells are read. */
export interface Cells {
  /** A cell that is drawn independently. */
  readonly cell: Check<IndependentCell>;
  /** The loaded kinds of cells that are drawn together, by name. */
  readonly groups: ReadonlyMap<unknown, GroupKind>;
}

/** Loads the kinds of cells that a canonical text names; `given` are kinds of independent cells that
 * the page adds. */
export async function loadCells(text: string, given: readonly CellKind[]): Promise<Cells> {
  const groups = new Map<unknown, GroupKind>();
  for (const name in GROUPS)
    if (text.includes(`"kind":"${name}"`)) groups.set(name, (await GROUPS[name]!()).kind);
  return {
    cell: (data, name) =>
      (
        [boundedCell, ...given].find(({ kind }) => kind === kindOf(data)) ??
        bad(`${name} is of a kind that this client cannot read`)
      ).read(data, name),
    groups,
  };
}
