/** The tasks of a series follow each other. Loaded only for such tasks. */
import { bad } from "../errors.js";
import { choice, record, whole } from "../schema.js";
import { NAME } from "./forms.js";
import type { Task } from "./task.js";

const SERIES = record({
  name: NAME,
  every: choice("day", "week"),
  tasks: whole(1, 1000),
  place: whole(1, 1000),
});

/** Throws unless the task lasts as long as its series says, and its place is one of the series. */
export function checkSeries(task: Task): void {
  const { every, tasks, place } = SERIES(task.series, "task.series");
  if (place > tasks || task.expires - task.notBefore !== 86_400 * (every === "day" ? 1 : 7))
    bad("The task's dates do not fit its place in its series");
}
