"""`shuffledp init`, `start` and `rehearse`: from nothing to a first published result."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shuffledp.cli.output import Commands, add_command, check_option, emit, note
from shuffledp.cli.result import show
from shuffledp.errors import ParameterError, ShuffleDPError

if TYPE_CHECKING:
    from rich.console import Console

    from shuffledp.service.setup.folder import Folder, Organisation
    from shuffledp.service.setup.introduction import Introduction

ROLES = ("shuffler", "analyzer", "issuer", "relay", "collector")


def add_to(commands: Commands) -> None:
    _add_init(commands)
    _add_start(commands)
    rehearse = add_command(
        commands,
        "rehearse",
        run_rehearse,
        "let simulated devices answer through both servers, and show the published result",
        examples=["rehearse statistics"],
        needs=["service"],
    )
    rehearse.add_argument("folder", metavar="FOLDER", help="the collector's folder")


def _add_init(commands: Commands) -> None:
    init = add_command(
        commands,
        "init",
        run_init,
        "make everything that one organisation needs, in a new folder",
        examples=[
            'init mixing --role shuffler --name "Example Mixing" --url https://mixing.example:8801',
            'init statistics --role analyzer --role collector --name "Example Statistics" '
            "--url https://statistics.example:8802",
        ],
        needs=["service"],
    )
    init.add_argument("folder", metavar="FOLDER", help="the new folder")
    init.add_argument(
        "--role",
        action="append",
        required=True,
        choices=ROLES,
        help="what this organisation runs; the collector, who asks, may also run the analyzer "
        "(repeatable)",
    )
    init.add_argument("--name", required=True, metavar="NAME", help="the organisation's name")
    init.add_argument("--url", default="", help="the public URL of its server")
    init.add_argument(
        "--listen",
        default="",
        metavar="HOST:PORT",
        help="where the server listens (default: every address, port 8801 to 8804 by role)",
    )
    init.add_argument(
        "--behind-proxy",
        action="store_true",
        help="a proxy on this machine ends TLS (default: the server does, with the files in tls/)",
    )
    init.add_argument(
        "--budget", default="10", metavar="E", help="the analyzer's ε in total (default: 10)"
    )
    init.add_argument(
        "--store", default="", help="sqlite:FILE or postgresql://… (default: sqlite:store.db)"
    )


def _add_start(commands: Commands) -> None:
    start = add_command(
        commands,
        "start",
        run_start,
        "import the other organisations' files, check everything and run the server until SIGTERM",
        examples=["start mixing --with statistics/introduction.json"],
        needs=["service"],
    )
    start.add_argument("folder", metavar="FOLDER", help="the folder that `shuffledp init` made")
    start.add_argument(
        "--with",
        action="append",
        default=[],
        dest="introductions",
        metavar="FILE",
        help="introduction.json of another organisation (repeatable; only the first time)",
    )
    start.add_argument(
        "--check", action="store_true", help="check the folder and end, without running a server"
    )
    start.add_argument(
        "--rehearse", action="store_true", help="also run `shuffledp rehearse` once both are ready"
    )


def run_init(args: argparse.Namespace) -> None:
    from shuffledp.service.setup.folder import Organisation
    from shuffledp.tasks.task import OPERATOR
    from shuffledp.tasks.tokens import SERVER_URL

    url = args.url.rstrip("/")
    check_option(OPERATOR, args.name, "--name")
    if url:
        check_option(SERVER_URL, url, "--url")
    organisation = Organisation(
        folder=Path(args.folder),
        name=args.name,
        roles=args.role,
        url=url,
        listen=args.listen,
        behind_proxy=args.behind_proxy,
        budget=args.budget,
        store=args.store,
    )
    said = organisation.create()
    steps = next_steps(organisation, said)
    emit(
        args,
        {"folder": args.folder, "introduction": f"{args.folder}/introduction.json", "next": steps},
        lambda out: out.print("\n".join(steps), soft_wrap=True),
    )


def next_steps(organisation: Organisation, said: Introduction) -> list[str]:
    """What to do after `init`: what to send to whom, what comes back, what to run."""
    from shuffledp.service.setup.folder import Folder

    folder = organisation.folder
    wanted = Folder(folder).missing()
    steps = [
        f"{folder} contains the keys, tokens and settings of {organisation.name}, which runs the "
        f"{' and the '.join(said.roles)}.",
        f"Send {folder}/introduction.json to the other organisations; it contains no secrets.",
        f"You need the introduction of the {' and of the '.join(wanted)}.",
    ]
    if (folder / "tls").exists():
        steps.append(
            f"Put the server's certificate and key into {folder}/tls/certificate.pem and key.pem."
        )
    steps.append(f"Then run: shuffledp start {folder} --with THEIR-INTRODUCTION.json")
    return steps


def run_start(args: argparse.Namespace) -> None:
    from shuffledp.service.checking import checked_config
    from shuffledp.service.setup.folder import Folder
    from shuffledp.service.setup.introduction import Introduction

    folder = Folder(args.folder)
    for file in [Introduction.load(path) for path in args.introductions]:
        folder.learn(file)
    missing = folder.missing()
    if missing:
        raise ParameterError(
            f"The introduction of the {' and the '.join(missing)} is missing; ask that "
            "organisation for its introduction.json, and pass it with --with."
        )
    if args.rehearse and "collector" not in folder.own.roles:
        raise ParameterError("Only the collector can rehearse; leave --rehearse out.")
    if folder.server is None:
        note(args, f"{folder.path}/policy.json contains the keys that devices pin.")
        if args.rehearse:
            run_rehearse(args)
        return
    os.environ |= folder.secrets("secrets.env")
    os.chdir(folder.path)  # settings name files relative to the folder
    folder.path = Path()
    checked_config(folder.server, "service.toml")
    if args.check:
        emit(args, {"ready": True}, f"The {folder.server} can start.")
        return
    _serve(args, folder, folder.server)


def _serve(args: argparse.Namespace, folder: Folder, role: str) -> None:
    """Runs the server; enrols the rehearsal's tokens, and rehearses, once it is ready."""
    from shuffledp.service.roles import serve_role
    from shuffledp.service.setup.rehearsal import enrol_for_rehearsal

    url = str(folder.own.roles[role]["url"])

    def enrol() -> None:
        try:
            enrol_for_rehearsal(folder, url, lambda line: note(args, line))
        except ShuffleDPError as error:
            note(args, f"The collector's tokens for a rehearsal are not enrolled: {error}")

    if role == "shuffler":
        threading.Thread(target=enrol, daemon=True).start()
    command = [sys.executable, "-m", "shuffledp.cli.main", "rehearse", "."]
    rehearsing = subprocess.Popen(command) if args.rehearse else None
    try:
        serve_role(role, "service.toml")
    finally:
        if rehearsing is not None:
            rehearsing.terminate()
            rehearsing.wait()


def run_rehearse(args: argparse.Namespace) -> None:
    from shuffledp.service.setup.folder import Folder
    from shuffledp.service.setup.rehearsal import rehearse

    os.umask(0o077)
    found = rehearse(Folder(args.folder), lambda line: note(args, line))
    emit(args, found, lambda out: _show(out, found))


def _show(out: Console, found: dict[str, Any]) -> None:
    show(out, found)
    out.print(f"The simulated devices' true count is {found['truth']}.")
