/** What went wrong: a code for programs and a sentence for people, which never holds a user's
 * value. */
export type ErrorCode =
  | "task" // the text is not a task that this client can answer, or it was changed
  | "privacy" // the task's parameters could not be proved private
  | "expired" // the task has expired or is not valid yet
  | "policy" // the task asks for more than this device agrees to
  | "value" // the value does not fit the question
  | "answered" // this device has already answered this task
  | "token" // a server does not accept this device's token, or it was used before
  | "refused" // a server refused the request for good, for another reason
  | "cors" // a server is there, but this page may not talk to it
  | "network"; // a server does not answer now; a report that was made is stored: resume later

export class ShuffledpError extends Error {
  /** The server's HTTP status, if it answered, and its problem code. */
  status = 0;
  problem = "";

  constructor(
    readonly code: ErrorCode,
    message: string,
  ) {
    super(message);
    this.name = "ShuffledpError";
  }
}

export function fail(code: ErrorCode, message: string): never {
  throw new ShuffledpError(code, message);
}

/** Refuses a task whose content is not allowed. */
export const bad = (why: string): never => fail("task", `${why}; ask for a new task.`);

/** Refuses a task that is not proved private. */
export const notPrivate = (why: string): never =>
  fail("privacy", `The task's parameters are not private: ${why}. Do not answer it.`);
