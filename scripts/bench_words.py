"""How often heavy hitters finds all words above 1 %: `python scripts/bench_words.py [RUNS]`.

100,000 users with words of English in the proportions of the package wordfreq (test extra), ε = 2.
"""

from __future__ import annotations

import sys

import numpy as np
import wordfreq

from shuffledp import SeededEntropy, plan_heavy_hitters

USERS = 100_000


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    words = wordfreq.top_n_list("en", 3_000)
    shares = np.array([wordfreq.word_frequency(word, "en") for word in words])
    counts = np.floor(shares / shares.sum() * USERS).astype(int)
    counts[-1] += USERS - counts.sum()
    data = np.repeat(np.array(words, object), counts)
    wanted = {word for word, count in zip(words, counts, strict=True) if count >= USERS // 100}
    plan = plan_heavy_hitters(USERS, 2)
    print(f"{len(wanted)} words above 1 %; {plan.report_size:,} messages in a padded report")
    whole = 0
    for seed in range(runs):
        entropy = SeededEntropy(seed)
        what = plan.protocol.renewed(entropy)
        found = what.analyze(what.release(what.aggregate(data, entropy)))
        missed = wanted - {row[0] for row in found.rows()}
        whole += not missed
        print(f"{seed + 1} runs, all found in {whole}; missed now: {sorted(missed)}", flush=True)


if __name__ == "__main__":
    main()
