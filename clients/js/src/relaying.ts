/** Requests to the shuffler through a relay: the relay sees the device's address and sealed bytes, the shuffler
 * everything but the address. Loaded only where a relay is used. */
import type { Ask } from "./asking.js";
import { direct } from "./asking.js";
import { fail } from "./errors.js";
import { webKey, type Ephemeral } from "./hpke.js";
import { binaryRequest, binaryResponse, sealRequest } from "./oblivious.js";

/** Everything in a request has a length that follows from the task, so that all devices of a task send equally
 * many bytes. */
const REQUEST_MULTIPLE = 512;
const MOST_ANSWER_BYTES = 9 << 20;
const BODYLESS = [204, 205, 304];

/** Asks the shuffler with this gateway key, through a relay. */
export function through(gateway: string | undefined, relay: string, shuffler: string, ephemeral: Ephemeral = webKey): Ask {
  if (!gateway) fail("task", "This task names no gateway key, so that no relay can be used; ask for a task with one, or send without a relay.");
  const toRelay = direct(relay.replace(/\/+$/, ""));
  const [, scheme, authority] = /^(https?):\/\/([^/]+)/.exec(shuffler)!;
  return async (path, { method = "GET", headers = {}, body } = {}) => {
    const inner = binaryRequest([method, scheme!, authority!, path], headers, body ?? new Uint8Array(0), REQUEST_MULTIPLE);
    const [sealed, open] = await sealRequest(gateway!, inner, ephemeral);
    const answer = await toRelay("/relay", { method: "POST", headers: { "Content-Type": "message/ohttp-req" }, body: sealed });
    if (!answer || answer.status >= 400) return answer; // only refusals may come from the relay itself
    try {
      if (answer.status !== 200) return null;
      const { status, fields, content } = binaryResponse(await open(await read(answer)));
      return new Response(BODYLESS.includes(status) ? null : content, { status, headers: Object.fromEntries(fields) });
    } catch {
      return null; // no answer of the gateway to this request
    }
  };
}

async function read(answer: Response): Promise<Uint8Array<ArrayBuffer>> {
  if (Number(answer.headers.get("Content-Length")) > MOST_ANSWER_BYTES) throw new RangeError();
  const parts = new Uint8Array(await answer.arrayBuffer());
  if (parts.length > MOST_ANSWER_BYTES) throw new RangeError();
  return parts;
}
