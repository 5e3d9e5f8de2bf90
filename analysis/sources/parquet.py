"""Outcome files as a reader that nothing can surprise: whole and of the right kind, or `Damaged` with the reason."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq


class Damaged(Exception):
    """What is wrong with a file, as the end of a sentence that begins with its path."""


def _is_number(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)


def _is_name(kind: pa.DataType) -> bool:
    plain = kind.value_type if pa.types.is_dictionary(kind) else kind
    return pa.types.is_string(plain) or pa.types.is_large_string(plain) or pa.types.is_integer(plain)


_NAMES = ("benchmark", "problem", "group", "text")
_NUMBERS = ("accuracy", "reward", "advantage", "entropy", "length", "words", "count", "mean_entropy", "top20")
_KINDS: dict[str, tuple[Callable[[pa.DataType], bool], bool]] = {
    "step": (pa.types.is_integer, False),
    **dict.fromkeys(_NAMES, (_is_name, False)),
    **dict.fromkeys(_NUMBERS, (_is_number, True)),
}
"""Column -> (what it may hold, whether a value may be missing); other columns are not looked at."""


def names(path: Path) -> list[str]:
    """The columns that a file has. Raises: Damaged."""
    try:
        with pq.ParquetFile(path) as file:
            return list(file.schema_arrow.names)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _unreadable(error) from None


def read(path: Path, columns: Sequence[str] | None) -> pa.Table:
    """The named columns of a file, all for None. Raises: Damaged."""
    try:
        with pq.ParquetFile(path) as file:
            lacking = sorted(set(columns or ()) - set(file.schema_arrow.names))
            if lacking:
                raise Damaged(f"has no column {', '.join(lacking)}")
            wanted = None if columns is None else list(columns)
            table = file.read(columns=wanted, use_threads=False)
        table.validate(full=True)  # text that is no UTF-8, indices beyond a dictionary
    except (pa.ArrowException, OSError, ValueError) as error:  # ValueError: text in the file's own description
        raise _unreadable(error) from None
    for name in table.column_names:
        fits, gaps = _KINDS.get(name, (None, True))
        if fits is not None and not fits(table[name].type):
            raise Damaged(f"has {table[name].type} in column {name}")
        if not gaps and table[name].null_count:
            raise Damaged(f"lacks {table[name].null_count} values of column {name}")
    return table.replace_schema_metadata(None)  # what pandas noted there may be damaged, and nothing reads it


def _unreadable(error: Exception) -> Damaged:
    return Damaged(f"cannot be read ({(str(error) or type(error).__name__).splitlines()[0]})")
