"""`rtree-anon inspect`: what stands in an index file, so that a damaged one can be understood."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from rtree_anon.cli.options import json_option


@click.command("inspect")
@click.argument("index", type=click.Path(path_type=Path))
@click.option("--page", type=click.IntRange(min=0), help="Show the physical page with this number.")
@click.option("--bytes", "n_bytes", type=click.IntRange(min=0), default=256, help="How many bytes of it to show (256).")
@json_option()
def command(index: Path, page: int | None, n_bytes: int, as_json: bool) -> None:
    """Show the commit records and the journal of an index, or one of its pages.

    \b
    Example:
      rtree-anon inspect people.idx
      rtree-anon inspect people.idx --page 17
    """
    from rtree_anon.storage.verify import inspect_page, inspect_store

    facts = inspect_store(index) if page is None else inspect_page(index, page)
    content: bytes = facts.pop("bytes", b"")[:n_bytes]
    if as_json:
        click.echo(json.dumps({**facts, **({"bytes": content.hex()} if content else {})}, default=_plain))
        return
    for name, value in facts.items():
        click.echo(f"{name}: {json.dumps(value, default=_plain) if isinstance(value, dict | list) else value}")
    for at in range(0, len(content), 16):
        row = content[at : at + 16]
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        click.echo(f"{at:06x}  {row.hex(' '):<47}  {text}")


def _plain(value: Any) -> Any:
    """Metadata may hold bytes."""
    return value.hex() if isinstance(value, bytes) else str(value)
