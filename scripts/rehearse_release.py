"""Runs the shell steps of the release workflow's jobs `build`, `pypi` and `npm` here, up to the
upload.

    python scripts/rehearse_release.py            # in a fresh clone; takes some minutes

Actions of GitHub are left out, except that an artifact is handed on. `npm publish` becomes a dry
run; nothing is uploaded.
"""

from __future__ import annotations

import importlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

yaml: Any = importlib.import_module("yaml")
ROOT = Path(__file__).resolve().parents[1]
WORKFLOW = ROOT / ".github" / "workflows" / "release.yml"
UPLOAD = re.compile(r"^npm publish --provenance")
DRY = "npm publish --dry-run"
"""Without provenance, which only the workflow's identity can sign."""


def steps(job: str) -> Iterator[str]:
    """The shell commands of a job; an upload is turned into a dry run."""
    workflow: dict[str, Any] = yaml.safe_load(WORKFLOW.read_text("utf-8"))
    for step in workflow["jobs"][job]["steps"]:
        if "run" in step:
            yield UPLOAD.sub(DRY, step["run"])


def run(job: str, folder: Path) -> None:
    """Runs a job's commands in a folder; raises if one fails."""
    version = (ROOT / "src/shuffledp/version.py").read_text("utf-8")
    named = re.search(r'__version__ = "(.*)"', version)
    environ = {**os.environ, "GITHUB_REF_NAME": f"v{named[1] if named else ''}"}
    for command in steps(job):
        print(f"{job}: {command}", flush=True)
        subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command], cwd=folder, env=environ, check=True
        )


def main() -> int:
    """Builds here, and hands the artifact to the other jobs, each in an empty folder."""
    try:
        run("build", ROOT)
        for job in ("pypi", "npm"):
            with tempfile.TemporaryDirectory() as folder:
                shutil.copytree(ROOT / "dist", Path(folder, "dist"))
                run(job, Path(folder))
    except subprocess.CalledProcessError as error:
        print(f"The step failed with code {error.returncode}.", file=sys.stderr)
        return 1
    print("Everything but the upload works.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
