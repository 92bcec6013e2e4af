/** Why a page gets no answer from a server that is there. Loaded only after a request failed. */

/** Why the browser keeps a server's answers from this page, as a sentence; empty if the server does
 * not answer at all. The answer to this request cannot be read: only that there is one. */
export async function whyHidden(server: string): Promise<string> {
  if (typeof location === "undefined" || navigator.onLine === false) return "";
  const { origin } = new URL(server, location.href);
  let blocked = false;
  const note = ({ effectiveDirective: name }: SecurityPolicyViolationEvent) => {
    blocked ||= name === "connect-src" || name === "default-src";
  };
  document.addEventListener("securitypolicyviolation", note);
  try {
    const answers = (mode: RequestMode): Promise<boolean> =>
      fetch(server, {
        mode,
        credentials: "omit",
        referrerPolicy: "no-referrer",
        cache: "no-store",
      }).then(
        () => true,
        () => false,
      );
    // a server that can be read now was only away for a moment
    const there = (await answers("no-cors")) && !(await answers("cors"));
    await new Promise((resolve) => setTimeout(resolve)); // the event may come after the failure
    if (blocked)
      return `This page's Content-Security-Policy does not allow requests to ${origin}; add it to connect-src. `;
    return there
      ? `${origin} does not allow pages of ${location.origin}; its operator adds this origin to allow_origins. `
      : "";
  } finally {
    document.removeEventListener("securitypolicyviolation", note);
  }
}
