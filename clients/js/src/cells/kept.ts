/** Kept cells: the labels outside a list of heavy ones; a user may have none of them
 * (docs/protocol.md, "The kept cell"; docs/mathematics.md, "Sparse histograms"). Loaded only for
 * tasks that have one. */
import { notPrivate } from "../errors.js";
import { add, holds, ONE, subtract, text, times } from "../numbers/rational.js";
import { exponentialBelow } from "../numbers/rounding.js";
import { choice, record } from "../schema.js";
import { EPSILON } from "./base.js";
import { BRANCHED, branched, proveJumps } from "./branched.js";
import { urn } from "./urn.js";

const KEPT = record({ kind: choice("kept"), up: EPSILON, down: EPSILON, ...BRANCHED });

const COSTLY = "a change costs more than is allowed";

export const kind = branched(KEPT, (given) => ({
  kind: "kept",
  upLoss: given.up,
  downLoss: given.down,
  size: 2 * given.cut + 1,

  noise(tokens, jumps, words) {
    const buckets = urn(given, tokens(), words);
    if (jumps) buckets.push(...urn(given, given.cut + 1, words));
    return buckets;
  },

  /** A value instead of none costs at most u if p + q·β ≤ e^u·β(p + q) and
   * p·m·s_(Z+1) ≤ (e^u − 1)·β·o; none instead of a value at most d if p + q ≤ e^d·q. */
  prove(up, down) {
    const { decay, data, muted } = given;
    if (!holds("loss", given.up, up)) notPrivate(COSTLY);
    const taken = exponentialBelow(given.up);
    const stay = add(data, muted);
    if (!holds("taken", add(data, times(muted, decay)), times(times(taken, decay), stay)))
      notPrivate("too few users are muted for a value instead of none");
    const allowed = times(subtract(taken, ONE), decay);
    proveJumps(given, { name: "beyond", allowed, cut: false });
    if (!holds("loss", given.down, down)) notPrivate(COSTLY);
    if (!holds("muting", stay, times(exponentialBelow(given.down), muted)))
      notPrivate("too few users are muted for none instead of a value");
  },

  agrees: ({ rule, up, down }: { rule?: unknown; up?: unknown; down?: unknown }) =>
    rule === "sparse histogram beside exact cells" &&
    up === text(given.up) &&
    down === text(given.down),
}));
