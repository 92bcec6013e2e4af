"""How often heavy hitters find all frequent words: `python scripts/bench_words.py [RUNS]`.

100,000 users with words of English in the proportions of the package wordfreq (test extra), ε = 1.
"""

from __future__ import annotations

import sys

import numpy as np
import wordfreq

from shuffledp import SeededEntropy, plan_heavy_hitters

USERS, FREQUENT = 100_000, 300


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    words = wordfreq.top_n_list("en", 20_000)
    shares = np.array([wordfreq.word_frequency(word, "en") for word in words])
    counts = np.random.default_rng(3).multinomial(USERS, shares / shares.sum())
    data = np.repeat(np.array(words, object), counts)
    wanted = {word for word, count in zip(words, counts, strict=True) if count >= FREQUENT}
    plan = plan_heavy_hitters(USERS, 1)
    print(f"{len(wanted)} words of {FREQUENT} users or more; {plan.to_dict()['found_from']}")
    whole = invented = 0
    for seed in range(runs):
        entropy = SeededEntropy(seed)
        one = plan.renewed(entropy)
        found = {row[0] for row in one.analyze(one.release(one.aggregate(data, entropy))).rows()}
        whole += wanted <= found
        invented += len(found - set(words))
        print(f"{seed + 1} runs, all found in {whole}, {invented} words invented", flush=True)


if __name__ == "__main__":
    main()
