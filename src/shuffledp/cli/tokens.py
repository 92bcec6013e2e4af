"""Tokens on the command line: from the environment, a file or, for trials, an option."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from shuffledp.cli.output import STANDARD, write_output
from shuffledp.errors import ParameterError
from shuffledp.numbers.exact import counted

LONGEST_TOKEN = 1000


def add_token(parser: argparse.ArgumentParser, who: str, server: str = "") -> None:
    """Adds --token and --token-file, or --SERVER-token and --SERVER-token-file for a role that has
    one token per server."""
    option = f"--{server}-token" if server else "--token"
    at = f" at the {server}" if server else ""
    given = parser.add_mutually_exclusive_group()
    given.add_argument(
        option,
        metavar="TOKEN",
        help=f"the {who}'s token{at}; only for trials, because other users of this machine can see "
        f"it: better set {variable(who, server)}",
    )
    given.add_argument(
        f"{option}-file",
        metavar="FILE",
        help=f"the file with the {who}'s token{at}; - is standard input",
    )


def variable(who: str, server: str = "") -> str:
    """The environment variable of a token."""
    return f"SHUFFLEDP_{who.upper()}_TOKEN" + (f"_{server.upper()}" if server else "")


def given_token(
    args: argparse.Namespace, who: str, server: str = "", *, option: str = "token"
) -> str:
    """The token from the option, its file or the environment; `server` says where it is valid, for
    a role that has one per server."""
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
    """The collector's tokens at the servers. They must differ, because each server learns the one
    it is sent and must not be able to use it at another."""
    found = {
        server: given_token(args, "collector", server, option=f"{server}_token")
        for server in servers
    }
    if len(set(found.values())) < len(found):
        raise ParameterError(
            "The collector has the same token at two servers, so each could act as the collector "
            "at the other; create one for each with `shuffledp keys token`."
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
        raise ParameterError(
            f"{path} contains no token; use a text file with a token on its first line."
        ) from None


def add_made_tokens(parser: argparse.ArgumentParser) -> None:
    """Adds the options that say how many tokens to create, and where to write them."""
    parser.add_argument("--count", required=True, metavar="N", help="how many tokens")
    parser.add_argument(
        "--output", required=True, metavar="FILE", help="file for the tokens, one per line, or -"
    )


def write_tokens(args: argparse.Namespace, tokens: Sequence[str], holder: str) -> None:
    """Writes fresh tokens to --output."""
    said = f"{args.output} holds {counted(len(tokens), 'token')}; give one to each {holder}."
    write_output(
        args,
        "\n".join(tokens) + "\n",
        {"tokens": len(tokens), "file": args.output},
        said,
        secret=True,
    )
