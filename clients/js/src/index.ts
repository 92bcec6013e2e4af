/** Answer shuffledp tasks from a browser. */
export { loadCurrentTask, loadTask, type Issuer, type LoadOptions, type Operators, type Task } from "./task.js";
export { createClient, type Client, type ClientOptions, type Receipt } from "./client.js";
export { ShuffledpError, type ErrorCode } from "./errors.js";
export type { Description } from "./describe.js";
export type { Logged, Signers, Verify } from "./logged.js";
export type { PolicySettings } from "./policy.js";
export type { Answer, Value, Values } from "./questions.js";
export type { Ephemeral, EphemeralKey } from "./hpke.js";
export { BrowserStorage, type Charge, type DeviceRecord, type Storage } from "./storage.js";
