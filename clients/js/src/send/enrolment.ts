/** Enrolling at an issuer by evidence, for tasks that are for attested enrolments. */
import { base64Url, hex, randomBytes, sha256, utf8 } from "../bytes.js";
import { direct, refusal, unanswered } from "./requests.js";

/** A fresh token, enrolled at an issuer that accepts this evidence; keep it, and give it to
 * `createClient`. All enrolments of one person together get one token per task, so a lost answer
 * costs nothing: enrol again. */
export async function enrolByEvidence(
  issuer: string,
  evidence: string,
  { signal }: { readonly signal?: AbortSignal } = {},
): Promise<string> {
  const token = `each-${base64Url(randomBytes(32)).replace(/=+$/, "")}`;
  const ask = direct(issuer.replace(/\/+$/, ""), signal);
  const answer = await ask("/enrolments", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: utf8(JSON.stringify({ sha256: hex(await sha256(utf8(token))), evidence })),
  });
  if (answer?.status === 201) return token;
  if (!answer || answer.status >= 500 || answer.status === 429)
    return unanswered(ask.server, answer, "The issuer does not answer now; try again later.");
  throw await refusal(answer, "The issuer did not enrol this device");
}
