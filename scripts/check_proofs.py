"""Checks the machine-checked theorems in proofs/ and prints what they rest on.

1. Says which Debian packages are missing; installs nothing.
2. Refuses words that leave something unproved, such as Admitted or Axiom.
3. Compiles every file in build/proofs and asks Coq what every theorem assumes: nothing is allowed.
4. Compiles the spoilt variants of proofs/spoilt.toml, each of which must fail inside a proof.

With `--no-spoilt` step 4 is left out. Needs Python 3.11 and Coq, nothing else.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypedDict

ROOT = Path(__file__).resolve().parents[1]
PROOFS = ROOT / "proofs"
BUILD = ROOT / "build" / "proofs"
PACKAGES = {
    "coq": "",
    "libcoq-mathcomp-algebra": "From mathcomp Require Import all_ssreflect ssralg ssrnum rat.",
    "libcoq-mathcomp-multinomials": "From SsrMultinomials Require Import mpoly.",
    "libcoq-mathcomp-zify": "From mathcomp Require Import zify.",
    "libcoq-mathcomp-algebra-tactics": "From mathcomp Require Import ring.",
}
FORBIDDEN = re.compile(
    r"\b(Admitted|admit|give_up|Abort|Axioms?|Parameters?|Conjectures?|Primitive|Declare\s+Module"
    r"|bypass_check|Unset\s+(Guard|Positivity|Universe)\s+Checking"
    r"|type_in_type)\b"
)
STATED = re.compile(r"^(?:Theorem|Example)\s+(\w+)", re.MULTILINE)
COMMENT = re.compile(r"\(\*.*?\*\)", re.DOTALL)
CLOSED = "Closed under the global context"


class Variant(TypedDict):
    """A change that must make a proof fail."""

    file: str
    what: str
    find: str
    replace: str


def main() -> None:
    missing = missing_packages()
    if missing:
        sys.exit(
            "These Debian packages are missing, so nothing was checked; install them and run "
            f"this again: apt-get install {' '.join(missing)}"
        )
    files = in_order(sorted(PROOFS.glob("*.v")))
    for path in files:
        if found := FORBIDDEN.search(without_comments(path)):
            sys.exit(f"{path.name} contains {found.group()}: every theorem must be proved.")
    started = time.monotonic()
    fresh(BUILD)
    for path in files:
        shutil.copy(path, BUILD)
    for path in files:
        if error := compiled(BUILD, path.name):
            sys.exit(f"{path.name} does not compile:\n{error}")
    theorems = show_theorems(files)
    print(
        f"{theorems} theorems and examples, no assumptions, {time.monotonic() - started:.0f} s.",
        flush=True,
    )
    if "--no-spoilt" not in sys.argv[1:]:
        refuse_spoilt(files)


def missing_packages() -> list[str]:
    """The packages that Coq cannot load, in the order in which they build on each other."""
    if shutil.which("coqc") is None:
        return list(PACKAGES)
    probe = fresh(BUILD / "probe")
    missing = []
    for package, line in PACKAGES.items():
        (probe / "probe.v").write_text(line + "\n")
        if compiled(probe, "probe.v"):
            missing.append(package)
    return missing


def fresh(folder: Path) -> Path:
    """The folder, empty."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def without_comments(path: Path) -> str:
    return COMMENT.sub(" ", path.read_text())


def in_order(files: list[Path]) -> list[Path]:
    """The files so that each comes after those it requires."""
    names = {path.stem: path for path in files}
    done: list[Path] = []

    def add(path: Path) -> None:
        for line in re.findall(r"^Require Import ([\w ]+)\.", path.read_text(), re.MULTILINE):
            for name in line.split():
                add(names[name])
        if path not in done:
            done.append(path)

    for path in files:
        add(path)
    return done


def compiled(folder: Path, name: str) -> str:
    """Coq's error, or nothing if the file compiles."""
    command = ["coqc", "-q", "-w", "-notation-overridden,-ambiguous-paths", name]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return "" if run.returncode == 0 else run.stdout + run.stderr


def show_theorems(files: list[Path]) -> int:
    """Prints every theorem and what it rests on; how many there are."""
    lines, names = [], []
    for path in files:
        for name in STATED.findall(without_comments(path)):
            lines.append(f"Print Assumptions {path.stem}.{name}.")
            names.append(f"{path.stem}.{name}")
    stems = " ".join(path.stem for path in files)
    (BUILD / "all_theorems.v").write_text("\n".join([f"Require {stems}.", *lines]) + "\n")
    command = ["coqc", "-q", "-w", "-notation-overridden,-ambiguous-paths", "all_theorems.v"]
    run = subprocess.run(command, cwd=BUILD, capture_output=True, text=True, check=False)
    answers = [line for line in run.stdout.splitlines() if line.strip()]
    if run.returncode or answers != [CLOSED] * len(names):
        sys.exit(f"Some theorem rests on an assumption:\n{run.stdout}{run.stderr}")
    for name in names:
        print(f"  {name}: {CLOSED}")
    return len(names)


def refuse_spoilt(files: list[Path]) -> None:
    """Each spoilt variant must fail inside a proof, not for its syntax or an unknown name. As many
    are tried at once as there are processors."""
    variants: list[Variant] = tomllib.loads((PROOFS / "spoilt.toml").read_text())["variant"]
    places = [fresh(BUILD / "spoilt" / str(number)) for number in range(len(variants))]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for line in pool.map(partial(refused, files), variants, places):
            print(f"  {line}", flush=True)
    print(f"{len(variants)} spoilt variants refused.")


def refused(files: list[Path], variant: Variant, folder: Path) -> str:
    """Where a spoilt variant, compiled in a folder, is refused; ends the program if it is not."""
    text = (PROOFS / variant["file"]).read_text()
    if text.count(variant["find"]) != 1:
        sys.exit(
            f"spoilt.toml: {variant['file']} must contain the text of "
            f"“{variant['what']}” exactly once."
        )
    changed = False
    for path in files:
        if path.name == variant["file"]:
            (folder / path.name).write_text(text.replace(variant["find"], variant["replace"]))
            changed = True
        elif not changed:  # what comes before is as it was
            shutil.copy(BUILD / path.with_suffix(".vo").name, folder)
            shutil.copy(path, folder)
            continue
        else:
            shutil.copy(path, folder)
        if error := compiled(folder, path.name):
            break
    else:
        sys.exit(f"The spoilt variant “{variant['what']}” of {variant['file']} compiles.")
    where = failed_in(folder, error)
    if where is None:
        sys.exit(f"The spoilt variant “{variant['what']}” fails outside a proof:\n{error}")
    return f"refused in {where}: {variant['file']}, {variant['what']}"


def failed_in(folder: Path, error: str) -> str | None:
    """The lemma or theorem in whose proof Coq's error lies, or None if it lies elsewhere."""
    found = re.search(r'File "\./(\w+)\.v", line (\d+)', error)
    if found is None or "Syntax error" in error or "inconsistent assumptions" in error:
        return None
    if "was not found in the current environment" in error:
        return None
    stem, line = found.group(1), int(found.group(2))
    before = (folder / f"{stem}.v").read_text().splitlines()[:line]
    opened = None
    for text in before:
        if start := re.match(r"(?:Lemma|Theorem|Example)\s+(\w+)", text):
            opened = f"{stem}.{start.group(1)}"
        elif opened and re.search(r"\bQed\.", text) and text is not before[-1]:
            opened = None
    return opened


if __name__ == "__main__":
    main()
