/** The tasks of a series follow each other: whether a task fits its place, and which one is asked now. Loaded only where
 * it is needed. */
import { direct } from "./asking.js";
import { fail } from "./errors.js";
import { anything, choice, list, record, textOf, whole } from "./schema.js";
import { SHOWN, type LoadOptions, type loadTask, type Task } from "./task.js";

const LATEST = 253_402_300_799;
const OPEN = record({
  task: textOf(64, 64, /^[0-9a-f]*$/),
  name: textOf(1, 100),
  not_before: whole(0, LATEST),
  expires: whole(1, LATEST),
}, { series: anything });
const LIST = record({ tasks: list(OPEN, 0, 1e5) });

/** The one task of a server whose name begins so and that can be answered now. The server's list is not believed: the
 * task is loaded by its id and checked as every other is, its name and dates too. */
export async function current(load: typeof loadTask, server: string, name: string, options: LoadOptions): Promise<Task> {
  const where = server.replace(/\/+$/, "");
  const answer = await direct(where)("/current");
  if (!answer?.ok) fail("unreachable", `The tasks that are asked now could not be loaded (HTTP ${answer?.status ?? 0}); try again later.`);
  const { tasks } = LIST(await answer!.json().catch(() => null), "list of tasks");
  const now = (options.clock ?? Date.now)() / 1000;
  const found = tasks.filter((one) => one.name.startsWith(name) && one.not_before <= now && now < one.expires);
  if (!found.length) fail("expired", "No task with this name is asked now; come back later.");
  if (found.length > 1) fail("task", `${found.length} tasks with names that begin so are asked now; name the one that is meant.`);
  const { task: id } = found[0]!;
  const task = await load(`${where}/tasks/${id}`, { ...options, id });
  if (!task.name.startsWith(name)) fail("task", "The server named another task than it gave; do not answer it, and tell whoever asks it.");
  return task;
}

const SERIES = record({ name: textOf(1, 100, SHOWN), every: choice("day", "week"), tasks: whole(1, 1000), place: whole(1, 1000) });

/** Throws unless the task lasts as long as its series says, and its place is one of the series. */
export function checkSeries(task: Task): void {
  const { every, tasks, place } = SERIES(task.series, "task.series");
  if (place > tasks || task.expires - task.notBefore !== 86_400 * (every === "day" ? 1 : 7))
    fail("task", "The task's dates do not fit its place in its series; ask for a new task.");
}
