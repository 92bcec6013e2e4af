/** What a device remembers: reports that wait to be sent, tasks that were answered, the ε that was
 * spent, and the keys it has seen. One record, changed in one transaction. */
import type { Bytes } from "../bytes.js";
import type { Operators } from "../task/task.js";

/** One report of this device, and what it cost. */
export interface Charge {
  /** The report's id; empty after it was wiped, as is the task's id once the task has expired. */
  readonly report: string;
  readonly task: string;
  /** As exact text. */
  readonly epsilon: string;
  /** Seconds since 1970. */
  readonly when: number;
  /** When the task can no longer be answered. */
  readonly expires: number;
  /** What the person was asked, and to whom the report went; missing after it was wiped. */
  readonly name?: string;
  readonly question?: string;
  readonly shuffler?: string;
  readonly operators?: Operators;
  readonly bytes?: number;
}

/** The one-time token of a task: the request to the issuer until it is answered, then the token.
 * Secret. */
export type TokenState = { readonly expires: number } & (
  | { readonly input: string; readonly body: string; readonly inverse: string }
  | { readonly token: string }
);

export interface DeviceRecord {
  readonly charges: Charge[];
  /** The keys that were first seen at each shuffler: encryption, collector, shuffler, analyzer. */
  readonly keys: Record<string, Record<string, string>>;
  /** By task: the encrypted report until it is acknowledged, then null. */
  readonly reports: Record<string, Bytes | null>;
  /** By task, if it has an issuer, until its report is acknowledged; missing if there never was
   * one. */
  tokens?: Record<string, TokenState>;
}

/** Where the record is kept. */
export interface Storage {
  /** Changes the record in one step that no other tab can interrupt; an exception undoes it. */
  update<T>(change: (record: DeviceRecord) => T): Promise<T>;
  /** Runs work that no other tab does at the same time. */
  alone<T>(work: () => Promise<T>): Promise<T>;
}

export const emptyRecord = (): DeviceRecord => ({ charges: [], keys: {}, reports: {} });

const settled = <T>(request: IDBRequest<T>): Promise<T> =>
  new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });

/** The record of this origin, in IndexedDB. */
export class BrowserStorage implements Storage {
  constructor(private readonly name = "shuffledp") {}

  private async open(): Promise<IDBDatabase> {
    const request = indexedDB.open(this.name, 1);
    request.onupgradeneeded = () => request.result.createObjectStore("device");
    return settled(request);
  }

  async update<T>(change: (record: DeviceRecord) => T): Promise<T> {
    const database = await this.open();
    try {
      const transaction = database.transaction("device", "readwrite", { durability: "strict" });
      const done = new Promise<void>((resolve, reject) => {
        transaction.oncomplete = () => resolve();
        transaction.onabort = () => reject(transaction.error);
      });
      done.catch(() => undefined); // an abort is reported below
      const store = transaction.objectStore("device");
      const record =
        ((await settled(store.get("record"))) as DeviceRecord | undefined) ?? emptyRecord();
      let result: T;
      try {
        result = change(record);
      } catch (error) {
        transaction.abort();
        throw error;
      }
      store.put(record, "record");
      await done;
      return result;
    } finally {
      database.close();
    }
  }

  alone<T>(work: () => Promise<T>): Promise<T> {
    return navigator.locks ? (navigator.locks.request(this.name, work) as Promise<T>) : work();
  }
}

export const deviceStorage = (): Storage => new BrowserStorage();
