"""One filter syntax for the runs of every source: W&B's Mongo-style one, and a short form for the command
line."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from analysis.run import STATES, Run, leaves, lookup
from harness.errors import HarnessError, nearest

Filter = Mapping[str, Any]
_ABSENT = object()
_SHORT = re.compile(r"\s*(?P<key>[\w./@*-]+)\s*(?P<op>!=|>=|<=|=|>|<)\s*(?P<value>.*?)\s*")
_SHORT_OPS = {"!=": "$ne", ">=": "$gte", "<=": "$lte", ">": "$gt", "<": "$lt"}
_FIELDS: Mapping[str, Callable[[Run], Any]] = {
    "state": lambda run: run.state,
    "group": lambda run: run.group,
    "tags": lambda run: list(run.tags),
    "id": lambda run: run.id,
    "name": lambda run: run.id,  # W&B's `name` is the id, `display_name` is what people see
    "display_name": lambda run: run.label,
    "displayName": lambda run: run.label,
    "label": lambda run: run.label,
    "created_at": lambda run: run.created,
    "createdAt": lambda run: run.created,
}
_SUMMARY = ("summary_metrics.", "summaryMetrics.", "summary.")


def parse(text: str) -> Filter:
    """A filter from the command line.

    Either JSON, `{"config.baseline.K": {"$in": [0.2, 0.4]}, "state": "finished"}`, or conditions that all must hold:
    `baseline.K=0.4,seed!=3,state=finished|running,steps>=40`. Keys that name no field of a run name its config.

    Raises:
        HarnessError: neither.
    """
    if text.lstrip().startswith("{"):
        try:
            found = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise HarnessError(f"filter {text!r} is no JSON ({error}): check its quotes and braces") from None
        check(found)
        return found
    conditions: dict[str, Any] = {}
    for part in filter(str.strip, text.split(",")):
        match = _SHORT.fullmatch(part)
        if match is None:
            raise HarnessError(f"filter {part!r} is not understood: write key=value, such as baseline.K=0.4,seed=2")
        value: Any = [_value(choice) for choice in match["value"].split("|")]
        operator = _SHORT_OPS.get(match["op"])
        if len(value) > 1:
            if operator not in (None, "$ne"):
                raise HarnessError(f"filter {part!r}: `a|b` goes with = and != only")
            condition: Any = {"$nin" if operator else "$in": value}
        else:
            condition = {operator: value[0]} if operator else value[0]
        before = conditions.get(match["key"])
        if isinstance(before, dict) and isinstance(condition, dict):  # a range: steps>10,steps<90
            condition = {**before, **condition}
        conditions[match["key"]] = condition
    check(conditions)
    return conditions


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return {"True": True, "False": False, "None": None}.get(text, text)


def check(condition: Any) -> None:
    """Raises a HarnessError for an unknown operator or state, before any run is read."""
    if not isinstance(condition, Mapping):
        raise HarnessError(f"filter {condition!r} is no mapping: write key: value or key: {{operator: value}}")
    for key, value in condition.items():
        if key in ("$and", "$or", "$nor"):
            _check_list(key, value)
            for inner in value:
                check(inner)
        elif key == "$not":
            check(value)
        elif key.startswith("$"):
            raise HarnessError(f"filter operator {key!r}: {nearest(key, ('$and', '$or', '$nor', '$not'))}")
        elif _is_operators(value):
            for operator, operand in value.items():
                if operator == "$not":
                    check({key: operand})
                elif operator not in _OPERATORS:
                    raise HarnessError(f"filter operator {operator!r} of {key!r}: {nearest(operator, _OPERATORS)}")
                elif operator in ("$in", "$nin"):
                    _check_list(operator, operand)
                elif operator == "$regex":
                    _check_pattern(operand)
        elif key == "state" and value not in STATES:
            raise HarnessError(f"filter state={value!r}: {nearest(str(value), STATES)}")


def _check_list(operator: str, operand: Any) -> None:
    if not isinstance(operand, list | tuple):
        raise HarnessError(f"filter {operator}: {operand!r} is no list: write [..., ...]")


def _check_pattern(pattern: Any) -> None:
    try:
        re.compile(pattern)
    except (re.error, TypeError) as error:
        raise HarnessError(f"filter $regex: {pattern!r} is no regular expression ({error})") from None


def matches(run: Run, condition: Filter) -> bool:
    """Whether a run satisfies a filter. Raises: HarnessError as `check` does."""
    return all(_one(run, key, value) for key, value in condition.items())


def _one(run: Run, key: str, value: Any) -> bool:
    if key == "$and":
        return all(matches(run, inner) for inner in value)
    if key == "$or":
        return any(matches(run, inner) for inner in value)
    if key == "$nor":
        return not any(matches(run, inner) for inner in value)
    if key == "$not":
        return not matches(run, value)
    found = _field(run, key)
    if not _is_operators(value):
        return _equal(found, value)
    return all(
        not _one(run, key, operand) if operator == "$not" else _OPERATORS[operator](found, operand)
        for operator, operand in value.items()
    )


def _field(run: Run, key: str) -> Any:
    if key in _FIELDS:
        return _FIELDS[key](run)
    for prefix in _SUMMARY:
        if key.startswith(prefix):
            return lookup(run.summary, key.removeprefix(prefix), _ABSENT)
    # W&B's backend writes config.model.value.name; without `.value` is what people type.
    plain = key.removeprefix("config.")
    found = lookup(run.config, plain, _ABSENT)
    if found is _ABSENT and "value" in plain.split("."):
        parts = plain.split(".")
        parts.remove("value")
        found = lookup(run.config, ".".join(parts), _ABSENT)
    return found


def _is_operators(value: Any) -> bool:
    return isinstance(value, Mapping) and bool(value) and all(str(key).startswith("$") for key in value)


def _equal(found: Any, value: Any) -> bool:
    if found is _ABSENT:
        return value is None  # as in Mongo: null matches what is absent
    if isinstance(found, list) and not isinstance(value, list):
        return value in found
    if isinstance(found, datetime):
        return found == _moment(value)
    return bool(found == value) and isinstance(found, bool) == isinstance(value, bool)


def _moment(value: Any) -> Any:
    try:
        moment = datetime.fromisoformat(str(value))
    except ValueError:
        raise HarnessError(f"filter value {value!r} is no time: write ISO 8601, such as 2025-09-30T12:00:00") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def operator(found: Any, value: Any) -> bool:
        if found is _ABSENT or found is None:
            return False
        try:
            return compare(found, _moment(value) if isinstance(found, datetime) else value)
        except TypeError:  # a number against a text: no order, so no match
            return False

    return operator


_OPERATORS: Mapping[str, Callable[[Any, Any], bool]] = {
    "$eq": _equal,
    "$ne": lambda found, value: not _equal(found, value),
    "$gt": _ordered(lambda found, value: found > value),
    "$gte": _ordered(lambda found, value: found >= value),
    "$lt": _ordered(lambda found, value: found < value),
    "$lte": _ordered(lambda found, value: found <= value),
    "$in": lambda found, value: any(_equal(found, choice) for choice in value),
    "$nin": lambda found, value: not any(_equal(found, choice) for choice in value),
    "$exists": lambda found, value: (found is not _ABSENT and found is not None) == bool(value),
    "$regex": lambda found, value: found is not _ABSENT and re.search(value, str(found)) is not None,
}


def select(runs: Iterable[Run], condition: Filter | None) -> list[Run]:
    """The runs that satisfy a filter, in their order; all of them without one.

    Raises:
        HarnessError: none does; the text names the condition that no run meets and what the runs have there.
    """
    runs = list(runs)
    if not condition:
        return runs
    check(condition)
    found = [run for run in runs if matches(run, condition)]
    if found or not runs:
        return found
    for key, value in condition.items():
        if key.startswith("$") or any(_one(run, key, value) for run in runs):
            continue
        have = {json.dumps(there, default=str) for run in runs if (there := _field(run, key)) is not _ABSENT}
        if have:
            values = ", ".join(sorted(have)[:12])
            raise HarnessError(f"none of {len(runs)} runs has {key} = {json.dumps(value)}; they have {values}")
        known = {*_FIELDS, *(leaf for run in runs for leaf in leaves(run.config))}
        hint = nearest(key.removeprefix("config."), known)
        raise HarnessError(f"none of {len(runs)} runs has the config key {key!r}; {hint}")
    raise HarnessError(f"none of {len(runs)} runs meets all of {json.dumps(condition)}; drop one condition")


def for_server(condition: Filter | None) -> dict[str, Any]:
    """The part of a filter that W&B's server can be trusted with, to fetch less; the whole is applied here
    after.

    Config keys stay here: how the backend addresses nested ones has changed. States too: it knows more than
    we do.
    """
    same = {
        "name": "name",
        "id": "name",
        "group": "group",
        "tags": "tags",
        "display_name": "display_name",
        "displayName": "display_name",
        "label": "display_name",
    }
    return {same[key]: value for key, value in (condition or {}).items() if key in same}
