/** Requests that say nothing about the page beyond what the browser adds: no cookies, no address of the page. */
import { webKey, type Bytes, type Ephemeral } from "./hpke.js";

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
      ...(request && { ...request, cache: "no-store", redirect: "error", signal: AbortSignal.timeout(REQUEST_MS) }),
    }).catch(() => null);

/** Asks a task's shuffler, through the relay if there is one. */
export const toShuffler = async (shuffler: string, gateway?: string, relay?: string, ephemeral: Ephemeral = webKey): Promise<Ask> =>
  relay ? (await import("./relaying.js")).through(gateway, relay, shuffler, ephemeral) : direct(shuffler);
