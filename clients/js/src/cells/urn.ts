/** Pólya's urn (docs/mathematics.md, "Sparse histograms"). */
import { uniform, type Words } from "../numbers/sampling.js";

/** The buckets of tokens by the urn: each goes to a new bucket, or to that of an earlier token. */
export function urn(
  { users, buckets }: { readonly users: number; readonly buckets: number },
  tokens: number,
  words: Words,
): number[] {
  const found: number[] = [];
  while (found.length < tokens) {
    const number = uniform(BigInt(buckets) + BigInt(found.length) * BigInt(users), words);
    found.push(number < buckets ? number : found[Math.floor((number - buckets) / users)]!);
  }
  return found;
}
