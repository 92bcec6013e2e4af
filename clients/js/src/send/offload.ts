/** Has a report made in a Worker. Loaded only for large reports. */
import type { Bytes } from "../bytes.js";
import { ShuffledpError } from "../errors.js";
import type { WorkerAnswer, WorkerOrder } from "./worker.js";

/** Bundlers find the Worker's file by this expression. */
const ownWorker = () => new Worker(new URL("./worker.js", import.meta.url), { type: "module" });

/** The report, made in a Worker; null if no Worker can be started. */
export function inWorker(order: WorkerOrder, start = ownWorker): Promise<Bytes | null> {
  return new Promise((resolve, reject) => {
    let worker: Worker;
    try {
      worker = start();
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
    worker.postMessage(order);
  });
}
