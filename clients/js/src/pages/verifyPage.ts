/** The page that checks a plan, a task or a published result; part of the documents. It sends
 * nothing and works from a file. */
import type { ShuffledpError } from "../errors.js";
import { show, text, type Rational } from "../numbers/rational.js";
import { make, part } from "./markup.js";
import {
  directions,
  isStrict,
  isTrue,
  meaning,
  verify,
  type CheckedCell,
  type Inequality,
  type Verdict,
} from "./verify.js";

const DIGITS = 15;
const FEW = 4;
const KINDS = {
  plan: "plan",
  task: "task",
  result: "published result",
  certificate: "certificate",
};

/** A fraction in decimal digits: the first `DIGITS` of them, not rounded. */
function decimal([n, d]: Rational): string {
  if (n < 0n) return `−${decimal([-n, d])}`;
  if (n === 0n) return "0";
  let power = String(n).length - String(d).length; // n/d lies in (10^(power − 1), 10^(power + 1))
  const scaled = (shift: number): bigint =>
    shift >= 0 ? (n * 10n ** BigInt(shift)) / d : n / (d * 10n ** BigInt(-shift));
  let digits = String(scaled(DIGITS - 1 - power));
  if (digits.length < DIGITS) digits = String(scaled(DIGITS - 1 - --power));
  const [rest, more] = [digits.replace(/0+$/, ""), digits.length - DIGITS];
  power += more;
  if (power < -6 || power > 20)
    return `${rest[0]}${rest[1] ? `.${rest.slice(1)}` : ""} · 10^${power}`;
  if (power < 0) return `0.${"0".repeat(-power - 1)}${rest}`;
  const whole = digits.slice(0, power + 1).padEnd(power + 1, "0");
  const part = digits.slice(power + 1).replace(/0+$/, "");
  return part ? `${whole}.${part}` : whole;
}

const side = (value: Rational): Node =>
  make("td", {}, [
    make("span", { class: "short" }, [decimal(value)]),
    make("span", { class: "exact" }, [text(value)]),
  ]);

function row(inequality: Inequality): HTMLElement {
  const { name, left, right } = inequality;
  const strict = isStrict(inequality);
  const [first, second] = strict ? [right, left] : [left, right];
  const holds = isTrue(inequality);
  return make("tr", {}, [
    make("th", { scope: "row" }, [name]),
    side(first),
    make("td", {}, [strict ? "<" : "≤"]),
    side(second),
    make("td", { class: holds ? "yes" : "no" }, [holds ? "holds" : "fails"]),
  ]);
}

const table = (title: string, inequalities: readonly Inequality[]): HTMLElement => {
  const heads = ["Inequality", "Left side", "", "Right side", "Checked"].map((head) =>
    head ? make("th", { scope: "col" }, [head]) : make("td"),
  );
  return make("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": title }, [
    make("table", {}, [
      make("caption", {}, [title]),
      make("thead", {}, [make("tr", {}, heads)]),
      make("tbody", {}, inequalities.map(row)),
    ]),
  ]);
};

/** Inequalities with what they mean; a long run of one form is folded. */
function listing(title: string, inequalities: readonly Inequality[]): Node[] {
  const [many, others] = [
    inequalities.filter(({ name }) => name.startsWith("I=")),
    inequalities.filter(({ name }) => !name.startsWith("I=")),
  ];
  const meanings = [...new Set(inequalities.map(({ name }) => meaning(name)))].filter(Boolean);
  const nodes: Node[] = [
    make(
      "ul",
      { class: "meanings" },
      meanings.map((words) => make("li", {}, [words])),
    ),
    table(title, many.length > FEW ? others : inequalities),
  ];
  if (many.length > FEW)
    nodes.push(
      make("details", {}, [
        make("summary", {}, [`All ${many.length} places I of the third inequality`]),
        table(`${title}: places`, many),
      ]),
    );
  return nodes;
}

function cellSection(checked: CheckedCell, number: number): HTMLElement {
  const { cell, copies, up, down } = checked.use;
  return make("section", {}, [
    make("h3", {}, [
      `Cell ${number}: ${cell.kind}, values 0 to ${cell.largest}${copies > 1 ? `, ${copies} copies` : ""}`,
    ]),
    make("p", {}, [`A change upwards may cost ε = ${show(up)}, one downwards ε = ${show(down)}.`]),
    ...directions(checked).flatMap(([title, some]) => [
      make("h4", {}, [title]),
      ...listing(title, some),
    ]),
  ]);
}

const all = ({ total, cells, padding }: Verdict): Inequality[] => [
  ...total,
  ...cells.flatMap((cell) => cell.inequalities),
  ...padding,
];

/** A verdict for people: the answer first, then what it rests on. */
function shown(verdict: Verdict): Node[] {
  const { kind, protocol, id, question } = verdict;
  const count = all(verdict).length;
  const facts: [string, string | undefined][] = [
    ["Document", KINDS[kind]],
    ["Query", protocol.query],
    ["Question", question],
    ["Task id", id],
    ["Users", protocol.users.toLocaleString("en")],
    ["Protects", "any one user's value, replaced by any other"],
    ["Rule for losses", protocol.lossRule],
  ];
  return [
    make("p", { class: "verdict yes" }, [
      `Certified for ε = ${show(protocol.epsilon)}, by these ${count} inequalities.`,
    ]),
    make("p", {}, [
      `Changing one person's answer changes the probability of any outcome by a factor of at most e^ε = ${Math.exp(Number(show(protocol.epsilon))).toPrecision(4)}, if at least ${protocol.users.toLocaleString("en")} users take part and the protocol is run as written here.`,
    ]),
    make(
      "dl",
      {},
      facts.flatMap(([name, fact]) =>
        fact ? [make("dt", {}, [name]), make("dd", {}, [fact])] : [],
      ),
    ),
    make("h2", {}, ["Every inequality, with both sides"]),
    make("p", {}, [
      "Sides are shown to 15 digits; they were compared exactly. Rounded quantities are rounded to the side that makes the proof harder.",
    ]),
    ...listing("The whole protocol", verdict.total),
    ...verdict.cells.map((cell, i) => cellSection(cell, i + 1)),
    ...(verdict.padding.length
      ? [make("h3", {}, ["Length of reports"]), ...listing("Length of reports", verdict.padding)]
      : []),
  ];
}

/** Checks a text and shows the outcome. */
async function check(given: string, name: string): Promise<void> {
  const out = part("outcome");
  out.replaceChildren(make("p", {}, ["Checking …"]));
  await new Promise((resolve) => setTimeout(resolve, 20)); // so that this is painted
  try {
    const verdict = await verify(given);
    out.replaceChildren(...shown(verdict));
  } catch (error) {
    const { message } = error as ShuffledpError;
    out.replaceChildren(
      make("p", { class: "verdict no" }, ["Not certified."]),
      make("p", {}, [message]),
    );
  }
  part("file-name").textContent = name;
  out.dataset.done = String(Number(out.dataset.done ?? 0) + 1);
}

async function checkFile(file: File | undefined | null): Promise<void> {
  if (file) await check(await file.text(), file.name);
}

const drop = part("drop");
for (const event of ["dragover", "dragleave", "drop"])
  drop.addEventListener(event, (happened) => {
    happened.preventDefault();
    drop.classList.toggle("over", event === "dragover");
    if (event === "drop") void checkFile((happened as DragEvent).dataTransfer?.files[0]);
  });
const chosen = part("file") as HTMLInputElement;
chosen.addEventListener("change", () => void checkFile(chosen.files?.[0]));
part("check").addEventListener(
  "click",
  () => void check((part("text") as HTMLTextAreaElement).value, "pasted text"),
);
const exact = part("exact") as HTMLInputElement;
exact.addEventListener("change", () => document.body.classList.toggle("exactly", exact.checked));
