/** Proving a task: what is checked before signatures, and what is proved after them. */
import { bad } from "../errors.js";
import type { Task } from "./task.js";

const MOST_CELLS = 1 << 30;
/** Exact operations of a proof, about: a few seconds on a device. */
const MOST_PROOF_STEPS = 4e6;

/** Throws unless reports are long enough, as far as that is known without the noise, and the proof
 * is short enough for a device. */
export async function checkSize(task: Task): Promise<void> {
  if (task.series !== undefined) (await import("./series.js")).checkSeries(task);
  const { groups, publicMessages } = task.protocol;
  let [need, cells, steps] = [publicMessages, 0, 0];
  for (const { uses, mostMessages, leastMessages, counters } of groups) {
    need += task.padding === "exact" ? mostMessages : leastMessages;
    cells += counters;
    for (const { cell } of uses) steps += cell.proofSteps;
  }
  if (need > task.reportSize || cells > MOST_CELLS) tooShort(task);
  if (!(steps <= MOST_PROOF_STEPS)) bad("The proof of this task takes too long for a device");
}

/** Throws unless this device can prove that the parameters are private and that reports are long
 * enough. Requires `checkSize`. */
export async function prove(task: Task): Promise<void> {
  const { groups, publicMessages } = task.protocol;
  for (const { uses } of groups) for (const { cell, up, down } of uses) cell.prove(up, down);
  if (task.padding === "exact") return;
  const { reserveHolds } = await import("../cells/reserve.js");
  if (!(await reserveHolds(groups, task.reportSize - publicMessages, task.batchReports)))
    tooShort(task);
}

const tooShort = ({ reportSize }: Task): never =>
  bad(`Reports of ${reportSize} messages are too short for this task`);
