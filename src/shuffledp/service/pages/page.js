// The status page: replaces its content every three seconds.
async function refresh() {
  const age = document.querySelector("#age");
  try {
    const answer = await fetch("/", { cache: "no-store" });
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    document.querySelector("main").replaceWith(fresh.querySelector("main"));
    age.textContent = "live";
  } catch {
    age.textContent = "server not reachable; retrying";
  }
}
document.querySelector("#age").textContent = "live";
setInterval(refresh, 3000);
