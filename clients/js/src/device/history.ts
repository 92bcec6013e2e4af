/** What this device has answered: list, export, wipe. */
import { deviceStorage, type Charge, type DeviceRecord, type Storage } from "./storage.js";

/** A report that this device has made; after wiping only ε and the time are left. */
export interface Sent extends Charge {
  /** Whether the shuffler has acknowledged it. */
  readonly acknowledged: boolean;
}

/** What was wiped, and what had to stay. */
export interface Wiped {
  /** Reports of which only ε and the time are left. */
  readonly reports: number;
  /** Reports that wait to be sent; they stay as they are. */
  readonly waiting: number;
  /** Tasks that have not expired; their ids stay, so that none is answered twice. */
  readonly tasks: number;
}

/** How long after a task has expired the shuffler still takes its reports. */
const LATE_SECONDS = 300;

const sent = ({ charges, reports }: DeviceRecord): Sent[] =>
  charges.map((charge, i) => {
    const last = charges.findLastIndex(({ task }) => task === charge.task) === i;
    return { ...charge, acknowledged: !(last && reports[charge.task]) };
  });

/** What this device has sent or stored to send, oldest first; never the answers, which are not
 * stored. */
export const history = (storage: Storage = deviceStorage()): Promise<Sent[]> =>
  storage.update(sent);

/** Everything that this device remembers, as JSON. One-time tokens are secret: only the ids of
 * their tasks are exported. */
export const exportHistory = (storage: Storage = deviceStorage()): Promise<string> =>
  storage.update((record) => {
    const data = {
      format: "shuffledp device history 1",
      reports: sent(record),
      keys: record.keys,
      tokens: Object.keys(record.tokens ?? {}),
    };
    return JSON.stringify(data, null, 2);
  });

/** Forgets what reports were for, the tokens of expired tasks, and with `keys` also the keys of
 * servers. The budget is not freed: what each report cost, and when, stays. */
export const wipe = (
  storage: Storage = deviceStorage(),
  { keys = false, now = Date.now() / 1000 } = {},
): Promise<Wiped> =>
  storage.update((record) => {
    const { charges, reports } = record;
    let waiting = 0;
    charges.forEach((charge, i) => {
      const { task, epsilon, when, expires } = charge;
      if (reports[task]) waiting++;
      else charges[i] = { report: "", task: now < expires ? task : "", epsilon, when, expires };
    });
    const known = new Set(charges.map(({ task }) => task));
    for (const task of Object.keys(reports)) if (!known.has(task)) delete reports[task];
    for (const [task, { expires }] of Object.entries(record.tokens ?? {}))
      if (expires + LATE_SECONDS <= now && !reports[task]) delete record.tokens![task];
    if (keys) for (const shuffler of Object.keys(record.keys)) delete record.keys[shuffler];
    known.delete("");
    return { reports: charges.length - waiting, waiting, tasks: known.size };
  });
