"""`shuffledp relay`: run a relay, and print a shuffler's gateway key for tasks."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from shuffledp.cli.output import Commands, add_command, add_group, read_key_text
from shuffledp.cli.serve import add_serve

if TYPE_CHECKING:
    from shuffledp.tasks.oblivious import GatewayKey


def add_to(commands: Commands) -> None:
    actions = add_group(commands, "relay", "forward sealed requests without addresses")
    add_serve(actions, "relay")
    key = add_command(
        actions,
        "key",
        run_key,
        "print a shuffler's gateway key, for `task create --gateway-key`",
        examples=["relay key --shuffler https://shuffler.example > gateway-key.json"],
        needs=["client"],
    )
    key.add_argument("--shuffler", required=True, metavar="URL", help="its URL")


def run_key(args: argparse.Namespace) -> None:
    from shuffledp.service.client.collector import gateway_key

    print(json.dumps({"gateway_key": gateway_key(args.shuffler).to_bytes().hex()}))


def add_gateway(parser: argparse.ArgumentParser) -> None:
    """Adds the option of `task create` that names the gateway's key."""
    parser.add_argument(
        "--gateway-key",
        metavar="FILE",
        help="JSON from `shuffledp relay key`: reports may come through a relay",
    )


def given_gateway(args: argparse.Namespace) -> GatewayKey | None:
    """The gateway's key that the option names; None if it names none."""
    from shuffledp.tasks.oblivious import GatewayKey

    if not args.gateway_key:
        return None
    return GatewayKey.from_hex(read_key_text(args.gateway_key, "gateway_key", "relay key"))
