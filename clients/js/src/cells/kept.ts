/** Kept cells: the labels outside a list of heavy ones; a user may have none of them
 * (docs/protocol.md, "The kept cell"; docs/mathematics.md, "Sparse histograms"). Loaded only for
 * tasks that have one. */
import { notPrivate } from "../errors.js";
import { add, holds, ONE, subtract, text, times, type Rational } from "../numbers/rational.js";
import { exponentialBelow } from "../numbers/rounding.js";
import type { Words } from "../numbers/sampling.js";
import { choice, record } from "../schema.js";
import { EPSILON } from "./base.js";
import { BRANCHED, branched, BranchedCell } from "./branched.js";
import { urn } from "./urn.js";

const KEPT = record({ kind: choice("kept"), up: EPSILON, down: EPSILON, ...BRANCHED });

const COSTLY = "a change costs more than is allowed";

class KeptCell extends BranchedCell<ReturnType<typeof KEPT>> {
  readonly kind = "kept";
  readonly size = 2 * this.given.cut + 1;

  noise(tokens: () => number, jumps: boolean, words: Words): number[] {
    const buckets = urn(this.given, tokens(), words);
    if (jumps) buckets.push(...urn(this.given, this.given.cut + 1, words));
    return buckets;
  }

  /** A value instead of none costs at most u if p + q·β ≤ e^u·β(p + q) and
   * p·m·s_(Z+1) ≤ (e^u − 1)·β·o; none instead of a value at most d if p + q ≤ e^d·q. */
  prove(up: Rational, down: Rational): void {
    const { decay, data, muted } = this.given;
    if (!holds("loss", this.upLoss, up)) notPrivate(COSTLY);
    const [taken, given] = [exponentialBelow(this.upLoss), exponentialBelow(this.downLoss)];
    const stay = add(data, muted);
    if (!holds("taken", add(data, times(muted, decay)), times(times(taken, decay), stay)))
      notPrivate("too few users are muted for a value instead of none");
    this.proveJumps("beyond", times(subtract(taken, ONE), decay), false);
    if (!holds("loss", this.downLoss, down)) notPrivate(COSTLY);
    if (!holds("muting", stay, times(given, muted)))
      notPrivate("too few users are muted for none instead of a value");
  }

  agrees({ rule, up, down }: { rule?: unknown; up?: unknown; down?: unknown }): boolean {
    return (
      rule === "sparse histogram beside exact cells" &&
      up === text(this.upLoss) &&
      down === text(this.downLoss)
    );
  }
}

export const kind = branched(KEPT, (given) => new KeptCell(given, given.up, given.down));
