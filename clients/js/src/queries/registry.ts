/** The queries that this client answers: one line per query. */
import type { CellKind } from "../cells/base.js";
import { loadCells } from "../cells/registry.js";
import { notPrivate } from "../errors.js";
import { holds } from "../numbers/rational.js";
import { choice, type Check } from "../schema.js";
import type { Protocol, Query } from "./base.js";

/** By the name in a task; each is loaded when a task asks it. */
const QUERIES: Record<string, () => Promise<{ readonly query: Query }>> = {
  count: () => import("./count.js"),
  "integer-sum": () => import("./integerSum.js"),
  "real-sum": () => import("./realSum.js"),
  histogram: () => import("./histogram.js"),
  quantiles: () => import("./quantiles.js"),
  frequencies: () => import("./frequencies.js"),
  "heavy-hitters": () => import("./heavyHitters.js"),
  "by-group": () => import("./byGroup.js"),
};

/** The names of all queries that this client answers. */
export const supportedQueries: readonly string[] = Object.keys(QUERIES);

/** How to read the protocol of a task with this query: loads the query, and the kinds of cells that
 * the task's text names. The cells of the protocol together cost at most its ε. */
export async function protocolReader(
  named: unknown,
  text: string,
  kinds: readonly CellKind[],
): Promise<Check<Protocol>> {
  const query = choice(...supportedQueries)(named, "task.certificate.protocol.query");
  const { query: read } = await QUERIES[query]!();
  const cells = await loadCells(text, kinds);
  return (data) => {
    const found = read(data, cells);
    const { users } = found.groups[0]!.uses[0]!.cell;
    const protocol = { query, users, publicMessages: 0, ...found };
    if (
      protocol.groups.some(({ uses }) => uses.some(({ cell }) => cell.users !== users)) ||
      !holds("total", protocol.loss, protocol.epsilon)
    )
      notPrivate("the cells' users differ, or cost more than ε");
    return protocol;
  };
}
