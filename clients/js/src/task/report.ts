/** A report: a value, randomized, padded, put into random order, encrypted. */
import { bytesOf, fromHex, join, utf8, type Bytes } from "../bytes.js";
import type { Words } from "../numbers/sampling.js";
import type { Answer } from "../queries/base.js";
import { sealer, webKey, type Ephemeral } from "./hpke.js";
import { MESSAGE_BYTES, type Task } from "./task.js";

const DUMMY = 0xffffffff;
const AT_ONCE = 64;

/** The numbers of a report's messages, in the order in which they are encrypted. */
export async function plainNumbers(task: Task, value: Answer, words: Words): Promise<number[]> {
  const { groups, encode } = task.protocol;
  let numbers: number[];
  do {
    const [plus, minus]: [number[], number[]] = [[], []];
    const { held, publicMessages = [] } = await encode(value, words);
    let first = 0;
    groups.forEach((group, i) => {
      const [more, less] = group.draw(held[i]!, words);
      for (const counter of more) plus.push(2 * (first + counter) + 1);
      for (const counter of less) minus.push(2 * (first + counter));
      first += group.counters;
    });
    numbers = [...plus, ...publicMessages, ...minus];
  } while (numbers.length > task.reportSize); // never with exact padding
  while (numbers.length < task.reportSize) numbers.push(DUMMY);
  return shuffled(numbers, words);
}

/** The numbers in uniformly random order: that of distinct random keys. */
function shuffled(numbers: readonly number[], words: Words): number[] {
  for (;;) {
    const keyed = numbers.map((number) => [words(), number] as const);
    keyed.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
    if (keyed.every(([key], i) => i === 0 || key !== keyed[i - 1]![0]))
      return keyed.map(([, number]) => number);
  }
}

export interface ReportOptions {
  /** 16 bytes. */
  readonly id: Bytes;
  readonly words: Words;
  /** WebCrypto's keys if there is none. */
  readonly ephemeral?: Ephemeral | undefined;
}

/** A whole report as it is posted. */
export async function encryptReport(
  task: Task,
  value: Answer,
  { id, words, ephemeral = webKey }: ReportOptions,
): Promise<Bytes> {
  const numbers = await plainNumbers(task, value, words);
  const taskId = fromHex(task.id);
  const [epoch, keyId] = [bytesOf(task.key.epoch, 4), bytesOf(task.key.id, 2)];
  const info = join(utf8("shuffledp/v1 msg"), taskId, epoch, keyId);
  const seal = await sealer(task.key.raw, info, ephemeral);
  const parts = [
    utf8("SDP1"),
    bytesOf(1, 1),
    taskId,
    id,
    keyId,
    bytesOf(numbers.length, 2),
    bytesOf(MESSAGE_BYTES, 2),
  ];
  for (let begin = 0; begin < numbers.length; begin += AT_ONCE) {
    const some = numbers.slice(begin, begin + AT_ONCE);
    parts.push(...(await Promise.all(some.map((number) => seal(bytesOf(number, 4))))));
  }
  return join(...parts);
}
