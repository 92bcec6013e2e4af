/** HPKE (RFC 9180) in base mode with DHKEM(X25519, HKDF-SHA256), HKDF-SHA256 and AES-128-GCM, from
 * WebCrypto. Every message has its own ephemeral key. */
import { bytesOf, join, utf8, type Bytes } from "../bytes.js";
import { fail } from "../errors.js";

/** A fresh X25519 key: its public half, and what it shares with another public key. */
export interface EphemeralKey {
  readonly publicKey: Bytes;
  shared(peer: Bytes): Promise<Bytes>;
}

/** Makes ephemeral keys; a page can give its own source where WebCrypto has no X25519. */
export type Ephemeral = () => Promise<EphemeralKey>;

export const webKey: Ephemeral = async () => {
  let pair: CryptoKeyPair;
  try {
    pair = (await crypto.subtle.generateKey({ name: "X25519" }, false, [
      "deriveBits",
    ])) as CryptoKeyPair;
  } catch {
    return fail("task", "This browser has no X25519; update it, or use @shuffledp/client/noble.");
  }
  return {
    publicKey: new Uint8Array(await crypto.subtle.exportKey("raw", pair.publicKey)),
    shared: (peer) => sharedWith(pair.privateKey, peer),
  };
};

export async function sharedWith(privateKey: CryptoKey, peer: Bytes): Promise<Bytes> {
  const key = await crypto.subtle.importKey("raw", peer, { name: "X25519" }, false, []);
  return new Uint8Array(
    await crypto.subtle.deriveBits({ name: "X25519", public: key }, privateKey, 256),
  );
}

const VERSION = utf8("HPKE-v1");
const KEM = join(utf8("KEM"), bytesOf(0x20, 2));
const SUITE = join(utf8("HPKE"), bytesOf(0x20, 2), bytesOf(1, 2), bytesOf(1, 2));
const NOTHING = new Uint8Array(0);

const labeled = (suite: Bytes, label: string, input: Bytes): Bytes =>
  join(VERSION, suite, utf8(label), input);

/** HKDF with SHA-256: derives `size` bytes under `info`. */
export const hkdf =
  (secret: CryptoKey, salt: Bytes) =>
  async (info: Bytes, size: number): Promise<Bytes> =>
    new Uint8Array(
      await crypto.subtle.deriveBits(
        { name: "HKDF", hash: "SHA-256", salt, info },
        secret,
        8 * size,
      ),
    );

export const hkdfKey = (input: Bytes): Promise<CryptoKey> =>
  crypto.subtle.importKey("raw", input, "HKDF", false, ["deriveBits"]);

/** LabeledExpand(LabeledExtract(salt, …), …): one call of WebCrypto's HKDF. */
const expand =
  (secret: CryptoKey, salt: Bytes, suite: Bytes) => (label: string, input: Bytes, size: number) =>
    hkdf(secret, salt)(join(bytesOf(size, 2), labeled(suite, label, input)), size);

/** HMAC with SHA-256, which is also HKDF's Extract. */
export async function hmac(key: Bytes, data: Bytes): Promise<Bytes> {
  const algorithm = { name: "HMAC", hash: "SHA-256" };
  const imported = await crypto.subtle.importKey("raw", key, algorithm, false, ["sign"]);
  return new Uint8Array(await crypto.subtle.sign("HMAC", imported, data));
}

/** One message to a public key: its encapsulated key, what encrypts it, what derives further
 * secrets. */
export interface Sending {
  readonly publicKey: Bytes;
  seal(plain: Bytes): Promise<Bytes>;
  derive(label: string, size: number): Promise<Bytes>;
}

/** Begins messages to a public key under `info`, each with its own ephemeral key. */
export async function context(
  recipient: Bytes,
  info: Bytes,
  ephemeral: Ephemeral,
): Promise<() => Promise<Sending>> {
  const extract = (label: string, input: Bytes) =>
    hmac(new Uint8Array(32), labeled(SUITE, label, input));
  const context = join(
    bytesOf(0, 1),
    await extract("psk_id_hash", NOTHING),
    await extract("info_hash", info),
  );
  const schedule = await hkdfKey(labeled(SUITE, "secret", NOTHING));
  return async () => {
    const { publicKey, shared } = await ephemeral();
    const exchange = await hkdfKey(labeled(KEM, "eae_prk", await shared(recipient)));
    const agreed = join(publicKey, recipient);
    const secret = await expand(exchange, NOTHING, KEM)("shared_secret", agreed, 32);
    const derive = (label: string, size: number) =>
      expand(schedule, secret, SUITE)(label, context, size);
    const seal = async (plain: Bytes) => {
      const [key, iv] = await Promise.all([derive("key", 16), derive("base_nonce", 12)]);
      const cipher = await crypto.subtle.importKey("raw", key, "AES-GCM", false, ["encrypt"]);
      return new Uint8Array(await crypto.subtle.encrypt({ name: "AES-GCM", iv }, cipher, plain));
    };
    return { publicKey, seal, derive };
  };
}

/** Encrypts messages to a public key under `info`: encapsulated key, ciphertext, tag. */
export async function sealer(
  recipient: Bytes,
  info: Bytes,
  ephemeral: Ephemeral,
): Promise<(plain: Bytes) => Promise<Bytes>> {
  const begin = await context(recipient, info, ephemeral);
  return async (plain) => {
    const { publicKey, seal } = await begin();
    return join(publicKey, await seal(plain));
  };
}
