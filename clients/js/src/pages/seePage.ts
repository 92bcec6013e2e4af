/** The page that shows one answer on its way: device, noise, encryption, mixing, counting. It runs
 * the client's own randomizer on simulated people. It sends nothing and works from a file. */
import { hex } from "../bytes.js";
import type { IndependentCell } from "../cells/base.js";
import { parse, show } from "../numbers/rational.js";
import { systemWords } from "../numbers/sampling.js";
import { protocolReader } from "../queries/registry.js";
import { canonical, readCanonical } from "../schema.js";
import { sealer, webKey } from "../task/hpke.js";
import { make, part } from "./markup.js";
import { PLANS, type SeePlan } from "./seePlans.js";

const YES_PERCENT = 30;
const AT_ONCE = 500;
const MOST_DOTS = 6000;
const SHOWN_CIPHERTEXTS = 3;

const input = (id: string): HTMLInputElement => part(id) as HTMLInputElement;
const number = (value: number): string => value.toLocaleString("en", { maximumFractionDigits: 1 });
const counted = (count: number, one: string): string =>
  `${number(count)} ${one}${count === 1 ? "" : "s"}`;

const USERS = [...new Set(PLANS.map((plan) => plan.users))];
const EPSILONS = [...new Set(PLANS.map((plan) => plan.epsilon))];
const shownEpsilon = (epsilon: string): string => show(parse(epsilon)!);

const chosen = (): SeePlan =>
  PLANS.find(
    ({ users, epsilon }) =>
      users === USERS[input("users").valueAsNumber] &&
      epsilon === EPSILONS[input("epsilon").valueAsNumber],
  )!;

/** The cell of a plan, after its certificate was proved on this page. */
async function provedCell({ certificate }: SeePlan): Promise<IndependentCell> {
  const text = canonical(certificate);
  const read = await protocolReader("count", text, []);
  const data = readCanonical(text) as { protocol: unknown };
  const [group] = read(data.protocol, "protocol").groups;
  const { cell, up, down } = group!.uses[0]!;
  cell.prove(up, down);
  return cell as IndependentCell;
}

/** One run: what everybody sends. */
interface Run {
  readonly plan: SeePlan;
  readonly mine: number;
  readonly truth: number;
  /** Counting messages of each person; the first one is the reader. */
  readonly counts: readonly number[];
}

let latest = 0;

/** Draws what everybody sends; null if a newer run has begun meanwhile. */
async function run(): Promise<Run | null> {
  const turn = ++latest;
  const plan = chosen();
  const cell = await provedCell(plan);
  const mine = Number(input("yes").checked);
  const yes = Math.round((plan.users * YES_PERCENT) / 100);
  const counts: number[] = [];
  for (let person = 0; person < plan.users; person++) {
    const value = person === 0 ? mine : Number(person <= yes);
    counts.push(cell.randomize(value, systemWords)[0]);
    if (person % AT_ONCE === AT_ONCE - 1) {
      await new Promise((resolve) => setTimeout(resolve));
      if (turn !== latest) return null;
    }
  }
  return { plan, mine, truth: yes + mine, counts };
}

const color = (name: string): string =>
  getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

const [WIDTH, HALF] = [900, 130];

/** All messages in the order of their senders, and below it mixed. */
function drawMessages({ plan, counts }: Run): void {
  const canvas = part("mixing") as HTMLCanvasElement;
  const context = canvas.getContext("2d")!;
  const people = Math.min(plan.users, Math.floor(MOST_DOTS / plan.size));
  const total = people * plan.size;
  const step = Math.max(3, Math.sqrt((WIDTH * (HALF - 34)) / total));
  const columns = Math.floor(WIDTH / step);
  context.clearRect(0, 0, canvas.width, canvas.height);
  context.font = "16px Georgia, serif";
  const half = (top: number, title: string, fill: (dot: number) => string) => {
    context.fillStyle = color("soft");
    context.fillText(title, 8, top + 22);
    for (let dot = 0; dot < total; dot++) {
      context.fillStyle = fill(dot);
      const [x, y] = [(dot % columns) * step, top + 32 + Math.floor(dot / columns) * step];
      if (y < top + HALF) context.fillRect(x, y, step - 1, step - 1);
    }
  };
  half(0, "As they arrive: the shuffler sees who sent which, and cannot open them", (dot) => {
    const [person, place] = [Math.floor(dot / plan.size), dot % plan.size];
    if (person === 0) return color("noise");
    return place < counts[person]! ? color("accent") : color("line");
  });
  half(HALF, "After mixing: the analyzer opens them, and cannot tell who sent which", (dot) =>
    shuffledKinds(counts, plan.size, total)[dot]! ? color("accent") : color("line"),
  );
  canvas.setAttribute(
    "aria-label",
    `${number(total)} messages of ${number(people)} people, first by sender, then mixed`,
  );
}

let kinds: { readonly counts: unknown; readonly dots: readonly boolean[] } | undefined;

/** Which of the mixed messages count, in the same order whenever a run is drawn again. */
function shuffledKinds(counts: readonly number[], size: number, total: number): readonly boolean[] {
  if (kinds?.counts !== counts) {
    const dots = Array.from(
      { length: total },
      (_, dot) => dot % size < counts[Math.floor(dot / size)]!,
    );
    const order = dots.map((dot) => [systemWords(), dot] as const);
    order.sort(([a], [b]) => (a < b ? -1 : 1));
    kinds = { counts, dots: order.map(([, dot]) => dot) };
  }
  return kinds.dots;
}

let earlier: { readonly key: string; readonly estimates: number[] } = { key: "", estimates: [] };

/** The true answer, this estimate, and those of earlier runs with the same settings. */
function drawEstimates({ plan, truth }: Run, estimates: readonly number[]): void {
  const canvas = part("estimates") as HTMLCanvasElement;
  const context = canvas.getContext("2d")!;
  const reach = 4.5 * plan.rmse;
  const at = (value: number): number => WIDTH / 2 + ((value - truth) / reach) * (WIDTH / 2 - 30);
  context.clearRect(0, 0, canvas.width, canvas.height);
  context.font = "16px Georgia, serif";
  context.textAlign = "center";
  context.fillStyle = color("line");
  context.fillRect(0, 49, WIDTH, 2);
  context.fillStyle = color("ink");
  context.fillRect(at(truth) - 1, 26, 2, 48);
  context.fillText(`true answer ${number(truth)}`, at(truth), 18);
  for (const side of [-1, 1]) {
    const place = truth + side * 2 * plan.rmse;
    context.fillStyle = color("soft");
    context.fillRect(at(place) - 1, 42, 2, 16);
    context.fillText(number(place), at(place), 86);
  }
  estimates.forEach((estimate, i) => {
    const last = i === estimates.length - 1;
    context.fillStyle = color(last ? "noise" : "accent");
    context.globalAlpha = last ? 1 : 0.4;
    context.beginPath();
    context.arc(at(estimate), 50, last ? 8 : 5, 0, 2 * Math.PI);
    context.fill();
  });
  context.globalAlpha = 1;
  context.textAlign = "start";
  canvas.setAttribute(
    "aria-label",
    `${counted(estimates.length, "estimate")} around the true answer`,
  );
}

/** The first messages of a report, sealed for a key that is thrown away. */
async function ciphertexts(): Promise<string[]> {
  const { publicKey } = await webKey();
  const seal = await sealer(publicKey, new Uint8Array(0), webKey);
  const found = Array.from({ length: SHOWN_CIPHERTEXTS }, () => seal(new Uint8Array(4)));
  return (await Promise.all(found)).map(hex);
}

let shown: (() => void) | undefined;

function label(): void {
  const { users, epsilon } = chosen();
  part("users-shown").textContent = number(users);
  part("epsilon-shown").textContent = shownEpsilon(epsilon);
  input("users").setAttribute("aria-valuetext", number(users));
  input("epsilon").setAttribute("aria-valuetext", shownEpsilon(epsilon));
}

async function update(): Promise<void> {
  label();
  const done = await run();
  if (!done) return;
  const { plan, mine, counts, truth } = done;
  const epsilon = Number(shownEpsilon(plan.epsilon));
  const sent = counts.reduce((sum, count) => sum + count, 0);
  const estimate = plan.atZero + plan.perMessage * sent;
  const base = Math.round(-plan.atZero / plan.perMessage / plan.users);
  const own = counts[0]! - base - mine;
  const others = sent - plan.users * base - truth;
  part("device-words").textContent =
    `You answer ${mine ? "yes" : "no"}. Your device makes ${base} messages that count, ${mine ? "and one more because you said yes" : "and none more because you said no"}.`;
  part("noise-words").textContent =
    `It drew ${own === 0 ? "no noise this time" : `${own > 0 ? "+" : "−"}${Math.abs(own)} of noise`}. Each of the ${number(plan.users)} people adds very little. Together they added ${others >= 0 ? "+" : "−"}${Math.abs(others)} in this run, and nobody knows that number.`;
  part("report").replaceChildren(
    ...Array.from({ length: plan.size }, (_, i) =>
      make("span", { class: i < counts[0]! ? "plus" : "dummy" }),
    ),
  );
  part("report").setAttribute(
    "aria-label",
    `${counts[0]} messages that count and ${plan.size - counts[0]!} empty ones`,
  );
  part("report-words").textContent =
    `Empty messages fill the report up to ${plan.size}, so that every report has the same size, and all are encrypted.`;
  part("count-words").textContent =
    `${number(sent)} of the ${number(plan.users * plan.size)} messages count. From that number the analyzer subtracts what ${number(plan.users)} people send anyway.`;
  part("answer").textContent =
    `About ${number(Math.round(estimate))} of ${number(plan.users)} say yes.`;
  part("answer-words").textContent =
    `The true answer is ${number(truth)}. The typical error with these settings is ±${number(plan.rmse)}.`;
  part("privacy-words").textContent =
    `Someone who would have guessed 50:50 about you ends up at most ${number((100 * Math.exp(epsilon)) / (1 + Math.exp(epsilon)))} % sure (ε = ${shownEpsilon(plan.epsilon)}), whatever they know about the others. This page proved that for these parameters before it drew anything.`;
  const key = `${plan.users} ${plan.epsilon} ${mine}`;
  if (earlier.key !== key) earlier = { key, estimates: [] };
  earlier.estimates.push(estimate);
  const estimates = [...earlier.estimates];
  shown = () => {
    drawMessages(done);
    drawEstimates(done, estimates);
  };
  shown();
  const sealed = await ciphertexts().catch(() => []);
  part("cipher").textContent = sealed.map((one) => `${one.slice(0, 64)}…`).join("\n");
  document.body.dataset.runs = String(Number(document.body.dataset.runs ?? 0) + 1);
}

for (const [id, values] of [
  ["users", USERS],
  ["epsilon", EPSILONS],
] as const) {
  input(id).max = String(values.length - 1);
  input(id).addEventListener("input", label);
  input(id).addEventListener("change", () => void update());
}
for (const id of ["yes", "no"]) input(id).addEventListener("change", () => void update());
part("again").addEventListener("click", () => void update());
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => shown?.());
void update();
