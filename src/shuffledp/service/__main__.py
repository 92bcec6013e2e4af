"""`python -m shuffledp.service shuffler --config file.toml`: runs one server."""

from __future__ import annotations

import argparse
import sys

from shuffledp.errors import ShuffleDPError


def main() -> int:
    """Serves a role; exit code 2 with one sentence if it cannot."""
    from shuffledp.service.roles import ROLE_CONFIGS, serve_role

    parser = argparse.ArgumentParser(prog="python -m shuffledp.service")
    parser.add_argument("role", choices=sorted(ROLE_CONFIGS))
    parser.add_argument("--config", help="the TOML file")
    parser.add_argument("--allow-origin", action="append", default=[], metavar="ORIGIN")
    parser.add_argument("--workers", type=int, help="processes at the shuffler's public address")
    args = parser.parse_args()
    try:
        serve_role(args.role, args.config, args.allow_origin, args.workers)
    except ShuffleDPError as error:
        print(str(error), file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
