/** Requests to the shuffler through a relay. The relay sees the device's address and sealed bytes;
 * the shuffler sees everything but the address. Loaded only where a relay is used. */
import type { Bytes } from "../bytes.js";
import { fail } from "../errors.js";
import { webKey } from "../task/hpke.js";
import { binaryRequest, binaryResponse, sealRequest } from "./oblivious.js";
import { direct, type Ask, type Asked, type Route } from "./requests.js";

/** Every length in a request follows from the task, so that all devices send equally many bytes. */
const REQUEST_MULTIPLE = 512;
const MOST_ANSWER_BYTES = 9 << 20;
const BODYLESS = [204, 205, 304];

/** Asks the shuffler with this gateway key, through a relay. */
export function through({ gateway, relay, shuffler, ephemeral = webKey, signal }: Route): Ask {
  if (!gateway)
    fail(
      "task",
      "This task names no gateway key, so no relay can be used; ask for a task with one, or send without a relay.",
    );
  if (!/^(https?:\/\/[^/]|\/)[^?#]*$/i.test(relay!))
    fail(
      "network",
      `${relay} is not a URL of a relay, so nothing was sent; use one like https://relay.example, or a path of this site that begins with a slash.`,
    );
  const toRelay = direct(relay!.replace(/\/+$/, ""), signal);
  const [, scheme, authority] = /^(https?):\/\/([^/]+)/.exec(shuffler)!;
  const ask = async (
    path: string,
    { method = "GET", headers = {}, body = new Uint8Array(0) }: Asked = {},
  ): Promise<Response | null> => {
    const inner = binaryRequest(
      { method, scheme: scheme!, authority: authority!, path, fields: headers, content: body },
      REQUEST_MULTIPLE,
    );
    const [sealed, open] = await sealRequest(gateway!, inner, ephemeral);
    const answer = await toRelay("/relay", {
      method: "POST",
      headers: { "Content-Type": "message/ohttp-req" },
      body: sealed,
    });
    if (!answer || answer.status >= 400) return answer; // the relay itself may only refuse
    try {
      if (answer.status !== 200) return unusable();
      const { status, fields, content } = binaryResponse(await open(await read(answer)));
      return new Response(BODYLESS.includes(status) ? null : content, {
        status,
        headers: Object.fromEntries(fields),
      });
    } catch {
      return unusable(); // the gateway did not answer this request
    }
  };
  return Object.assign(ask, { server: toRelay.server });
}

/** What a relay says whose gateway does not answer. */
const unusable = (): Response => new Response(null, { status: 502 });

async function read(answer: Response): Promise<Bytes> {
  if (Number(answer.headers.get("Content-Length")) > MOST_ANSWER_BYTES) throw new RangeError();
  const parts = new Uint8Array(await answer.arrayBuffer());
  if (parts.length > MOST_ANSWER_BYTES) throw new RangeError();
  return parts;
}
