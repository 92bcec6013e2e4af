"""Tokens on the command line: from the environment, from a file, or, for trials, as an option."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from shuffledp.cli.needs import STANDARD
from shuffledp.cli.output import write_output
from shuffledp.errors import ParameterError
from shuffledp.numbers.exact import counted

LONGEST_TOKEN = 1000


def add_token(parser: argparse.ArgumentParser, who: str, server: str = "") -> None:
    """Adds --token and --token-file, or --SERVER-token and --SERVER-token-file for those who have
    one at each server."""
    option = f"--{server}-token" if server else "--token"
    at = f" at the {server}" if server else ""
    given = parser.add_mutually_exclusive_group()
    given.add_argument(
        option,
        metavar="TOKEN",
        help=f"the {who}'s token{at}, for trials: everybody on this machine can see it in the list "
        f"of processes; better set {variable(who, server)}",
    )
    given.add_argument(
        f"{option}-file",
        metavar="FILE",
        help=f"the file with the {who}'s token{at}; - is standard input",
    )


def variable(who: str, server: str = "") -> str:
    """The environment's name for a token."""
    return f"SHUFFLEDP_{who.upper()}_TOKEN" + (f"_{server.upper()}" if server else "")


def given_token(
    args: argparse.Namespace, who: str, server: str = "", *, option: str = "token"
) -> str:
    """The token from the option, its file or the environment; `server` says where it is valid, for
    those who have one at each server."""
    name = variable(who, server)
    file = getattr(args, f"{option}_file")
    token = getattr(args, option) or (_read(file) if file else os.environ.get(name, ""))
    if not token:
        raise ParameterError(
            f"The {who}'s token is missing; set {name}, or name its file with "
            f"--{option.replace('_', '-')}-file."
        )
    return str(token)


def collector_tokens(args: argparse.Namespace, servers: dict[str, str]) -> dict[str, str]:
    """The collector's tokens at the servers, which must differ: each server learns the one that it
    is sent, and must not be able to use it at another."""
    found = {
        server: given_token(args, "collector", server, option=f"{server}_token")
        for server in servers
    }
    if len(set(found.values())) < len(found):
        raise ParameterError(
            "The collector has the same token at two servers, so each could act as the collector "
            "at the other; make one for each with `shuffledp keys token`."
        )
    return found


def _read(path: str) -> str:
    """The first line of a file."""
    try:
        if path == STANDARD:
            return sys.stdin.readline(LONGEST_TOKEN).strip()
        with open(path, encoding="utf-8") as file:
            return file.readline(LONGEST_TOKEN).strip()
    except OSError as error:
        raise ParameterError(f"{path} cannot be read ({error.strerror}); check the path.") from None
    except UnicodeError:
        raise ParameterError(f"{path} holds no token; give a text file with one.") from None


def add_made_tokens(parser: argparse.ArgumentParser) -> None:
    """Adds the options that say how many tokens are made, and where they go."""
    parser.add_argument("--count", type=int, required=True, metavar="N", help="how many")
    parser.add_argument(
        "--output", required=True, metavar="FILE", help="file for the tokens, one per line, or -"
    )


def write_tokens(args: argparse.Namespace, tokens: Sequence[str], holder: str) -> None:
    """Writes fresh tokens where --output asks for them, and says who gets one each."""
    said = f"{args.output} holds {counted(len(tokens), 'token')}; give each {holder} one."
    write_output(
        args,
        "\n".join(tokens) + "\n",
        {"tokens": len(tokens), "file": args.output},
        lambda out: out.print(said),
        secret=True,
    )
