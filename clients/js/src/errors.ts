/** What went wrong, for programs; the message says it for people, and never holds a user's value. */
export type ErrorCode =
  | "task" // the text is no task that this client can answer, or it was changed
  | "privacy" // the task's parameters are not proved to be private
  | "expired" // the task's time is over, or has not come
  | "policy" // the task asks for more than this device agrees to
  | "value" // the value does not fit the question
  | "answered" // this device has answered this task
  | "refused" // the shuffler refused the report for good, or the issuer a token
  | "unreachable"; // a server does not answer now; a report that was made is stored: resume later

export class ShuffledpError extends Error {
  constructor(
    readonly code: ErrorCode,
    message: string,
    /** The shuffler's HTTP status and problem code, where it answered. */
    readonly status = 0,
    readonly problem = "",
  ) {
    super(message);
    this.name = "ShuffledpError";
  }
}

export function fail(code: ErrorCode, message: string): never {
  throw new ShuffledpError(code, message);
}
