// The page of `shuffledp demo --browser`: ask, say what will be sent, send, show the result.
import { createClient, loadTask } from "./client/client.js";

const part = (id) => document.getElementById(id);
const number = (value) => Number(value.toFixed(1)).toLocaleString("en");

function say(text, bad = false) {
  part("message").textContent = text;
  part("message").className = bad ? "bad" : "";
}

/** This device's token, stored so that a report can be sent again after an interruption. */
async function token() {
  let kept = localStorage.getItem("token");
  if (!kept) {
    const answer = await fetch("/token", { method: "POST" });
    if (!answer.ok) throw new Error("This device could not be enrolled. Reload the page to try again.");
    kept = (await answer.json()).token;
    localStorage.setItem("token", kept);
  }
  return kept;
}

function open(enabled) {
  part("answers").disabled = part("send").disabled = !enabled;
}

async function showConsent(task) {
  const { question, sentences } = await task.describe();
  part("question").textContent = question;
  part("consent").replaceChildren(...sentences.map((sentence) => {
    const line = document.createElement("li");
    line.textContent = sentence;
    return line;
  }));
}

async function resume(client) {
  if ((await client.state()) !== "waiting") return;
  open(false);
  say("Your answer is stored on this device. Sending it …");
  await client.resume();
  say("Thank you. Your answer has arrived.");
}

async function start() {
  const survey = await (await fetch("/task.json")).json();
  const task = await loadTask(survey.task, { id: survey.id, relay: survey.relay });
  await showConsent(task);
  const client = createClient(task, { token: await token() });
  const trouble = (error) => say(error.message, true);
  addEventListener("online", () => resume(client).catch(trouble));
  part("form").addEventListener("submit", async (event) => {
    event.preventDefault();
    const value = Number(new FormData(part("form")).get("answer"));
    open(false);
    say("Randomizing, encrypting and sending …");
    try {
      await client.send(value);
      part("form").reset(); // so that nobody sees the choice on the screen later
      say("Thank you. Your answer has arrived.");
    } catch (error) {
      trouble(error);
      open((await client.state()) === "none");
    }
    await showConsent(task);
  });
  const state = await client.state();
  open(state === "none");
  // fetch the one-time token early: its time then says less about when the answer is sent
  if (state === "none" && task.issuer) client.prepare().catch(trouble);
  if (state === "answered") say("You have answered this question.");
  await resume(client);
}

function draw({ clipped: estimate, interval: [low, high], confidence }, users) {
  const place = (value) => 10 + 580 * Math.min(Math.max(value / users, 0), 1);
  part("estimate").textContent = `About ${number(estimate)} of ${number(users)} say yes.`;
  const percent = Math.round(100 * confidence);
  part("interval").textContent = `With ${percent} % confidence between ${number(low)} and ${number(high)}.`;
  part("drawing").setAttribute("aria-label", `${number(estimate)}, interval ${number(low)} to ${number(high)}`);
  part("drawing").querySelector(".span").setAttribute("x1", place(low));
  part("drawing").querySelector(".span").setAttribute("x2", place(high));
  part("drawing").querySelector(".dot").setAttribute("cx", place(estimate));
  part("most").textContent = number(users);
  part("result").hidden = false;
}

async function follow() {
  try {
    const { answers, users, result } = await (await fetch("/live.json", { cache: "no-store" })).json();
    part("count").textContent = result
      ? `All ${number(users)} answers are in.`
      : `${number(answers)} of ${number(users)} answers. The result appears when all are in.`;
    part("progress").max = users;
    part("progress").value = result ? users : answers;
    if (result) return draw(result, users);
  } catch {
    part("count").textContent = "The server does not answer. Trying again …";
  }
  setTimeout(follow, 700);
}

follow();
start().catch((error) => say(error.message, true));
