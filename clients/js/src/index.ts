/** Answer shuffledp tasks from a browser. */
export type { Description } from "./device/describe.js";
export type { PolicySettings } from "./device/policy.js";
export { BrowserStorage, type Charge, type DeviceRecord, type Storage } from "./device/storage.js";
export { ShuffledpError, type ErrorCode } from "./errors.js";
export type { Answer, Value, Values } from "./queries/base.js";
export { supportedQueries } from "./queries/registry.js";
export {
  createClient,
  type Client,
  type ClientOptions,
  type Receipt,
  type SendOptions,
} from "./send/client.js";
export { loadCurrentTask, loadTask, type LoadOptions } from "./send/load.js";
export type { Ephemeral, EphemeralKey } from "./task/hpke.js";
export type { Logged, Signers, Verify } from "./task/log.js";
export type { Issuer, Operators, Task } from "./task/task.js";
