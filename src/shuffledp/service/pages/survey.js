// The page of `shuffledp demo --browser`: the survey element, and the result as it comes in.
import "./client/survey.js";

const part = (id) => document.getElementById(id);
const people = (value) => Math.round(value).toLocaleString("en");

async function start() {
  const { task, id, relay } = await (await fetch("/task.json")).json();
  const survey = document.createElement("shuffledp-survey");
  survey.setAttribute("task", task);
  survey.setAttribute("task-id", id);
  if (relay) survey.setAttribute("relay", relay);
  survey.setAttribute("token", "/token");
  part("survey").replaceWith(survey);
}

function draw({ clipped: estimate, interval: [low, high], confidence }, users) {
  const place = (value) => 10 + 580 * Math.min(Math.max(value / users, 0), 1);
  const percent = Math.round(100 * confidence);
  part("estimate").textContent = `About ${people(estimate)} of ${people(users)} people say yes.`;
  part("interval").textContent = `With ${percent} % confidence between ${people(low)} and ${people(high)}.`;
  part("drawing").setAttribute("aria-label", `About ${people(estimate)}, between ${people(low)} and ${people(high)}`);
  part("drawing").querySelector(".span").setAttribute("x1", place(low));
  part("drawing").querySelector(".span").setAttribute("x2", place(high));
  part("drawing").querySelector(".dot").setAttribute("cx", place(estimate));
  part("most").textContent = people(users);
  part("result").hidden = false;
}

async function follow() {
  try {
    const { answers, users, result } = await (await fetch("/live.json", { cache: "no-store" })).json();
    part("count").textContent = result
      ? `All ${people(users)} answers are in.`
      : `${people(answers)} of ${people(users)} answers. The result appears when all are in.`;
    part("progress").max = users;
    part("progress").value = result ? users : answers;
    if (result) return draw(result, users);
  } catch {
    part("count").textContent = "The server does not answer. Trying again …";
  }
  setTimeout(follow, 700);
}

follow();
start().catch(() => {
  part("survey").textContent = "The question could not be loaded. Reload the page to try again.";
});
