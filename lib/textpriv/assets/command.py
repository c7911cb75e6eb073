"""The assets from a shell: `python -m textpriv.assets list|fetch|card|lock`."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence

from textpriv.assets.catalogue import card, defaults, local, lock_text, registry
from textpriv.assets.download import fetch, is_cached
from textpriv.errors import TextprivError


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; 0 when all went well, 1 after one line that says what did not."""
    parser = argparse.ArgumentParser(prog="python -m textpriv.assets")
    commands = parser.add_subparsers(dest="command", required=True)
    for name, summary in {
        "list": "every asset: size, state, licence",
        "fetch": "download and check (the assets of the default profile if none is named)",
        "card": "data cards as Markdown (of all assets if none is named)",
        "lock": "the contents of assets.lock",
    }.items():
        command = commands.add_parser(name, help=summary, description=summary)
        if name in ("fetch", "card"):
            command.add_argument("ids", nargs="*", metavar="id")
        if name == "fetch":
            command.add_argument("--default", action="store_true", help="the default profile's too")
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    try:
        _run(parser.parse_args(arguments))
    except TextprivError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("error: interrupted; nothing unfinished was kept", file=sys.stderr)
        return 130
    return 0


def _run(asked: argparse.Namespace) -> None:
    match asked.command:
        case "list":
            _list()
        case "lock":
            print(lock_text(), end="")
        case "card":
            print("\n".join(card(each) for each in asked.ids or registry()))
        case "fetch":
            for each in (*asked.ids, *(defaults() if asked.default or not asked.ids else ())):
                print(f"{each}: ready at {fetch(each)}", flush=True)


def _list() -> None:
    rows = [("id", "kind", "download", "state", "licence of the data")]
    for asset in registry().values():
        state = "local" if local(asset.id) else "cached" if is_cached(asset.id) else "-"
        size = f"{asset.download_size / 1e6:.1f} MB" if asset.download_size else "?"
        rows.append((asset.id, asset.kind, size, state, asset.data_licence))
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    for *row, licence in rows:
        print("  ".join([*map(str.ljust, row, widths), licence]))
