/** X25519 and Ed25519 from @noble/curves, for engines whose WebCrypto has none:
 *
 *     const task = await loadTask(url, { verify: nobleVerify });
 *     createClient(task, { token, ephemeral: nobleKey })
 */
import { ed25519, x25519 } from "@noble/curves/ed25519.js";
import type { Bytes } from "../bytes.js";
import type { Ephemeral } from "./hpke.js";
import type { Verify } from "./log.js";

export const nobleVerify: Verify = async (key, signature, text) => {
  try {
    return ed25519.verify(signature, text, key, { zip215: false });
  } catch {
    return false; // not a key
  }
};

export const nobleKey: Ephemeral = async () => {
  const secret = x25519.utils.randomSecretKey();
  return {
    publicKey: x25519.getPublicKey(secret) as Bytes,
    shared: async (peer) => x25519.getSharedSecret(secret, peer) as Bytes,
  };
};
