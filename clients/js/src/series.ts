/** Whether a task fits its place in its series. Loaded only for tasks that belong to one. */
import { fail } from "./errors.js";
import { choice, record, textOf, whole } from "./schema.js";
import { SHOWN, type Task } from "./task.js";

const SERIES = record({ name: textOf(1, 100, SHOWN), every: choice("day", "week"), tasks: whole(1, 1000), place: whole(1, 1000) });

/** Throws unless the task lasts as long as its series says, and its place is one of the series. */
export function checkSeries(task: Task): void {
  const { every, tasks, place } = SERIES(task.series, "task.series");
  if (place > tasks || task.expires - task.notBefore !== 86_400 * (every === "day" ? 1 : 7))
    fail("task", "The task's dates do not fit its place in its series; ask for a new task.");
}
