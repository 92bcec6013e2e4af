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
import { EPSILON, type GroupKind } from "./base.js";
import { BRANCHED, BranchedBuckets, BranchedCell, CHANCE, checkBranched } from "./branched.js";
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
    const { epsilon, decay, share, data, muted, jump } = this.given;
    if (!holds("loss", epsilon, up) || !atMost(epsilon, down))
      notPrivate("a replacement costs more than is allowed");
    const price = times(decay, subtract(exponentialBelow(epsilon), ONE));
    const users = rational(this.users);
    const claimed = times(times(data, users), this.spill());
    if (!holds("spill", claimed, times(times(share, jump), price)))
      notPrivate("there are too few jumps for the cut of the noise");
    const left = subtract(users, times(share, rational(this.users - 1)));
    if (!holds("cover", times(data, users), times(times(left, muted), price)))
      notPrivate("too few users are muted");
  }

  /** s_(Z+1)/C, where s_(J+1)/s_J = β(B + J·m)/(m(J + 1)). */
  private spill(): Rational {
    const { buckets, users, decay, cut } = this.given;
    const [m, b] = [BigInt(users), BigInt(buckets)];
    let [mass, sum] = [1n, 1n]; // over one denominator
    for (let j = 0n; j < cut; j++) {
      mass *= decay[0] * (b + j * m);
      sum = sum * decay[1] * m * (j + 1n) + mass;
    }
    const last = BigInt(cut);
    return [mass * decay[0] * (b + last * m), sum * decay[1] * m * (last + 1n)];
  }

  agrees({ rule, replacement }: { rule?: unknown; replacement?: unknown }): boolean {
    return rule === "sparse histogram" && replacement === text(this.upLoss);
  }
}

export const kind = {
  read(data, name) {
    const given = SPARSE(data, name);
    checkBranched(given, name, given.share);
    return new BranchedBuckets(new SparseCell(given, given.epsilon, given.epsilon));
  },
} satisfies GroupKind;
