/** Oblivious HTTP (RFC 9458) and binary HTTP of known length (RFC 9292), the client's side. */
import { bytesOf, fromHex, join, utf8, type Bytes } from "../bytes.js";
import { bad, fail } from "../errors.js";
import { context, hkdf, hkdfKey, hmac, type Ephemeral, type Sending } from "../task/hpke.js";

export const ANSWER_NONCE_BYTES = 16;
export const REQUEST = "message/bhttp request";
const RESPONSE = "message/bhttp response";

/** What opens the answer to one request; throws unless it answers this request. */
export type Open = (answer: Bytes) => Promise<Bytes>;

/** Seals a request for a gateway, whose key is a key configuration (RFC 9458, 3.1) with the only
 * suite used here, in hexadecimal digits. */
export async function sealRequest(
  gateway: string,
  request: Bytes,
  ephemeral: Ephemeral,
): Promise<readonly [sealed: Bytes, open: Open]> {
  const header = fromHex(`${gateway.slice(0, 2)}002000010001`);
  const sending = await context(
    fromHex(gateway.slice(6, 70)),
    join(utf8(REQUEST), bytesOf(0, 1), header),
    ephemeral,
  );
  const { publicKey, seal, derive } = await sending().catch(() =>
    bad("The gateway's key is not an X25519 key"),
  );
  const open: Open = async (answer) => {
    const [key, iv] = await answerKeys(derive, publicKey, answer.slice(0, ANSWER_NONCE_BYTES));
    const cipher = await crypto.subtle.importKey("raw", key, "AES-GCM", false, ["decrypt"]);
    return new Uint8Array(
      await crypto.subtle.decrypt(
        { name: "AES-GCM", iv },
        cipher,
        answer.slice(ANSWER_NONCE_BYTES),
      ),
    );
  };
  return [join(header, publicKey, await seal(request)), open];
}

/** The key and the nonce of an answer (RFC 9458, 4.4). */
export async function answerKeys(
  derive: Sending["derive"],
  publicKey: Bytes,
  nonce: Bytes,
): Promise<readonly [Bytes, Bytes]> {
  // HPKE's Export (RFC 9180, 5.3) expands to one block of HMAC here, whose counter is 1
  const label = join(
    bytesOf(ANSWER_NONCE_BYTES, 2),
    utf8("HPKE-v1HPKE"),
    fromHex("002000010001"),
    utf8(`sec${RESPONSE}`),
    bytesOf(1, 1),
  );
  const secret = await hkdfKey(
    (await hmac(await derive("exp", 32), label)).slice(0, ANSWER_NONCE_BYTES),
  );
  const salt = join(publicKey, nonce);
  const expand = hkdf(secret, salt);
  return Promise.all([expand(utf8("key"), 16), expand(utf8("nonce"), 12)]);
}

/** A whole number of variable length (RFC 9000, 16). */
function numberBytes(value: number): Bytes {
  const size =
    [1, 2, 4].find((one) => value < 2 ** (8 * one - 2)) ??
    fail("task", "This request is too long to send through a relay.");
  const bytes = bytesOf(value, size);
  bytes[0]! |= Math.log2(size) << 6;
  return bytes;
}

const sized = (bytes: Bytes): Bytes => join(numberBytes(bytes.length), bytes);

export interface BinaryRequest {
  readonly method: string;
  readonly scheme: string;
  readonly authority: string;
  readonly path: string;
  readonly fields: Record<string, string>;
  readonly content: Bytes;
}

/** An inner request, padded with zeros to a multiple of `multiple` bytes. */
export function binaryRequest(request: BinaryRequest, multiple: number): Bytes {
  const { method, scheme, authority, path, fields, content } = request;
  const lines = Object.entries(fields).flatMap(([name, value]) => [
    sized(utf8(name.toLowerCase())),
    sized(utf8(value)),
  ]);
  const data = join(
    numberBytes(0),
    ...[method, scheme, authority, path].map((word) => sized(utf8(word))),
    sized(join(...lines)),
    sized(content),
    numberBytes(0),
  );
  return join(data, new Uint8Array((multiple - (data.length % multiple)) % multiple));
}

export interface BinaryResponse {
  readonly status: number;
  readonly fields: readonly (readonly [name: string, value: string])[];
  readonly content: Bytes;
}

const malformed = (): never =>
  fail("network", "The gateway did not answer with a binary HTTP response of known length.");

/** Reads a message part by part; empty parts at its end may be missing (RFC 9292, 3.8). */
class Reader {
  private at = 0;
  constructor(private readonly data: Bytes) {}

  get done(): boolean {
    return this.at >= this.data.length;
  }

  private take(size: number): Bytes {
    const part = this.data.slice(this.at, this.at + size);
    if (part.length !== size) malformed();
    this.at += size;
    return part;
  }

  number(): number {
    const first = this.take(1)[0]!;
    const rest = this.take(2 ** (first >> 6) - 1);
    return rest.reduce((all, byte) => 256 * all + byte, first & 0x3f);
  }

  sized(): Bytes {
    return this.take(this.number());
  }

  part(): Bytes {
    return this.done ? new Uint8Array(0) : this.sized();
  }

  /** Throws unless only zeros are left. */
  end(): void {
    if (this.data.slice(this.at).some(Boolean)) malformed();
  }
}

const latin = (bytes: Bytes): string => String.fromCharCode(...bytes);

/** The final response in some bytes. */
export function binaryResponse(data: Bytes): BinaryResponse {
  const reader = new Reader(data);
  if (reader.number() !== 1) malformed();
  const status = reader.number();
  if (status < 200 || status > 599) malformed(); // no informational responses are sent here
  const lines = new Reader(reader.part());
  const fields: (readonly [string, string])[] = [];
  while (!lines.done) fields.push([latin(lines.sized()), latin(lines.sized())]);
  const content = reader.part();
  reader.part(); // the trailer is not used
  reader.end();
  return { status, fields, content };
}
