"""`shuffledp studio`: a local web page to plan, rehearse and collect without writing code."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable

from shuffledp.cli.output import Commands, add_command
from shuffledp.numbers.exact import whole


def add_to(commands: Commands) -> None:
    parser = add_command(
        commands,
        "studio",
        run,
        "a local web page to plan, rehearse and collect without code",
        examples=["studio", "studio --port 8600 --no-browser"],
        needs=["studio"],
    )
    parser.add_argument(
        "--port", default="0", metavar="P", help="port to listen on (default: any free one)"
    )
    parser.add_argument(
        "--no-browser", action="store_true", help="print the link without opening it"
    )


def run(args: argparse.Namespace) -> None:
    from shuffledp.studio.serving import open_browser, redirect_file, serve

    def opened(link: str) -> Callable[[], None]:
        if args.json:
            print(json.dumps({"link": link}), flush=True)
        else:
            print(f"The studio is open at {link}", flush=True)
            print("The link works once. Press Ctrl+C to stop the studio.", file=sys.stderr)
        if args.no_browser:
            return lambda: None
        page = redirect_file(link)
        open_browser(page)
        return lambda: page.unlink(missing_ok=True)

    serve(whole(args.port, "--port", least=0, most=65535), opened)
