"""`make bench`: how fast and how cheap the package is, beside peers measured in the same run.

    python scripts/bench.py [--quick] [--json] [--only PART]

Nothing here is a test: figures depend on the machine, ratios much less so. Every figure of the
documents comes from this program.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import gzip
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import partial
from importlib.resources import files
from pathlib import Path

import numpy as np

import shuffledp
from shuffledp.cells.bounded.digit_search import search_digits
from shuffledp.cells.digit_search import SumTarget
from shuffledp.cells.paper.cell import PaperCell
from shuffledp.numbers.entropy import SYSTEM
from shuffledp.numbers.laws import DiscreteLaplace
from shuffledp.numbers.sampler import sampler
from shuffledp.protocols.results import Result

Row = tuple[str, str, str]


def best_of(times: int, work: Callable[[], object]) -> float:
    """How many seconds the fastest of several runs took."""
    found = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        found.append(time.perf_counter() - start)
    return min(found)


def least_time(times: int, work: Callable[[], object]) -> float:
    """How many seconds of processor time the cheapest of several runs took, in all threads."""
    found = []
    for _ in range(times):
        start = time.process_time()
        work()
        found.append(time.process_time() - start)
    return min(found)


def peak_memory(work: Callable[[], object]) -> int | None:
    """By how many bytes the process grows at most while it works; None where Linux does not say."""
    import pyarrow as pa

    gc.collect()
    pa.default_memory_pool().release_unused()
    try:
        ctypes.CDLL(None).malloc_trim(0)  # so that memory which was freed is not used again
        Path("/proc/self/clear_refs").write_text("5")  # resets the peak
        before = _status("VmRSS")
        work()
        return max(_status("VmHWM") - before, 0)
    except (OSError, AttributeError):
        return None


def _status(name: str) -> int:
    """A number of bytes that Linux says about this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(f"{name}:"))


def calibration() -> list[Row]:
    """How fast this machine makes random bytes and writes memory: what limits all the rest."""
    megabytes = 64
    words = best_of(3, lambda: SYSTEM.words(megabytes << 20, np.uint8))
    target = np.ones(1 << 23, np.int64)
    memory = best_of(5, lambda: target.fill(7))
    return [
        ("machine", f"{platform.machine()}, {os.cpu_count()} cores", platform.python_version()),
        ("keystream", f"{megabytes / 1024 / words:.1f} GiB/s", "16 bits per draw"),
        ("memory writes", f"{target.nbytes / 2**30 / memory:.1f} GiB/s", "16 bytes per user"),
    ]


def messages() -> list[Row]:
    """Messages per user: on average, and at most in a padded report; then the paper's cell."""
    central = float(DiscreteLaplace(Fraction(1)).variance()) ** 0.5
    count, histogram, real = shuffledp.plan_count, shuffledp.plan_histogram, shuffledp.plan_real_sum
    three, two = 3 * central, 2 * central
    tasks: list[tuple[str, int, Callable[..., shuffledp.Plan[Result]]]] = [
        ("count ε=1 ρ=½ n=10²", 1, partial(count, 100, 1)),
        ("count ε=1 ρ=½ n=10⁴", 1, partial(count, 10**4, 1)),
        ("count ε=1 ρ=½ n=10⁶", 1, partial(count, 10**6, 1)),
        ("count ε=1 ρ=½ n=10⁹", 1, partial(count, 10**9, 1)),
        ("count ε=1 ρ=0.1 n=10⁶", 1, partial(count, 10**6, 1, mse_overhead="0.1")),
        ("count ε=0.1 ρ=½ n=10⁶", 1, partial(count, 10**6, "0.1")),
        ("count ε=1 ρ=½ R=1% n=10⁶", 1, partial(count, 10**6, 1, relative_error="0.01")),
        ("histogram per bucket n=10⁴", 10, partial(histogram, 10**4, 1, 10)),
        ("histogram per bucket n=10⁶", 10, partial(histogram, 10**6, 1, 10)),
        ("real sum within 3× n=10⁴", 1, partial(real, 10**4, 1, rmse=three)),
        ("real sum within 3× n=10⁶", 1, partial(real, 10**6, 1, rmse=three)),
        ("real sum within 2× n=10⁴", 1, partial(real, 10**4, 1, rmse=two)),
        ("real sum within 2× n=10⁶", 1, partial(real, 10**6, 1, rmse=two)),
    ]
    rows = []
    for name, buckets, plan in tasks:
        start = time.perf_counter()
        average = plan().forecast.messages_per_user / buckets
        spent = time.perf_counter() - start
        most = plan(padded=True).report_size / buckets
        old, old_most = plan(cell="paper"), plan(cell="paper", padded=True)
        rows.append(
            (
                name,
                f"{average:,.1f} on average, {most:,.1f} in a report",
                f"paper's cell: {old.forecast.messages_per_user / buckets:,.1f} and "
                f"{old_most.report_size / buckets:,.1f}; planned in {spent:.2f} s",
            )
        )
    return rows


def reports_of_sums() -> list[Row]:
    """What a padded report of a real sum holds: separate digits, with a dither, with a shared way
    up."""
    rows = []
    for users, rmse in ((10**4, "4.07"), (10**4, "2.714"), (10**6, "4.07"), (10**6, "2.714")):
        task = SumTarget(
            users=users, expected=users, epsilon=Fraction(1), mse=Fraction(rmse) ** 2, padded=True
        )
        separate = search_digits(replace(task, dither=1), None).cost
        dithered = search_digits(task, None).cost
        best = shuffledp.plan_real_sum(users, 1, rmse=rmse, padded=True)
        rows.append(
            (
                f"real sum, RMSE {rmse}, n = {users:,}",
                f"{separate:,.0f} separate, {dithered:,.0f} with a dither",
                f"{best.report_size:,} planned, {best.forecast.messages_per_user:,.1f} on average",
            )
        )
    return rows


def randomizing(users: int) -> list[Row]:
    """Every user's own exact draws, beside NumPy's inexact ones and OpenDP's exact ones."""
    plan = shuffledp.plan_count(users, 1, cell="paper")
    cell = plan.protocol.members[0].cell
    if not isinstance(cell, PaperCell):
        raise TypeError("NumPy repeats the draws of the paper's cell; plan for that cell.")
    values = (np.arange(users) % 3 == 0).astype(np.int64)
    cell.randomize_total(values[:1000])
    ours = best_of(3, lambda: cell.randomize_total(values))
    rng = np.random.default_rng(1)
    up, down = (-np.expm1(-float(law.decay)) for law in (cell.plus_noise, cell.minus_noise))
    flood, q = float(cell.flood_mean) / users, float(cell.mute_probability)

    def numpy_draws() -> None:
        rng.binomial(1, q, users)
        rng.negative_binomial(1 / users, up, users)
        rng.negative_binomial(1 / users, down, users)
        rng.poisson(flood, users)

    theirs = best_of(2, numpy_draws)
    rows = [
        (f"{users:,} users one by one", f"{ours:.3f} s", f"{users / ours / 1e6:,.0f} M users/s"),
        (
            "  NumPy, the same draws (inexact)",
            f"{theirs:.3f} s",
            f"we are {theirs / ours:.0f}× faster",
        ),
    ]
    exact = opendp_draws()
    if exact is not None:
        per_draw = ours / (4 * users)
        rows.append(
            (
                "  OpenDP, exact discrete Laplace",
                f"{exact * 1e9:,.0f} ns per draw",
                f"we need {per_draw * 1e9:.2f} ns: {exact / per_draw:,.0f}×",
            )
        )
    from shuffledp.numbers.laws import Poisson

    for rate in (1, 80):
        law = Poisson(Fraction(rate))
        sampler(law).draw(10)
        mine = best_of(3, partial(sampler(law).draw, users))
        peer = best_of(1, partial(rng.poisson, rate, users))
        rows.append(
            (
                f"  Poisson({rate}) alone",
                f"{users / mine / 1e6:,.0f} M draws/s",
                f"{peer / mine:.0f}× NumPy",
            )
        )
    return rows


def opendp_draws() -> float | None:
    """How many seconds OpenDP's vectorised exact sampler takes per draw; None without OpenDP."""
    try:
        import opendp.prelude as dp
    except ImportError:
        return None
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int)
    noise = space >> dp.m.then_laplace(scale=1.0)
    zeros = [0] * 20_000
    return best_of(2, lambda: noise(zeros)) / len(zeros)


def aggregate_path() -> list[Row]:
    """How long a batch takes that one process holds: the time must not grow with the users."""
    rows = []
    for users in (10**4, 10**6, 10**9, 10**12):
        plan = shuffledp.plan_count(users, 1)
        tally = np.array([users - users // 3, users // 3])
        plan.protocol.aggregate_tally(tally)
        spent = best_of(5, partial(plan.protocol.aggregate_tally, tally))
        rows.append((f"aggregate, {users:,} users", f"{spent * 1e3:.2f} ms", ""))
    return rows


def frameworks(rows_count: int) -> list[Row]:
    """The whole protocol on an array, beside OpenDP's framework on the same array."""
    try:
        import opendp.prelude as dp
    except ImportError:
        return [("OpenDP", "not installed: left out", "pip install 'shuffledp[bench]'")]
    dp.enable_features("contrib")
    labels = (np.arange(rows_count) * 7919 % 100).astype(np.int32)
    flags = labels == 3
    space = dp.vector_domain(dp.atom_domain(T="i32")), dp.symmetric_distance()
    by_category = (
        space
        >> dp.t.then_count_by_categories(categories=list(range(100)), null_category=False)
        >> dp.m.then_laplace(scale=2.0)
    )
    simple = space >> dp.t.then_count() >> dp.m.then_laplace(scale=1.0)
    ones = np.ones(rows_count, np.int32)
    histogram = shuffledp.plan_histogram(rows_count, 1, 100)
    count = shuffledp.plan_count(rows_count, 1)
    cases: list[tuple[str, Callable[[], object], Callable[[], object]]] = [
        ("histogram, 100 buckets", lambda: histogram.run(labels), lambda: by_category(labels)),
        ("count", lambda: count.run(flags), lambda: simple(ones)),
    ]
    found = []
    for name, ours, theirs in cases:
        ours()
        mine, peer = best_of(3, ours), best_of(2, theirs)
        found.append(
            (
                f"{name}, {rows_count:,} rows",
                f"{mine * 1e3:,.0f} ms",
                f"OpenDP {peer * 1e3:,.0f} ms: {peer / mine:.1f}×",
            )
        )
        if name.startswith("histogram"):
            each = best_of(1, lambda: histogram.release(histogram.randomize_all(labels)))
            found.append(
                (
                    "  row by row, in every bucket",
                    f"{each:,.1f} s",
                    f"{each / peer:.1f} times OpenDP's time",
                )
            )
    return found


def one_pass(rows_count: int) -> list[Row]:
    """Queries beside what the library that holds the data takes for one pass: processor time of
    second calls, and the memory that a call takes beyond the column's own."""
    import pandas as pd
    import polars as pl
    import pyarrow as pa
    import pyarrow.compute as pc

    rng = np.random.default_rng(1)
    labels = np.array([f"label {number:02}" for number in range(100)], object)
    codes, numbers = rng.integers(0, 100, rows_count), rng.random(rows_count)
    texts = pd.Series(labels[codes])
    arrow = pa.array(labels[codes])
    polars, table = pl.Series(arrow), pd.DataFrame({"yes": codes % 2 == 0, "group": texts})
    categories = pd.Series(pd.Categorical.from_codes(codes, labels.tolist()))
    named = labels.tolist()

    def histogram(data: object) -> Callable[[], object]:
        return lambda: shuffledp.histogram(data, epsilon=1, labels=named)

    own_texts, own_categories = texts.memory_usage(), categories.memory_usage()
    own_table = int(table.memory_usage().sum())
    cases: list[tuple[str, Callable[[], object], Callable[[], object], int, int]] = [
        ("histogram of texts, pandas", histogram(texts), texts.value_counts, 3, own_texts),
        (
            "histogram of texts, Polars",
            histogram(polars),
            polars.value_counts,
            3,
            int(polars.estimated_size()),
        ),
        (
            "histogram of texts, Arrow",
            histogram(arrow),
            lambda: pc.value_counts(arrow),
            3,
            arrow.nbytes,
        ),
        (
            "histogram of categories",
            histogram(categories),
            categories.value_counts,
            6,
            own_categories,
        ),
        (
            "count by 100 groups",
            lambda: shuffledp.count(table, column="yes", by="group", groups=named, epsilon=1),
            lambda: table.groupby("group").yes.sum(),
            4,
            own_table,
        ),
        (
            "mean",
            lambda: shuffledp.mean(numbers, bounds=(0, 1), epsilon=1),
            numbers.mean,
            20,
            numbers.nbytes,
        ),
    ]
    rows = []
    for name, ours, theirs, wanted, own in cases:
        ours()  # plans
        mine, pass_ = (least_time(5, work) for work in (ours, theirs))
        memory = peak_memory(ours)
        shown = "" if memory is None else f", memory {memory / own:.2f}× (wanted: 1.5×)"
        ratio = f"{mine / pass_:.1f}× of {pass_ * 1e3:,.0f} ms (wanted: {wanted}×){shown}"
        rows.append((f"{name}, {rows_count:,} rows", f"{mine * 1e3:,.0f} ms", ratio))
    return rows


def streaming(rows_count: int) -> list[Row]:
    """Peak memory of a sum over a Parquet file that is read in a stream."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "values.parquet"
        schema = pa.schema([("x", pa.float64())])
        block = np.random.default_rng(1).random(1_000_000)
        with pq.ParquetWriter(path, schema) as writer:
            for _ in range(rows_count // 1_000_000):
                writer.write_batch(pa.record_batch([pa.array(block)], schema))
        code = (
            "import re, sys, time, shuffledp, pyarrow.parquet\n"
            "status = lambda: open('/proc/self/status').read()\n"
            "peak = lambda: int(re.search('VmHWM:\\s+(\\d+)', status())[1])\n"
            "before = peak()\n"
            "start = time.perf_counter()\n"
            "shuffledp.real_sum(sys.argv[1], epsilon=1, bounds=(0, 1))\n"
            "spent = time.perf_counter() - start\n"
            "print(before // 1024, peak() // 1024, spent)"
        )
        output = subprocess.run(
            [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True
        ).stdout.split()
    return [
        (
            f"real sum of a file of {rows_count:,} rows",
            f"{float(output[2]):.1f} s",
            f"peak {output[1]} MB, of which imports {output[0]} MB",
        )
    ]


def importing() -> list[Row]:
    """`import shuffledp` in a fresh interpreter, beside an empty one."""
    bare, full = (
        best_of(5, partial(subprocess.run, [sys.executable, "-c", code], check=True))
        for code in ("pass", "import shuffledp")
    )
    return [("import shuffledp", f"{full - bare:.2f} s", "beyond a bare interpreter")]


def browser_client() -> list[Row]:
    """How large the JavaScript client is, as pages load it."""
    parts = (files("shuffledp.service") / "pages" / "client").iterdir()
    sizes = {part.name: len(gzip.compress(part.read_bytes(), 9)) for part in parts}
    core = sizes.pop("client.js")
    later = ", ".join(f"{name} {size / 1000:.1f}" for name, size in sorted(sizes.items()))
    return [("core, gzipped", f"{core / 1000:.2f} kB", f"loaded where needed, in kB: {later}")]


FIRST_CALLS = {
    "count": ("x < 0.5", ""),
    "histogram": ("(x * 10).astype(int)", ", labels=10"),
    "integer_sum": ("(x * 31).astype(int)", ", largest=30"),
    "real_sum": ("x", ", bounds=(0, 1)"),
    "mean": ("x", ", bounds=(0, 1)"),
    "quantiles": ("x", ", bounds=(0, 1)"),
}
"""Values and arguments of each query."""


def first_calls() -> list[Row]:
    """The first call of each query in a fresh interpreter: planning, proof and release."""
    found = []
    for query, (values, words) in FIRST_CALLS.items():
        code = (
            "import time, numpy as np, shuffledp\n"
            "x = np.random.default_rng(1).random(10_000)\n"
            "start = time.process_time()\n"
            f"shuffledp.{query}({values}, epsilon=1{words})\n"
            "print(time.process_time() - start)"
        )
        spent = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout
        found.append((f"first {query} of 10,000 rows", f"{float(spent):.2f} s", "of one core"))
    return found


def main() -> None:
    """Measures everything and prints it as tables or as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the sizes")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--only", help="the one part to measure, by its name")
    args = parser.parse_args()
    scale = 10 if args.quick else 1
    measures: dict[str, Callable[[], list[Row]]] = {
        "machine": calibration,
        "messages per user": messages,
        "reports of sums": reports_of_sums,
        "randomizing": lambda: randomizing(10**7 // scale),
        "aggregate": aggregate_path,
        "frameworks": lambda: frameworks(10**7 // scale),
        "one pass": lambda: one_pass(10**7 // scale),
        "streaming": lambda: streaming(10**8 // scale),
        "import": importing,
        "browser client": browser_client,
        "first calls": first_calls,
    }
    if args.only is not None and args.only not in measures:
        parser.error(f"--only must be one of {', '.join(measures)}.")
    parts = {name: measure() for name, measure in measures.items() if args.only in (None, name)}
    if args.json:
        print(json.dumps(parts, indent=2, ensure_ascii=False))
        return
    from rich.console import Console
    from rich.table import Table

    console = Console(width=110, highlight=False)
    for name, rows in parts.items():
        table = Table(title=name, title_justify="left", show_header=False, min_width=100)
        for row in rows:
            table.add_row(*row)
        console.print(table)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    console.print(f"peak memory of this run: {peak} MB")


if __name__ == "__main__":
    main()
