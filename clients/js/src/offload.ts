/** Has a report made in a Worker. Loaded only for large reports. */
import { ShuffledpError } from "./errors.js";
import type { Bytes } from "./hpke.js";
import type { Answer } from "./questions.js";
import type { Task } from "./task.js";
import type { WorkerAnswer, WorkerOrder } from "./worker.js";

/** The report, made in a Worker; null where no Worker can be started. */
export function inWorker({ text, id }: Task, value: Answer, reportId: Bytes): Promise<Bytes | null> {
  return new Promise((resolve, reject) => {
    let worker: Worker;
    try {
      worker = new Worker(new URL("./worker.js", import.meta.url), { type: "module" });
    } catch {
      return resolve(null);
    }
    worker.onerror = () => {
      worker.terminate();
      resolve(null);
    };
    worker.onmessage = ({ data }: MessageEvent<WorkerAnswer>) => {
      worker.terminate();
      if ("body" in data) resolve(data.body);
      else reject(new ShuffledpError(data.code, data.message));
    };
    worker.postMessage({ text, id, value, reportId } satisfies WorkerOrder);
  });
}

