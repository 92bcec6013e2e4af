/** The tasks of a series follow each other: whether a task fits its place, and which one is asked now. Loaded only where
 * it is needed. */
import { direct, type Ask } from "./asking.js";
import { fail } from "./errors.js";
import { anything, choice, list, record, textOf, whole } from "./schema.js";
import { GATEWAY, SERVER, SHOWN, type LoadOptions, type loadTask, type Task } from "./task.js";

const LATEST = 253_402_300_799;
const OPEN = record({
  task: textOf(64, 64, /^[0-9a-f]*$/),
  name: textOf(1, 100),
  not_before: whole(0, LATEST),
  expires: whole(1, LATEST),
}, { series: anything });
const LIST = record({ tasks: list(OPEN, 0, 1e5) });

/** How a server is asked: the shuffler through the relay, for whose gateway the key must be given. A key that came
 * from the relay, or through it, could be the relay's own. */
async function asking(server: string, { relay, gateway, direct: elsewhere, ephemeral }: LoadOptions): Promise<Ask> {
  if (!relay && gateway) fail("task", "A gateway's key is for requests through a relay; name the relay, too.");
  if (relay && gateway) return (await import("./relaying.js")).through(GATEWAY(gateway, "gateway"), relay, SERVER(server, "server"), ephemeral);
  if (relay && !elsewhere)
    fail("task", "With a relay, give the gateway's key from an earlier task or from the collector, or say direct: true if this server is not the shuffler.");
  return direct(server);
}

/** The one task of a server whose name begins so and that can be answered now. The server's list is not believed: the
 * task is loaded by its id and checked as every other is, its name and dates too. */
export async function current(load: typeof loadTask, server: string, name: string, options: LoadOptions): Promise<Task> {
  const where = server.replace(/\/+$/, "");
  const ask = await asking(where, options);
  const answer = await ask("/current");
  if (!answer?.ok) unreachable("tasks that are asked now", answer);
  const { tasks } = LIST(await answer!.json().catch(() => null), "list of tasks");
  const now = (options.clock ?? Date.now)() / 1000;
  const found = tasks.filter((one) => one.name.startsWith(name) && one.not_before <= now && now < one.expires);
  if (!found.length) fail("expired", "No task with this name is asked now; come back later.");
  if (found.length > 1) fail("task", `${found.length} tasks with names that begin so are asked now; name the one that is meant.`);
  const { task: id } = found[0]!;
  const task = await load(options.gateway ? await textOfTask(ask, id) : `${where}/tasks/${id}`, { ...options, id });
  if (!task.name.startsWith(name)) fail("task", "The server named another task than it gave; do not answer it, and tell whoever asks it.");
  return task;
}

const unreachable = (what: string, answer: Response | null): never =>
  fail("unreachable", `The ${what} could not be loaded (HTTP ${answer?.status ?? 0}); try again later.`);

/** The text of a task; `loadTask` checks that it has this id. */
async function textOfTask(ask: Ask, id: string): Promise<string> {
  const answer = await ask(`/tasks/${id}`);
  if (!answer?.ok) unreachable("task", answer);
  const text = await answer!.text();
  return text.startsWith("{") ? text : fail("task", "The server gave no task; tell whoever asks it."); // never an address
}

const SERIES = record({ name: textOf(1, 100, SHOWN), every: choice("day", "week"), tasks: whole(1, 1000), place: whole(1, 1000) });

/** Throws unless the task lasts as long as its series says, and its place is one of the series. */
export function checkSeries(task: Task): void {
  const { every, tasks, place } = SERIES(task.series, "task.series");
  if (place > tasks || task.expires - task.notBefore !== 86_400 * (every === "day" ? 1 : 7))
    fail("task", "The task's dates do not fit its place in its series; ask for a new task.");
}
