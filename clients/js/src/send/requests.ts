/** Requests that reveal nothing beyond what the browser adds: no cookies, no referrer. */
import type { Bytes } from "../bytes.js";
import { fail, ShuffledpError } from "../errors.js";
import type { Ephemeral } from "../task/hpke.js";

const REQUEST_MS = 30_000; // for what is sent
const [FIRST_PAUSE, LONGEST_PAUSE, MOST_WAIT] = [0.25, 30, 300]; // seconds

export interface Asked {
  readonly method?: string;
  readonly headers?: Record<string, string>;
  readonly body?: Bytes;
}

/** Asks one server; null if there is no answer. */
export interface Ask {
  (path: string, request?: Asked): Promise<Response | null>;
  /** The server that the browser connects to. */
  readonly server: string;
}

export const direct = (server: string, signal?: AbortSignal): Ask =>
  Object.assign(
    (path: string, request?: Asked) =>
      fetch(server + path, {
        credentials: "omit",
        referrerPolicy: "no-referrer",
        ...(signal && { signal }),
        ...(request && {
          ...request,
          cache: "no-store",
          redirect: "error",
          signal: AbortSignal.any([AbortSignal.timeout(REQUEST_MS), ...(signal ? [signal] : [])]),
        }),
      }).catch(() => {
        signal?.throwIfAborted();
        return null;
      }),
    { server },
  );

/** Throws the error for a request that was not answered, or not usefully: "cors" if the server is
 * there and the browser keeps its answers from this page. */
export async function unanswered(
  server: string,
  answer: Response | null,
  message: string,
): Promise<never> {
  const hidden =
    !answer &&
    (await import("./reach.js").then(({ whyHidden }) => whyHidden(server)).catch(() => ""));
  return fail(hidden ? "cors" : "network", (hidden || "") + message);
}

/** The same for what a page needs, a task for example. */
export function notLoaded(server: string, answer: Response | null, what: string): Promise<never> {
  const why = answer ? `HTTP ${answer.status}` : "no answer";
  return unanswered(server, answer, `${what} could not be loaded (${why}); try again later.`);
}

/** A request that is repeated until it is taken or refused for good, and the words for both. */
export interface Delivery {
  readonly ask: Ask;
  readonly path: string;
  readonly request: Asked;
  readonly refused: string;
  readonly unreachable: string;
}

/** How long to try. */
export interface Patience {
  /** How often to try before giving up for now (8). */
  readonly attempts?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

export async function deliver(
  { ask, path, request, refused, unreachable }: Delivery,
  { attempts = 8, signal }: Patience,
): Promise<Response> {
  for (let attempt = 1; ; attempt++) {
    const answer = await ask(path, request);
    const status = answer?.status ?? 0;
    if (status === 200 || status === 201) return answer!;
    if (answer && status < 500 && ![408, 425, 429].includes(status)) {
      const error = await refusal(answer, refused);
      if (error.problem !== "interrupted") throw error;
    }
    const asked = Number(answer?.headers.get("Retry-After")) || 0;
    if (asked > MOST_WAIT || attempt >= attempts)
      return unanswered(ask.server, answer, unreachable);
    const pause = Math.min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** (attempt - 1)) * (0.5 + Math.random());
    await new Promise((resolve) => {
      setTimeout(resolve, 1000 * Math.max(asked, pause));
      signal?.addEventListener("abort", resolve);
    });
    signal?.throwIfAborted();
  }
}

/** A request that carries a token. */
export const post = (type: string, token: string, body: Bytes): Asked => ({
  method: "POST",
  headers: { Authorization: `Bearer ${token}`, "Content-Type": type },
  body,
});

/** How to reach a shuffler. */
export interface Route {
  readonly shuffler: string;
  /** The shuffler's key for requests through a relay. */
  readonly gateway?: string | undefined;
  readonly relay?: string | undefined;
  /** The source of X25519 keys; WebCrypto if there is none. */
  readonly ephemeral?: Ephemeral | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** Asks a shuffler, through the relay if there is one. */
export const toShuffler = async (route: Route): Promise<Ask> =>
  route.relay ? (await import("./relay.js")).through(route) : direct(route.shuffler, route.signal);

/** The error for an answer that refuses a request, with the server's own words (RFC 9457). */
export async function refusal(answer: Response, what: string): Promise<ShuffledpError> {
  const { status } = answer;
  const data = (await answer.json().catch(() => null)) as {
    type?: unknown;
    detail?: unknown;
  } | null;
  const problem = String(data?.type).split(":").at(-1)!;
  const message = `${what}: ${String(data?.detail ?? status).slice(0, 500)}`;
  const code = status === 401 || problem.startsWith("token") ? "token" : "refused";
  return Object.assign(new ShuffledpError(code, message), { status, problem });
}
