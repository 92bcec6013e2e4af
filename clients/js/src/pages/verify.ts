/** Checks a plan, a task, a published result or a certificate with the proofs of the client, and
 * keeps both sides of every inequality. */
import { hex, sha256, utf8 } from "../bytes.js";
import type { CellUse } from "../cells/base.js";
import { paperCell } from "../cells/paper.js";
import { readPolicy } from "../device/policy.js";
import { bad } from "../errors.js";
import { holds, text as written, watch, type Rational } from "../numbers/rational.js";
import type { Protocol } from "../queries/base.js";
import { protocolReader } from "../queries/registry.js";
import { canonical, readCanonical } from "../schema.js";
import { checkSize, prove } from "../task/proving.js";
import { certificateOf, readTask } from "../task/task.js";

export interface Inequality {
  /** Which one it is: "loss", "decay", … */
  readonly name: string;
  readonly left: Rational;
  readonly right: Rational;
}

/** What was proved about equal cells. */
export interface CheckedCell {
  readonly use: CellUse;
  readonly inequalities: readonly Inequality[];
}

export interface Verdict {
  readonly kind: "plan" | "task" | "result" | "certificate";
  readonly protocol: Protocol;
  /** The losses of all cells add up to at most ε. */
  readonly total: readonly Inequality[];
  readonly cells: readonly CheckedCell[];
  /** Of a task: that its reports are long enough. */
  readonly padding: readonly Inequality[];
  /** Of a task. */
  readonly id?: string;
  readonly question?: string;
}

interface Document {
  readonly format?: unknown;
  readonly certificate?: unknown;
  readonly result?: unknown;
  readonly results?: unknown;
}

const asObject = (data: unknown): Document | null =>
  data && typeof data === "object" && !Array.isArray(data) ? (data as Document) : null;

/** Runs a proof and returns what it compared. */
async function watched<T>(work: () => T | Promise<T>): Promise<[T, Inequality[]]> {
  const seen: Inequality[] = [];
  watch((name, left, right) => seen.push({ name, left, right }));
  try {
    return [await work(), seen];
  } finally {
    watch(undefined);
  }
}

async function proved(protocol: Protocol): Promise<CheckedCell[]> {
  const found: CheckedCell[] = [];
  for (const use of protocol.groups.flatMap((group) => group.uses)) {
    const [, inequalities] = await watched(() => use.cell.prove(use.up, use.down));
    found.push({ use, inequalities });
  }
  return found;
}

/** Proves a certificate again; nothing that it claims is believed. */
async function ofCertificate(
  kind: Verdict["kind"],
  data: unknown,
): Promise<Omit<Verdict, "padding">> {
  const text = canonical(data);
  const read = readCanonical(text) as { protocol?: { query?: unknown } } | null;
  const reader = await protocolReader(read?.protocol?.query, text, [paperCell]);
  const [protocol, total] = await watched(() => certificateOf(reader)(read, "certificate"));
  return { kind, protocol, total, cells: await proved(protocol) };
}

/** Proves a task again: its certificate, its form, and that its reports are long enough. */
async function ofTask(text: string, data: Document): Promise<Verdict> {
  const id = hex(await sha256(utf8(text)));
  const options = { id, policy: readPolicy(), cells: [paperCell], clock: Date.now };
  const task = await readTask(text, options);
  await checkSize(task);
  const [, all] = await watched(() => prove(task));
  if (task.issuer !== undefined) (await import("../send/tokens.js")).checkIssuer(task.issuer);
  const most = task.protocol.groups.reduce((sum, group) => sum + group.mostMessages, 0);
  const size = task.reportSize - task.protocol.publicMessages;
  const padding = all.filter(({ name }) => name === "padding");
  if (task.padding === "exact")
    padding.push({ name: "longest", left: [BigInt(most), 1n], right: [BigInt(size), 1n] });
  const { question } = task;
  return { ...(await ofCertificate("task", data.certificate)), padding, id, question };
}

/** What a file proves; throws a `ShuffledpError` if it proves nothing.
 *
 * Takes the text of a plan, a task, a published result (or the answer with all results of a task)
 * or a certificate. */
export async function verify(text: string): Promise<Verdict> {
  let data: unknown;
  try {
    data = JSON.parse(text);
  } catch {
    bad("This file is not JSON");
  }
  const several = asObject(data)?.results;
  const found = asObject(Array.isArray(several) ? several[0] : data) ?? bad("This file is empty");
  const format = String(found.format);
  if (format.startsWith("shuffledp task")) return ofTask(text.trimEnd(), found);
  if (format.startsWith("shuffledp certificate"))
    return { ...(await ofCertificate("certificate", found)), padding: [] };
  if (format.startsWith("shuffledp plan"))
    return { ...(await ofCertificate("plan", found.certificate)), padding: [] };
  const result = (asObject(found.result) ?? found) as {
    certificate?: unknown;
    epsilon_exact?: unknown;
  };
  if (!result.certificate)
    bad("This file is not a plan, a task, a published result or a certificate of shuffledp");
  const verdict = await ofCertificate("result", result.certificate);
  if (result.epsilon_exact !== written(verdict.protocol.epsilon))
    bad("The result names another ε than its certificate proves");
  return { ...verdict, padding: [] };
}

/** Whether the inequality is 1 < g, that of the paper's cells, and not a ≤ b. */
export const isStrict = ({ name }: Inequality): boolean => /^g[(,]/.test(name);

/** Whether an inequality holds, decided again from its two sides. g > 1 must fail as g ≤ 1. */
export const isTrue = (one: Inequality): boolean =>
  holds(one.name, one.left, one.right) !== isStrict(one);

/** What each inequality says, by the beginning of its name. */
const MEANINGS: readonly (readonly [begin: string, meaning: string])[] = [
  ["total", "the losses of all cells together ≤ ε"],
  ["loss", "ε of this direction ≤ the ε that it may cost"],
  ["decay", "1 ≤ β^D · e^ε: the noise falls no faster than its loss allows"],
  ["ratio", "β of the other direction ≤ κ, the factor of odds that depend on the value"],
  ["odds", "φ ≤ 1: jumps are likely enough to cover the end of the noise"],
  ["muted odds", "φ(1 + rh) ≤ 1: the same, if muted users send less noise"],
  ["I=", "φ(1 + rh)(z + 1)/(z + 1 + I − x) + β^x · η(I) ≤ 1"],
  ["spill", "p·m·s_(Z+1)/C ≤ φ·o·β·(e^ε − 1): jumps are likely enough for the cut of the noise"],
  ["taken", "p + q·β ≤ e^u·β·(p + q): enough users are muted for a value instead of none"],
  ["beyond", "p·m·s_(Z+1) ≤ (e^u − 1)·β·o: jumps are likely enough for the cut of the noise"],
  ["muting", "p + q ≤ e^d·q: enough users are muted for none instead of a value"],
  ["cover", "p·m ≤ (m − φ(m − 1))·q·β·(e^ε − 1): enough users are muted"],
  ["drop", "β_d·m·s_(Z+1)/((1 − β_u·β_d)·R) ≤ 1: labels are dropped often enough for the cut"],
  ["stray", "odds of jumps that several digits share: needed ≤ given"],
  ["g", "1 < g(m): the paper's inequality, at its smallest value"],
  ["padding", "P(some report is too short) ≤ 2⁻⁶⁴ per batch"],
  ["longest", "messages of the longest report ≤ messages of every report"],
];

/** What an inequality says; empty if its name is not known. */
export const meaning = (name: string): string =>
  MEANINGS.find(([begin]) => name.startsWith(begin))?.[1] ?? "";

/** The inequalities of a cell by direction: those downwards begin with the last loss, those of the
 * paper's cells after the only one. Those of a sparse cell hold for any replacement at once. */
export function directions({
  use,
  inequalities,
}: CheckedCell): (readonly [title: string, inequalities: readonly Inequality[]])[] {
  if (use.cell.kind === "sparse") return [["Any replacement", inequalities]];
  const downwards = inequalities.findLastIndex(({ name }) => name === "loss") || 1;
  return [
    ["A change upwards", inequalities.slice(0, downwards)],
    ["A change downwards", inequalities.slice(downwards)],
  ];
}
