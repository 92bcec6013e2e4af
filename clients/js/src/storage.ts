/** What a device remembers: reports that wait, tasks that were answered, the ε that was spent, and the
 * analyzer keys it has seen. One record, changed in one transaction. */
import type { Bytes } from "./hpke.js";

/** One report of this device, and what it cost. */
export interface Charge {
  /** The report's id. */
  readonly report: string;
  readonly task: string;
  readonly name: string;
  readonly shuffler: string;
  /** As exact text. */
  readonly epsilon: string;
  /** Seconds since 1970. */
  readonly when: number;
}

export interface DeviceRecord {
  readonly charges: Charge[];
  /** The analyzer key that was first seen at each shuffler. */
  readonly keys: Record<string, string>;
  /** By task: the encrypted report until it is acknowledged, then null. */
  readonly reports: Record<string, Bytes | null>;
}

/** Where the record lies. */
export interface Storage {
  /** Changes the record in one step that no other tab can interrupt; what `change` throws undoes it. */
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
      const record = ((await settled(store.get("record"))) as DeviceRecord | undefined) ?? emptyRecord();
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
