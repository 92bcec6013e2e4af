/** Makes a report in a Worker, so that the page stays responsive. */
import type { Bytes } from "../bytes.js";
import { readPolicy } from "../device/policy.js";
import type { ErrorCode, ShuffledpError } from "../errors.js";
import { systemWords } from "../numbers/sampling.js";
import type { Answer } from "../queries/base.js";
import { encryptReport } from "../task/report.js";
import { readTask } from "../task/task.js";

export interface WorkerOrder {
  readonly text: string;
  readonly id: string;
  readonly value: Answer;
  readonly reportId: Bytes;
}
export type WorkerAnswer =
  | { readonly body: Bytes }
  | { readonly code: ErrorCode; readonly message: string };

/** The page has proved the task already. */
async function makeReport({ text, id, value, reportId }: WorkerOrder): Promise<WorkerAnswer> {
  try {
    const task = await readTask(text, { id, policy: readPolicy(), cells: [], clock: Date.now });
    const options = { id: reportId, words: systemWords };
    return { body: await encryptReport(task, value, options) };
  } catch (error) {
    const { code, message } = error as ShuffledpError;
    return { code: code ?? "task", message };
  }
}

if (typeof document === "undefined" && typeof self !== "undefined")
  self.onmessage = async ({ data }: MessageEvent<WorkerOrder>) =>
    self.postMessage(await makeReport(data));
