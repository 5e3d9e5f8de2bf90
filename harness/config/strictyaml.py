"""YAML that a person wrote, read so that nothing of it is lost without a word."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from harness.errors import HarnessError


class _Loader(yaml.SafeLoader):
    """Safe, and a key that stands twice in a mapping is an error, as YAML itself says; PyYAML takes the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        self.flatten_mapping(node)  # merged keys come first, and a key of the mapping's own may replace one
        own = [key.value for key, _ in self._own.get(id(node), ()) if isinstance(key, yaml.ScalarNode)]
        for name in own:
            if own.count(name) > 1:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {name!r} stands twice in one mapping", node.start_mark
                )
        return super().construct_mapping(node, deep)

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        self._own[id(node)] = [pair for pair in node.value if pair[0].tag != "tag:yaml.org,2002:merge"]
        return node

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._own: dict[int, list[tuple[yaml.Node, yaml.Node]]] = {}


def read(path: Path) -> Any:
    """The file's content as plain values.

    Raises: HarnessError naming the file and the place where it is no YAML, holds a key twice, or refers to itself;
    FileNotFoundError where it is absent.
    """
    try:
        loader = _Loader(path.read_text(encoding="utf-8"))
        content = loader.get_single_data()
        _check_acyclic(content, ())
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise HarnessError(f"{path}: not valid YAML: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise HarnessError(f"{path}: not valid here: its lists are nested too deeply") from None
    except FileNotFoundError:
        raise
    except OSError as error:
        raise HarnessError(f"{path}: cannot be read: {error.strerror}") from None
    return content


def _check_acyclic(value: Any, around: tuple[int, ...]) -> None:
    if not isinstance(value, dict | list):
        return
    if id(value) in around:
        raise yaml.YAMLError("an anchor holds itself: write the values out")
    for inner in value.values() if isinstance(value, dict) else value:
        _check_acyclic(inner, (*around, id(value)))
