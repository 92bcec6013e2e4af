/** Sparse cells: any number of buckets, at most Z+1 messages per user (docs/protocol.md, "The sparse
 * cell"; docs/mathematics.md, "Sparse histograms"). Loaded only for tasks that have one. */
import { notPrivate } from "../errors.js";
import { atMost, holds, ONE, rational, subtract, text, times } from "../numbers/rational.js";
import { exponentialBelow } from "../numbers/rounding.js";
import { choice, record } from "../schema.js";
import { EPSILON } from "./base.js";
import { BRANCHED, branched, CHANCE, proveJumps } from "./branched.js";
import { urn } from "./urn.js";

const SPARSE = record({ kind: choice("sparse"), epsilon: EPSILON, share: CHANCE, ...BRANCHED });

export const kind = branched(SPARSE, (given) => ({
  kind: "sparse",
  upLoss: given.epsilon,
  downLoss: given.epsilon,
  size: given.cut + 1,

  noise: (tokens, jumps, words) => urn(given, jumps ? given.cut + 1 : tokens(), words),

  /** Replacing any value, or none, costs at most ε if p·m·s ≤ φ·o·β·(e^ε − 1) with
   * s = s_(Z+1)/C, and p·m ≤ (m − φ(m − 1))·q·β·(e^ε − 1). */
  prove(up, down) {
    const { epsilon, decay, share, data, muted } = given;
    if (!holds("loss", epsilon, up) || !atMost(epsilon, down))
      notPrivate("a replacement costs more than is allowed");
    const price = times(decay, subtract(exponentialBelow(epsilon), ONE));
    const users = rational(given.users);
    proveJumps(given, { name: "spill", allowed: times(share, price), cut: true });
    const left = subtract(users, times(share, rational(given.users - 1)));
    if (!holds("cover", times(data, users), times(times(left, muted), price)))
      notPrivate("too few users are muted");
  },

  agrees: ({ rule, replacement }: { rule?: unknown; replacement?: unknown }) =>
    rule === "sparse histogram" && replacement === text(given.epsilon),
}));
