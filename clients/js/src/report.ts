/** One report: a value, randomized, padded, put into random order, encrypted. */
import { bytesOf, ascii, fromHex, join, sealer, type Bytes, type Ephemeral } from "./hpke.js";
import type { Answer } from "./questions.js";
import type { Words } from "./sampling.js";
import { MESSAGE_BYTES, type Task } from "./task.js";

const DUMMY = 0xffffffff;
const AT_ONCE = 64;

/** The numbers of a report's messages, in the order in which they are encrypted. */
export async function plainNumbers(task: Task, value: Answer, words: Words): Promise<number[]> {
  let numbers: number[];
  do {
    const [plus, minus]: [number[], number[]] = [[], []];
    const [held, first = 0, calls = []] = await task.protocol.encode(value, words);
    let place = 0;
    for (const { cell, copies } of task.protocol.uses)
      for (let copy = 0; copy < copies; copy++, place++) {
        const sent = cell.randomize(held[place]!, words);
        const number = 2 * (first + place);
        for (let i = 0; i < sent[0]; i++) plus.push(number + 1);
        for (let i = 0; i < sent[1]; i++) minus.push(number);
      }
    numbers = [...plus, ...calls, ...minus];
  } while (numbers.length > task.reportSize); // never with exact padding
  while (numbers.length < task.reportSize) numbers.push(DUMMY);
  return shuffled(numbers, words);
}

/** The numbers in uniformly random order: that of distinct random keys. */
function shuffled(numbers: readonly number[], words: Words): number[] {
  for (;;) {
    const keyed = numbers.map((number) => [words(), number] as const);
    keyed.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
    if (keyed.every(([key], i) => i === 0 || key !== keyed[i - 1]![0])) return keyed.map(([, number]) => number);
  }
}

/** A whole report as it is posted. */
export async function encryptReport(
  task: Task,
  value: Answer,
  reportId: Bytes,
  words: Words,
  ephemeral: Ephemeral,
): Promise<Bytes> {
  const numbers = await plainNumbers(task, value, words);
  const taskId = fromHex(task.id);
  const info = join(ascii("shuffledp/v1 msg"), taskId, bytesOf(task.key.epoch, 4), bytesOf(task.key.id, 2));
  const seal = await sealer(task.key.raw, info, ephemeral);
  const parts = [
    ascii("SDP1"), bytesOf(1, 1), taskId, reportId,
    bytesOf(task.key.id, 2), bytesOf(numbers.length, 2), bytesOf(MESSAGE_BYTES, 2),
  ];
  for (let begin = 0; begin < numbers.length; begin += AT_ONCE) {
    const some = numbers.slice(begin, begin + AT_ONCE);
    parts.push(...(await Promise.all(some.map((number) => seal(bytesOf(number, 4))))));
  }
  return join(...parts);
}
