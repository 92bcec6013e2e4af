/** X25519 from @noble/curves, for engines whose WebCrypto has none:
 *
 *     createClient(task, { token, ephemeral: nobleKey })
 */
import { x25519 } from "@noble/curves/ed25519.js";
import type { Bytes, Ephemeral } from "./hpke.js";

export const nobleKey: Ephemeral = async () => {
  const secret = x25519.utils.randomSecretKey();
  return {
    publicKey: x25519.getPublicKey(secret) as Bytes,
    shared: async (peer) => x25519.getSharedSecret(secret, peer) as Bytes,
  };
};
