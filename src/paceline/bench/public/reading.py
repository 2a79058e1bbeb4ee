"""Rows from a file, a directory or the hub: JSON Lines and JSON by ourselves, tables through `datasets`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from paceline.bench.public.row import Row
from paceline.errors import UsageError

FORMS = "a .jsonl, .json or .parquet file, a directory of them, a data set saved to disk, or a hub id"


def rows(source: str, config: str | None, splits: Sequence[str]) -> Iterator[Row]:
    """The rows of a source, in order; of a directory or a hub id those of the first of the splits that is there.

    Raises UsageError for a source that is missing, empty, broken or of another form.
    """
    path = Path(source).expanduser()
    if path.is_file():
        return _file(path)
    if path.is_dir():
        return _directory(path, config, splits)
    if re.fullmatch(r"[\w-][\w.-]*/[\w-][\w.-]*", source):
        return _hub(source, config, splits)
    raise UsageError(f"--data {source}: no such file or directory; expected {FORMS}")


def _file(path: Path) -> Iterator[Row]:
    readers = {".jsonl": _lines, ".json": _document, ".parquet": _table}
    if path.suffix.lower() not in readers:
        raise UsageError(f"--data {path}: unknown form {path.suffix or 'without a suffix'}; expected {FORMS}")
    return readers[path.suffix.lower()](path)


def _directory(path: Path, config: str | None, splits: Sequence[str]) -> Iterator[Row]:
    if (path / "state.json").is_file() or (path / "dataset_dict.json").is_file():
        return _saved(path, splits)
    tables = sorted(path.rglob("*.parquet"))
    tables = [table for table in tables if config in table.parts] or tables
    for split in splits:
        if chosen := [table for table in tables if re.match(rf"{split}\b", table.stem)]:
            tables = chosen
            break
    if tables:
        return (row for table in tables for row in _table(table))
    texts = sorted([*path.glob("*.jsonl"), *path.glob("*.json")])
    if len(texts) != 1:
        raise UsageError(f"--data {path} holds {len(texts)} .jsonl or .json files and no .parquet; expected {FORMS}")
    return _file(texts[0])


def _lines(path: Path) -> Iterator[Row]:
    for number, line in enumerate(_text(path).splitlines(), 1):
        if line.strip():
            yield _object(_parsed(line, f"{path}, line {number}"), f"{path}, line {number}", path.parent)


def _document(path: Path) -> Iterator[Row]:
    found = _parsed(_text(path), str(path))
    if not isinstance(found, list):
        raise UsageError(f"{path} holds a {type(found).__name__}; expected a list of objects")
    for number, value in enumerate(found, 1):
        yield _object(value, f"{path}, row {number}", path.parent)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not a text file in UTF-8") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from None


def _parsed(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise UsageError(f"{where} is not JSON: {error}") from None


def _object(value: Any, where: str, home: Path) -> Row:
    if not isinstance(value, dict):
        raise UsageError(f"{where} is {value!r:.80}; expected an object with the columns as keys")
    return Row(value, where, home)


def _table(path: Path) -> Iterator[Row]:
    datasets = _datasets()
    try:
        table = datasets.load_dataset("parquet", data_files=[str(path)], split="train", streaming=True)
        for number, values in enumerate(table.decode(False), 1):
            yield Row(values, f"{path}, row {number}", path.parent)
    except (OSError, ValueError, datasets.exceptions.DatasetsError) as error:
        raise _broken(path, error) from error


def _saved(path: Path, splits: Sequence[str]) -> Iterator[Row]:
    datasets = _datasets()
    try:
        found = datasets.load_from_disk(str(path))
    except (OSError, ValueError, KeyError, datasets.exceptions.DatasetsError) as error:
        raise _broken(path, error) from error
    if isinstance(found, Mapping):
        found = found[_chosen(str(path), splits, found)]
    for number, values in enumerate(found.to_iterable_dataset().decode(False), 1):
        yield Row(values, f"{path}, row {number}", path)


def _hub(source: str, config: str | None, splits: Sequence[str]) -> Iterator[Row]:
    datasets = _datasets()
    try:
        offered = datasets.get_dataset_split_names(source, config)
        split = _chosen(source, splits, offered)
        table = datasets.load_dataset(source, config, split=split, streaming=True).decode(False)
        for number, values in enumerate(table, 1):
            yield Row(values, f"{source} ({split}), row {number}")
    except (OSError, ValueError, datasets.exceptions.DatasetsError) as error:
        if isinstance(error, UsageError):
            raise
        raise UsageError(
            f"--data {source}: no such path, and the hub gave: {_first_line(error)}; give a local copy: {FORMS}"
        ) from error


def _chosen(source: str, splits: Sequence[str], offered: Iterable[str]) -> str:
    names = list(offered)
    split = next((name for name in splits if name in names), None)
    if split is None:
        raise UsageError(f"--data {source} has the splits {', '.join(names)}; expected one of {', '.join(splits)}")
    return split


def _datasets() -> Any:
    try:
        import datasets
    except ImportError:
        raise UsageError("tables are read through datasets: pip install 'paceline[data]', or give a .jsonl") from None
    return datasets


def _broken(path: Path, error: Exception) -> UsageError:
    return error if isinstance(error, UsageError) else UsageError(f"{path} cannot be read: {_first_line(error)}")


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
