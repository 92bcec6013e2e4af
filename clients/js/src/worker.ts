/** Makes a report in a Worker: for large ones, so that the page stays responsive. */
import { ShuffledpError, type ErrorCode } from "./errors.js";
import { webKey, type Bytes } from "./hpke.js";
import { readPolicy } from "./policy.js";
import { readersFor, type Answer } from "./questions.js";
import { encryptReport } from "./report.js";
import { systemWords } from "./sampling.js";
import { Task } from "./task.js";

export interface WorkerOrder {
  readonly text: string;
  readonly id: string;
  readonly value: Answer;
  readonly reportId: Bytes;
}
export type WorkerAnswer = { readonly body: Bytes } | { readonly code: ErrorCode; readonly message: string };

if (typeof document === "undefined" && typeof self !== "undefined")
  self.onmessage = async ({ data }: MessageEvent<WorkerOrder>) => {
    let answer: WorkerAnswer;
    try {
      const task = new Task(data.text, data.id, readPolicy(), await readersFor(data.text), [], Date.now); // proved by the page
      answer = { body: await encryptReport(task, data.value, data.reportId, systemWords, webKey) };
    } catch (error) {
      const { code, message } = error as ShuffledpError;
      answer = { code: code ?? "task", message };
    }
    self.postMessage(answer);
  };
