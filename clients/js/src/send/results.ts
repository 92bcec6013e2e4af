/** What the analyzer has published about a task. */
import { bad, fail } from "../errors.js";
import { anything, list } from "../schema.js";
import type { Task } from "../task/task.js";
import { direct, notLoaded, refusal } from "./requests.js";

/** One published result: of one batch. */
export interface Published {
  /** The id of its task. */
  readonly task: string;
  /** The number of the batch, from 1. */
  readonly number: number;
  /** How many reports the batch holds. */
  readonly reports: number;
  /** What was computed. Its fields depend on the query; a count and a sum have `estimate`,
   * `interval` and `confidence`, a histogram has `buckets`. */
  readonly result: {
    readonly query: string;
    readonly epsilon: number;
    readonly confidence: number;
    readonly estimate?: number;
    readonly interval?: readonly [low: number, high: number];
    readonly buckets?: readonly unknown[];
    readonly [field: string]: unknown;
  };
  /** The guarantee in words, and whom it holds against. */
  readonly guarantee: string;
  readonly note: string;
}

export interface ResultsOptions {
  /** The analyzer's URL; its operator allows this page's origin with allow_origins. */
  readonly analyzer: string;
  readonly signal?: AbortSignal;
}

/** All results that the analyzer has published for a task, oldest first. */
export async function results(
  task: Pick<Task, "id">,
  { analyzer, signal }: ResultsOptions,
): Promise<Published[]> {
  const ask = direct(analyzer.replace(/\/+$/, ""), signal);
  const answer = await ask(`/tasks/${task.id}/results`);
  if (!answer || answer.status >= 500) return notLoaded(ask.server, answer, "The results");
  if (!answer.ok) throw await refusal(answer, "The analyzer has no results");
  const data: unknown = await answer.json().catch(() => null);
  const named =
    (data as { results?: unknown } | null)?.results ?? bad("This is no list of results");
  const found = list(anything, 0, 1e6)(named, "results") as readonly Published[];
  if (found.some((one) => one?.task !== task.id))
    fail("task", "The analyzer sent results of another task; tell its operator.");
  return [...found];
}
