/** `<shuffledp-survey task="https://shuffler.example/tasks/…" token="/token">`: asks a person a
 * task's question, says in plain words what happens to the answer, sends it, and shows afterwards
 * what was sent. Importing this module defines the element.
 *
 * Attributes: `task`, the task's URL; `token`, the URL of this site that answers a POST with
 * `{"token": …}`; and if they are needed `task-id` and `relay`. Its content is ordinary HTML in the
 * page, so the page's styles apply; its styles are in the layer `shuffledp`.
 *
 * Events, which bubble: `shuffledp:sent` and `shuffledp:stored` after an answer, `shuffledp:declined`,
 * and `shuffledp:error` with the error as `detail`. None of them holds the answer. */
import type { Description } from "../device/describe.js";
import { fail } from "../errors.js";
import type { Answer, Value, Values } from "../queries/base.js";
import { createClient, type Client } from "../send/client.js";
import { loadTask } from "../send/load.js";
import type { Task } from "../task/task.js";
import { make, on, STYLE } from "./markup.js";

const MOST_RADIOS = 12;
/** Tokens that this site is being asked for: two questions on a page share one. */
const asked = new Map<string, Promise<string>>();
let lists = 0;
const number = (value: number): string => value.toLocaleString("en");

/** What asks for a value: its markup, and how to read it. */
interface Field {
  readonly nodes: readonly Node[];
  read(): Answer;
}

const numbered = ({ value }: HTMLInputElement): Answer =>
  value.trim() === "" ? fail("value", "Enter a number.") : Number(value);

/** One choice among labels; `name` tells it apart from another one in the same form. */
function choices(labels: readonly Value[], name: string, names = labels.map(String)): Field {
  if (labels.length > MOST_RADIOS) {
    const select = make("select", { required: "", "aria-label": "Your answer" }, [
      make("option", { value: "" }, ["Choose …"]),
      ...names.map((label, i) => make("option", { value: String(i) }, [label])),
    ]);
    return { nodes: [select], read: () => labels[Number(select.value)]! };
  }
  const inputs = labels.map((_, i) =>
    make("input", { type: "radio", name, value: String(i), required: "" }),
  );
  return {
    nodes: inputs.map((input, i) => make("label", {}, [input, ` ${names[i]}`])),
    read: () => labels[inputs.findIndex(({ checked }) => checked)]!,
  };
}

/** What asks for a value of this kind. */
function field(values: Values): Field {
  const input = (attributes: Record<string, string>) =>
    make("input", { required: "", "aria-label": "Your answer", ...attributes });
  switch (values.kind) {
    case "whole":
      if (values.least === 0 && values.most === 1) return choices([1, 0], "answer", ["Yes", "No"]);
    // falls through
    case "number": {
      const step = values.kind === "whole" ? "1" : "any";
      const one = input({ type: "number", step, min: `${values.least}`, max: `${values.most}` });
      return { nodes: [one], read: () => numbered(one) };
    }
    case "date": {
      const type = values.unit === "day" ? "date" : "datetime-local";
      const one = input({ type, min: values.least, max: values.most, step: "1" });
      return { nodes: [one], read: () => one.value };
    }
    case "label":
      return choices(values.labels, "answer");
    case "any": {
      const id = `shuffledp-candidates-${++lists}`; // ids are of the page, which may ask twice
      const one = input({ type: "text", maxlength: "1000", list: id });
      const known = values.candidates.map((label) => make("option", { value: String(label) }));
      const whole = typeof values.candidates[0] === "number";
      return {
        nodes: [one, make("datalist", { id }, known)],
        read: () => (whole ? numbered(one) : one.value),
      };
    }
    case "group": {
      const group = choices(values.labels, "group");
      const value = field(values.value);
      return {
        nodes: [...group.nodes, ...value.nodes],
        read: () => [group.read() as Value, value.read() as number],
      };
    }
  }
}

export class SurveyElement extends HTMLElement {
  private started = false;

  connectedCallback(): void {
    if (this.started) return;
    this.started = true;
    if (!document.adoptedStyleSheets.includes(STYLE)) document.adoptedStyleSheets.push(STYLE);
    this.replaceChildren(make("p", {}, ["Loading the question …"]));
    this.start().catch((error: Error) => this.trouble(error));
  }

  private async start(): Promise<void> {
    const [id, relay] = [this.getAttribute("task-id"), this.getAttribute("relay")];
    const task = await loadTask(new URL(this.getAttribute("task") ?? "", document.baseURI), {
      ...(id && { id }),
      ...(relay && { relay }),
    });
    const client = createClient(task, { token: await this.token() });
    const state = await client.state();
    if (state === "none") {
      // the one-time token early: its time then says less about when the answer is sent
      if (task.issuer) client.prepare().catch(() => undefined);
      return this.ask(task, client);
    }
    if (state === "stored") await this.sending(task, () => client.resume());
    else await this.thank(task, "You have answered this question.");
  }

  /** This device's token, stored so that a report can be sent again after an interruption. */
  private token(): Promise<string> {
    const url = this.getAttribute("token") ?? "/token";
    const asking = asked.get(url) ?? this.fetchToken(url).finally(() => asked.delete(url));
    asked.set(url, asking);
    return asking;
  }

  private async fetchToken(url: string): Promise<string> {
    const name = `shuffledp token ${url}`;
    const kept = localStorage.getItem(name);
    if (kept) return kept;
    const answer = await fetch(url, { method: "POST" }).catch(() => null);
    const { token } = ((await answer?.json().catch(() => null)) ?? {}) as { token?: unknown };
    if (!answer?.ok || typeof token !== "string")
      return fail("token", "This site gave no token. Reload the page to try again.");
    localStorage.setItem(name, token);
    return token;
  }

  private async ask(task: Task, client: Client): Promise<void> {
    const about = await task.describe();
    const { nodes, read } = field(about.values);
    const note = make("p", { role: "status" });
    const send = make("button", { type: "submit" }, ["Send my answer"]);
    const decline = make("button", { type: "button", class: "quiet" }, [
      "I would rather not answer",
    ]);
    const form = make("form", {}, [
      make("fieldset", {}, [make("legend", {}, ["Your answer"]), ...nodes]),
      make("div", { class: "buttons" }, [send, decline]),
      note,
    ]);
    on(form, "submit", () => {
      let value: Answer;
      try {
        value = read();
      } catch (error) {
        note.textContent = (error as Error).message;
        return;
      }
      const sending = () => client.send(value);
      this.sending(task, sending).catch(async (error: Error & { code?: string }) => {
        if (error.code === "value") await this.ask(task, client);
        this.trouble(error);
      });
    });
    on(decline, "click", () => this.decline(task, client));
    this.replaceChildren(heading(task), ...plainWords(about), form, howItWorks(about));
  }

  private decline(task: Task, client: Client): void {
    const again = make("button", { type: "button", class: "quiet" }, ["Answer after all"]);
    on(again, "click", () => this.ask(task, client));
    const said = make("p", { role: "status" }, ["You chose not to answer. Nothing was sent."]);
    this.replaceChildren(heading(task), said, again);
    this.tell("declined");
  }

  private async sending(
    task: Task,
    send: () => Promise<{ readonly state: string } | null>,
  ): Promise<void> {
    const said = make("p", { role: "status" }, ["Adding noise, encrypting and sending …"]);
    this.replaceChildren(heading(task), said);
    const receipt = await send();
    const stored = receipt?.state === "stored";
    await this.thank(
      task,
      stored
        ? "Thank you. You are offline: your answer is stored on this device, encrypted, and is sent when you are online again."
        : "Thank you. Your answer has arrived.",
    );
    this.tell(stored ? "stored" : "sent");
  }

  /** What was sent, when, with which protection; export and forget. */
  private async thank(task: Task, words: string): Promise<void> {
    const { history, exportHistory, wipe } = await import("../device/history.js");
    const [about, sent] = await Promise.all([task.describe(), history()]);
    const mine = sent.findLast((one) => one.task === task.id);
    const save = make("button", { type: "button", class: "quiet" }, ["Save a copy"]);
    const forget = make("button", { type: "button", class: "quiet" }, ["Forget it on this device"]);
    const note = make("p", { role: "status" });
    on(save, "click", async () => download(await exportHistory()));
    on(forget, "click", async () => {
      const { waiting } = await wipe();
      note.textContent = waiting
        ? "An answer still waits to be sent, so it stays until then."
        : "Forgotten. This device keeps only what the answer cost, so that its privacy budget still holds.";
    });
    const when = new Date((mine?.when ?? 0) * 1000).toLocaleString("en", {
      dateStyle: "long",
      timeStyle: "short",
    });
    const facts: readonly (readonly [string, string])[] = [
      [
        "What",
        `an encrypted report of ${number(task.reportBytes)} bytes, the same size for every answer`,
      ],
      ["When", mine ? when : "not known any more"],
      [
        "Protection",
        `hidden among the answers of ${number(about.users)} people (ε = ${about.epsilon})`,
      ],
      ["Kept here", "that you answered and what it cost; not your answer"],
    ];
    this.replaceChildren(
      heading(task),
      make("p", { role: "status", class: "done" }, [words]),
      make("h3", {}, ["What you sent"]),
      make(
        "dl",
        {},
        facts.flatMap(([name, fact]) => [make("dt", {}, [name]), make("dd", {}, [fact])]),
      ),
      make("div", { class: "buttons" }, [save, forget]),
      note,
      howItWorks(about),
    );
  }

  private trouble(error: Error): void {
    this.append(make("p", { role: "alert" }, [error.message]));
    this.tell("error", error);
  }

  private tell(name: string, detail?: unknown): void {
    this.dispatchEvent(new CustomEvent(`shuffledp:${name}`, { bubbles: true, detail }));
  }
}

const heading = ({ question }: Task): Node => make("h2", {}, [question]);

/** What happens to an answer, before any detail. */
function plainWords({ users, operators }: Description): Node[] {
  const { shuffler, analyzer } = operators;
  return [
    `Your device adds noise to your answer and encrypts it before anything is sent. It is then counted together with the answers of ${number(users)} people.`,
    `From what is sent, nobody can be sure what you answered: not the people who handle it, and not those who read the result. This holds as long as ${shuffler}, which mixes the answers, and ${analyzer}, which counts them, do not work together.`,
  ].map((words) => make("p", {}, [words]));
}

const howItWorks = ({ sentences }: Description): Node =>
  make("details", {}, [
    make("summary", {}, ["How this works"]),
    make(
      "ul",
      {},
      [
        ...sentences,
        "As on any website, the people who run this one could read what you enter. The noise and the encryption protect your answer from everyone who handles it after that.",
      ].map((sentence) => make("li", {}, [sentence])),
    ),
  ]);

function download(text: string): void {
  const url = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  make("a", { href: url, download: "shuffledp-history.json" }).click();
  URL.revokeObjectURL(url);
}

if (!customElements.get("shuffledp-survey"))
  customElements.define("shuffledp-survey", SurveyElement);
