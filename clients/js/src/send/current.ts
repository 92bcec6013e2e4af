/** Which task of a series is asked now. Loaded only where it is needed. */
import { fail } from "../errors.js";
import { anything, list, record, textOf } from "../schema.js";
import { GATEWAY, HEX32, seconds, SERVER } from "../task/forms.js";
import type { Task } from "../task/task.js";
import type { LoadOptions, loadTask } from "./load.js";
import { direct, notLoaded, toShuffler, type Ask } from "./requests.js";

const OPEN = record(
  { task: HEX32, name: textOf(1, 100), not_before: seconds(0), expires: seconds(1) },
  { series: anything },
);
const LIST = record({ tasks: list(OPEN, 0, 1e5) });

/** How a server is asked: a shuffler through the relay, whose gateway key must be given. A key that
 * came from the relay, or through it, could be the relay's own. */
async function asking(server: string, options: LoadOptions): Promise<Ask> {
  const { relay, gateway, direct: elsewhere, ephemeral, signal } = options;
  if (!relay && gateway)
    fail("task", "A gateway key is for requests through a relay; name the relay too.");
  if (relay && gateway)
    return toShuffler({
      gateway: GATEWAY(gateway, "gateway"),
      relay,
      shuffler: SERVER(server, "server"),
      ephemeral,
      signal,
    });
  if (relay && !elsewhere)
    fail(
      "task",
      "With a relay, give the gateway key from an earlier task or from the collector, or say direct: true if this server is not the shuffler.",
    );
  return direct(server, signal);
}

interface Wanted {
  readonly server: string;
  /** How the task's name begins. */
  readonly name: string;
  readonly options: LoadOptions;
  readonly loadTask: typeof loadTask;
}

/** The one task of a server with this name that can be answered now. The server's list is not
 * trusted: the task is loaded by its id and checked like any other, its name and dates too. */
export async function current({ server, name, options, loadTask }: Wanted): Promise<Task> {
  const address = server.replace(/\/+$/, "");
  const ask = await asking(address, options);
  const answer = await ask("/current");
  if (!answer?.ok) return missing(ask, answer, "list of tasks");
  const { tasks } = LIST(await answer.json().catch(() => null), "list of tasks");
  const now = (options.clock ?? Date.now)() / 1000;
  const found = tasks.filter(
    (one) => one.name.startsWith(name) && one.not_before <= now && now < one.expires,
  );
  if (!found.length) fail("expired", "No task with this name is asked now; come back later.");
  if (found.length > 1)
    fail(
      "task",
      `${found.length} tasks whose names begin like this are asked now; give more of the name.`,
    );
  const { task: id } = found[0]!;
  const source = options.gateway ? await textOfTask(ask, id) : `${address}/tasks/${id}`;
  const task = await loadTask(source, { ...options, id });
  if (!task.name.startsWith(name))
    fail(
      "task",
      "The server listed this task under another name. Do not answer it, and tell the people who ask it.",
    );
  return task;
}

const missing = (ask: Ask, answer: Response | null, what: string): Promise<never> =>
  notLoaded(ask.server, answer, `The ${what}`);

/** The text of a task; `loadTask` checks that it has this id. */
async function textOfTask(ask: Ask, id: string): Promise<string> {
  const answer = await ask(`/tasks/${id}`);
  if (!answer?.ok) return missing(ask, answer, "task");
  const text = await answer.text();
  return text.startsWith("{") // never an address
    ? text
    : fail("task", "The server did not send a task; tell the people who ask it.");
}
