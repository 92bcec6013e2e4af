"""`shuffledp backup` and `shuffledp restore`: copies of a server's SQLite store."""

from __future__ import annotations

import argparse

from shuffledp.cli.output import Commands, add_command, emit, file_only


def add_to(commands: Commands) -> None:
    backup = add_command(
        commands,
        "backup",
        run_backup,
        "copy a server's store while it runs",
        examples=["backup --store sqlite:shuffler.db --output shuffler.backup"],
        needs=["service"],
    )
    backup.add_argument("--store", required=True, help="as in its configuration: sqlite:<path>")
    backup.add_argument("--output", required=True, metavar="FILE", help="the file to write")
    restore = add_command(
        commands,
        "restore",
        run_restore,
        "restore a backup; stop the server first",
        examples=["restore --backup shuffler.backup --store sqlite:shuffler.db"],
        needs=["service"],
    )
    restore.add_argument(
        "--backup", required=True, metavar="FILE", help="the file that `backup` wrote"
    )
    restore.add_argument("--store", required=True, help="as in its configuration: sqlite:<path>")


def run_backup(args: argparse.Namespace) -> None:
    from shuffledp.service.store.backups import back_up

    size = back_up(args.store, file_only(args.output))
    emit(
        args,
        {"file": args.output, "bytes": size},
        f"{args.output} holds the store ({size:,} bytes). It does not include the keys of a "
        "shuffler's reports: never restore older ones.",
    )


def run_restore(args: argparse.Namespace) -> None:
    from shuffledp.service.store.backups import restore

    restore(args.backup, args.store)
    emit(
        args,
        {"store": args.store},
        f"{args.store} is restored; start the server. Leave its other folders unchanged: they "
        "record what has happened since the backup.",
    )
