/** Requests that reveal nothing beyond what the browser adds: no cookies, no referrer. */
import type { Bytes } from "../bytes.js";
import { ShuffledpError } from "../errors.js";
import type { Ephemeral } from "../task/hpke.js";

const REQUEST_MS = 30_000; // for what is sent

export interface Asked {
  readonly method?: string;
  readonly headers?: Record<string, string>;
  readonly body?: Bytes;
}

/** Asks one server; null if there is no answer. */
export type Ask = (path: string, request?: Asked) => Promise<Response | null>;

export const direct =
  (server: string): Ask =>
  (path, request) =>
    fetch(server + path, {
      credentials: "omit",
      referrerPolicy: "no-referrer",
      ...(request && {
        ...request,
        cache: "no-store",
        redirect: "error",
        signal: AbortSignal.timeout(REQUEST_MS),
      }),
    }).catch(() => null);

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
}

/** Asks a shuffler, through the relay if there is one. */
export const toShuffler = async (route: Route): Promise<Ask> =>
  route.relay ? (await import("./relay.js")).through(route) : direct(route.shuffler);

/** The error for an answer that refuses a request, with the server's own words (RFC 9457). */
export async function refusal(answer: Response, what: string): Promise<ShuffledpError> {
  const { status } = answer;
  const data = (await answer.json().catch(() => null)) as {
    type?: unknown;
    detail?: unknown;
  } | null;
  const problem = String(data?.type).split(":").at(-1)!;
  const message = `${what}: ${String(data?.detail ?? status).slice(0, 500)}`;
  return Object.assign(new ShuffledpError("refused", message), { status, problem });
}
