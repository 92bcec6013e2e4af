/** Enrolling at an issuer by evidence, for tasks that are for attested enrolments. */
import { direct } from "./asking.js";
import { random, webBase64 } from "./blind.js";
import { fail, ShuffledpError } from "./errors.js";
import { ascii, hex, sha256 } from "./hpke.js";

/** A fresh token, enrolled at an issuer that accepts this evidence; keep it, and give it to `createClient`. All
 * enrolments of one person together get one token per task, so that a lost answer costs nothing: enrol again. */
export async function enrolByEvidence(issuer: string, evidence: string): Promise<string> {
  const token = `each-${webBase64(random(32)).replace(/=+$/, "")}`;
  const answer = await direct(issuer.replace(/\/+$/, ""))("/enrolments", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: ascii(JSON.stringify({ sha256: hex(await sha256(ascii(token))), evidence })),
  });
  if (answer?.status === 201) return token;
  if (!answer || answer.status >= 500 || answer.status === 429) fail("unreachable", "The issuer does not answer now; try again later.");
  const data = (await answer.json().catch(() => null)) as { type?: unknown; detail?: unknown } | null;
  const code = String(data?.type).split(":").at(-1)!;
  throw new ShuffledpError("refused", `The issuer did not enrol this device: ${String(data?.detail ?? answer.status).slice(0, 500)}`, answer.status, code);
}
