/** Sparse cells: any number of buckets, at most Z+1 messages per user (docs/protocol.md, "The sparse
 * cell"; docs/mathematics.md, "Sparse histograms"). Loaded only for tasks that have one. */
import { notPrivate } from "../errors.js";
import {
  atMost,
  holds,
  ONE,
  rational,
  subtract,
  text,
  times,
  type Rational,
} from "../numbers/rational.js";
import { exponentialBelow } from "../numbers/rounding.js";
import type { Words } from "../numbers/sampling.js";
import { choice, record } from "../schema.js";
import { EPSILON } from "./base.js";
import { BRANCHED, branched, BranchedCell, CHANCE } from "./branched.js";
import { urn } from "./urn.js";

const SPARSE = record({ kind: choice("sparse"), epsilon: EPSILON, share: CHANCE, ...BRANCHED });

class SparseCell extends BranchedCell<ReturnType<typeof SPARSE>> {
  readonly kind = "sparse";
  readonly size = this.given.cut + 1;

  noise(tokens: () => number, jumps: boolean, words: Words): number[] {
    return urn(this.given, jumps ? this.size : tokens(), words);
  }

  /** Replacing any value, or none, costs at most ε if p·m·s ≤ φ·o·β·(e^ε − 1) with
   * s = s_(Z+1)/C, and p·m ≤ (m − φ(m − 1))·q·β·(e^ε − 1). */
  prove(up: Rational, down: Rational): void {
    const { epsilon, decay, share, data, muted } = this.given;
    if (!holds("loss", epsilon, up) || !atMost(epsilon, down))
      notPrivate("a replacement costs more than is allowed");
    const price = times(decay, subtract(exponentialBelow(epsilon), ONE));
    const users = rational(this.users);
    this.proveJumps("spill", times(share, price), true);
    const left = subtract(users, times(share, rational(this.users - 1)));
    if (!holds("cover", times(data, users), times(times(left, muted), price)))
      notPrivate("too few users are muted");
  }

  agrees({ rule, replacement }: { rule?: unknown; replacement?: unknown }): boolean {
    return rule === "sparse histogram" && replacement === text(this.upLoss);
  }
}

export const kind = branched(
  SPARSE,
  (given) => new SparseCell(given, given.epsilon, given.epsilon),
);
