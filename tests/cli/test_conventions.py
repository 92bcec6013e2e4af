"""What people expect of any command: help, examples, pipes, completion, questions, exit codes."""

from __future__ import annotations

import argparse
import io
import json
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import run

from shuffledp.cli.main import GROUPS, joined, parser
from shuffledp.cli.tokens import given_token
from shuffledp.tasks.keys import KeyFolder


def leaves(
    of: argparse.ArgumentParser, name: str = ""
) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """All commands that do something, by their names."""
    below = [one for one in of._actions if isinstance(one, argparse._SubParsersAction)]
    if not below:
        yield name.strip(), of
    for word, one in below[0].choices.items() if below else ():
        yield from leaves(one, f"{name} {word}")


LEAVES = dict(leaves(parser()))
EXAMPLES = [
    line.strip().removeprefix("shuffledp ")
    for one in LEAVES.values()
    for line in (one.epilog or "").splitlines()[1:]
]


def test_no_arguments_show_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys)
    assert code == 0 and not err
    assert run(capsys, "--help")[1] == run(capsys, "-h", "plan")[1] == out
    commands = next(one for one in parser()._actions if isinstance(one.choices, dict)).choices
    assert commands is not None
    grouped = [name for names in GROUPS.values() for name in names]
    assert sorted(grouped) == sorted(commands) and "others:" not in out
    for title, names in GROUPS.items():
        assert f"\n{title}:\n  {names[0]} " in out
    code, out, err = run(capsys, "task")
    assert code == 0 and "register" in out and not err


@pytest.mark.parametrize("name", LEAVES)
def test_every_command_has_examples_and_shared_options(name: str) -> None:
    command = LEAVES[name]
    lines = (command.epilog or "").splitlines()
    assert lines[:1] == ["examples:"], f"give add_command examples for {name}"
    assert any(f"shuffledp {name}" in line for line in lines)
    options = {option for one in command._actions for option in one.option_strings}
    assert {"--json", "-q", "-v"} <= options and "--out" not in options


@pytest.mark.parametrize("example", EXAMPLES)
def test_examples_are_calls_that_the_parser_takes(example: str) -> None:
    for call in example.split(" | shuffledp "):
        words = shlex.split(call)
        cut = [place for place, word in enumerate(words) if word in ("<", ">")]
        parser().parse_args(joined(words[: cut[0]] if cut else words))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["cuont", "x.csv"], "did you mean count?"),
        (["plan", "histogramm"], "did you mean histogram?"),
        (["count", "x.csv", "--epsilom", "1"], "There is no option --epsilom; did you mean --eps"),
        (["count", "x.csv", "--epsilon", "1", "--colunm=a"], "did you mean --column?"),
        (["task", "register", "x", "--shufler", "y"], "did you mean --shuffler?"),
        (["count", "x.csv", "--epsilon", "1", "--zzz"], "nrecognized arguments: --zzz"),
        (["zzz"], "There is no command 'zzz'; see shuffledp --help."),
    ],
)
def test_did_you_mean(capsys: pytest.CaptureFixture[str], words: list[str], said: str) -> None:
    code, out, err = run(capsys, *words)
    assert code == 2 and not out and said in err and err.count("\n") == 1


def standard(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))


def test_plans_and_tasks_through_pipes(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked = ["plan", "count", "--users", "100", "--epsilon", "1", "--padded"]
    code, plan, _ = run(capsys, *asked, "--output", "-")
    assert code == 0 and json.loads(plan)["query"] == "count"
    standard(monkeypatch, plan)
    assert run(capsys, "verify", "-")[0] == 0
    standard(monkeypatch, "{")
    code, out, err = run(capsys, "verify", "-")
    assert code == 2 and err.startswith("Standard input is not valid JSON") and not out
    key = tmp_path / "key.json"
    key.write_text(json.dumps(KeyFolder(tmp_path / "keys").new().public.to_dict()))
    created = [
        "task",
        "create",
        "--key",
        str(key),
        "--name",
        "n",
        "--shuffler",
        "https://s.example",
    ]
    standard(monkeypatch, plan)
    code, task, _ = run(capsys, *created, "--plan", "-", "--output", "-")
    assert code == 0
    for wrong in (["--reports", "0"], ["--shuffler", "s.example"]):
        standard(monkeypatch, plan)
        code, out, err = run(capsys, *created, *wrong, "--plan", "-", "--output", "-")
        assert code == 2 and not out and err.count("\n") == 1
    for action in ("show", "verify"):
        standard(monkeypatch, task)
        assert run(capsys, "task", action, "-")[0] == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["key.json", "keys"]


def test_a_refuted_certificate_has_its_own_exit_code(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "plan.json"
    run(capsys, "plan", "count", "--users", "100", "--epsilon", "1", "--output", str(path))
    good = path.read_text()
    weaker = json.loads(good)
    weaker["certificate"]["protocol"]["cell"]["up"]["odds"] = ["1/1000000000"]
    claimed = json.loads(good)
    claimed["certificate"]["loss"] = "1/2"
    unknown = json.loads(good)
    unknown["certificate"]["format"] = "another"
    checker = [sys.executable, "-m", "shuffledp_check"]
    for data, code in ((json.loads(good), 0), (weaker, 3), (claimed, 3), (unknown, 2)):
        path.write_text(json.dumps(data))
        assert run(capsys, "verify", str(path))[0] == code
        found = subprocess.run([*checker, str(path)], capture_output=True, check=False).returncode
        assert found == (3 if code == 2 else code)  # the checker knows one format
    for words in ([], ["none.json"]):
        done = subprocess.run([*checker, *words], capture_output=True, check=False, cwd=tmp_path)
        assert done.returncode == 2
    piped = subprocess.run([*checker, "-"], input=good, capture_output=True, text=True, check=False)
    assert piped.returncode == 0 and piped.stdout == "-: certified for epsilon = 1\n"


class Terminal(io.StringIO):
    """A person who types one line."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("answer", "words", "destroyed"),
    [
        (None, [], False),
        ("no\n", [], False),
        ("\n", [], False),
        ("yes\n", [], True),
        (None, ["--yes"], True),
    ],
)
def test_destroying_a_key_is_asked_about(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    answer: str | None,
    words: list[str],
    destroyed: bool,
) -> None:
    folder = KeyFolder(tmp_path)
    folder.new()
    monkeypatch.setattr("sys.stdin", io.StringIO() if answer is None else Terminal(answer))
    code, _, err = run(capsys, "keys", "destroy", str(tmp_path), "--id", "1", *words)
    assert code == (0 if destroyed else 2) and folder.destroyed(1) is destroyed
    assert ("ever be opened again" in err) == (answer is not None)
    code, _, err = run(capsys, "keys", "destroy", str(tmp_path), "--id", "7")
    assert code == 2 and "There is no key 7" in err


def token(**given: str | None) -> str:
    args = argparse.Namespace(token=None, token_file=None)
    vars(args).update(given)
    return given_token(args, "client")


def test_tokens_come_from_files_pipes_and_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "token.txt"
    file.write_text("from-a-file\nsecond line\n")
    assert token(token_file=str(file)) == "from-a-file"
    standard(monkeypatch, "from-a-pipe\n")
    assert token(token_file="-") == "from-a-pipe"
    monkeypatch.setenv("SHUFFLEDP_CLIENT_TOKEN", "from-the-environment")
    assert token() == "from-the-environment" and token(token="given") == "given"
    asked = ["send", "--task", str(file), "--token-file"]
    for wrong in (str(tmp_path / "none"), str(tmp_path)):
        code, out, err = run(capsys, *asked, wrong)
        assert code == 2 and not out and err.count("\n") == 1
    code, _, err = run(capsys, *asked, "-", "--value", "-")
    assert code == 2 and "only once" in err


def test_quiet_and_verbose(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def demo(users: int, epsilon: str, say: object, keep: bool, _: object) -> dict[str, object]:
        assert callable(say)
        say("a server runs")
        result = {
            "interval": [0, 1],
            "estimate": 1.0,
            "clipped": 1.0,
            "confidence": 0.95,
            "epsilon": float(epsilon),
        }
        return {"truth": 1, "result": result, "anomaly": 0.0}

    monkeypatch.setattr("shuffledp.service.demo.run_demo", demo)
    for words in (["demo", "-q"], ["-q", "demo"]):
        code, out, err = run(capsys, *words)
        assert code == 0 and "truth" in out and not err
    assert "a server runs" in run(capsys, "demo")[2]
    wrong = ["plan", "count", "--users", "0", "--epsilon", "1"]
    for words in ([*wrong, "-v"], ["-v", *wrong]):
        code, _, err = run(capsys, *words)
        assert code == 2 and "Traceback" in err
    assert "Traceback" not in run(capsys, *wrong)[2]
    code, _, err = run(capsys, "version", "-v")
    assert code == 0 and "done in" in err
    assert run(capsys, "version", "-q", "-v")[0] == 2


@pytest.mark.parametrize("shell", ["bash", "zsh", "tcsh"])
def test_completion(capsys: pytest.CaptureFixture[str], shell: str) -> None:
    code, out, _ = run(capsys, "completion", shell)
    assert code == 0 and "shuffledp" in out and "epsilon" in out and "histogram" in out
    assert run(capsys, "completion", "dos")[0] == 2


def test_bash_takes_the_completion(capsys: pytest.CaptureFixture[str]) -> None:
    script = run(capsys, "completion", "bash")[1]
    asked = "\nCOMP_WORDS=(shuffledp hist); COMP_CWORD=1; _shtab_shuffledp; echo ${COMPREPLY[@]}"
    done = subprocess.run(
        ["bash", "-c", script + asked], capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["histogram"], done.stderr


def test_outputs_are_checked_before_anything_is_done(
    capsys: pytest.CaptureFixture[str], csv: str, tmp_path: Path
) -> None:
    ledger = str(tmp_path / "b.json")
    run(capsys, "ledger", "create", ledger, "--budget", "1")
    asked = ["count", csv, "--column", "flag", "--epsilon", "1", "--ledger", ledger]
    assert run(capsys, *asked, "--plot", str(tmp_path / "none" / "x.png"))[0] == 2
    assert json.loads(run(capsys, "ledger", "show", ledger, "--json")[1])["spent"] == "0"
    store = ["backup", "--store", f"sqlite:{tmp_path}/a.db", "--output"]
    code, _, err = run(capsys, *store, "-")
    assert code == 2 and "standard output" in err
    code, _, err = run(capsys, *store, str(tmp_path / "none" / "x"))
    assert code == 2 and "There is no folder" in err
