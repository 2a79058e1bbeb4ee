"""`paceline models`: the models that ship with the package."""

from __future__ import annotations

from dataclasses import asdict

from paceline.cli import output
from paceline.cli.options import Json


def models(json: Json = False) -> None:
    """List bundled targets and drafters."""
    from paceline import zoo

    records = [asdict(record) for record in zoo.records()]
    if json:
        output.emit(records)
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0))
    for head in ("name", "kind", "parameters", "license"):
        table.add_column(head, no_wrap=True)
    table.add_column("path", overflow="fold")
    for record in records:
        kind = f"drafter of {record['target']}" if record.get("target") else record["kind"]
        table.add_row(
            record["name"], kind, f"{record['parameters'] / 1e6:.1f} M", record["license"], str(record["path"])
        )
    Console().print(table if records else "no models are bundled with this build")
