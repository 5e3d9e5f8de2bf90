from __future__ import annotations

import pytest
from omegaconf import OmegaConf

from harness.config import interpolation, reference
from harness.config.compose import _compose_groups, compose
from harness.config.typed import to_plain
from harness.errors import HarnessError

TREE = {
    "a": 1, "b": {"c": "${a}", "d": "x${a}y${b.e}", "e": None, "f": ["${b.c}", {"g": "${h}"}]}, "h": {"i": "${a}"},
    "j": "${h}", "k": 1.5, "l": True, "m": "plain $ text",
}  # fmt: skip


def by_omegaconf(tree):
    return OmegaConf.to_container(OmegaConf.create(tree), resolve=True)


def test_the_same_as_omegaconf():
    assert interpolation.resolve(TREE, TREE) == by_omegaconf(TREE)
    assert interpolation.resolve(TREE["b"], TREE) == by_omegaconf(TREE)["b"]


def test_neighbours_by_dots_are_found_from_where_the_value_stands(monkeypatch):
    tree = {
        "a": {"b": "${.c}", "c": 1, "d": {"e": "${..c}", "f": "${.e}", "g": "${oc.select:.h,${...z}}"}},
        "z": "${a.b}",
    }
    monkeypatch.setattr(interpolation, "_by_omegaconf", None)  # not needed
    assert interpolation.resolve(tree, tree) == by_omegaconf(tree)
    assert interpolation.resolve(tree["a"], tree) == by_omegaconf(tree)["a"]


def test_all_of_conf_resolves_as_omegaconf_does():
    tree = {**to_plain(compose([]).settings), "verl": _compose_groups(())["verl"]}
    assert interpolation.resolve(tree, tree) == by_omegaconf(tree)


@pytest.mark.parametrize("overrides", [[], ["baseline=qae", "recipe=dapo"], ["model=qwen3_8b_base"]])
def test_all_of_verls_reference_resolves_as_omegaconf_does(overrides, monkeypatch):
    asked = compose([*overrides, "data.builtin=arithmetic"]).asked
    tree = reference.laid_over(reference.load(), asked)
    expected = by_omegaconf(tree)
    monkeypatch.setattr(interpolation, "_by_omegaconf", None)  # too slow for a grid
    assert reference.merged(asked) == expected


@pytest.mark.parametrize(
    "text",
    ["${oc.select:a}", "${oc.select:a,3}", "${oc.select:b.e,3}", "${oc.select:x,3}", "${oc.select:x, -1}",
     "${oc.select:x,null}", "${oc.select:x,[]}", "${oc.select:x,False}", "${oc.select:x,token-mean}", "${oc.select:x}",
     "${oc.select:x,${oc.select:y,${a}}}", "${oc.select:x,1.5}", "${oc.select:x,007}", "${oc.select:x,'a b'}",
     "${oc.env:WHERE}", "${oc.env:WHERE,x}/y", "${oc.env:NOWHERE,data}/${a}.b", "${oc.env:NOWHERE,7}",
     "${oc.env:NOWHERE,null}", "${oc.select:h,1}", "${oc.select:x,[1,2]}", "z${oc.select:a,1}"],
)  # fmt: skip
def test_resolvers_give_what_omegaconf_gives(text, monkeypatch):
    monkeypatch.setenv("WHERE", "here")
    tree = {**TREE, "z": text}
    assert interpolation.resolve(tree, tree) == by_omegaconf(tree)


def test_what_goes_beyond_is_left_to_omegaconf(monkeypatch):
    monkeypatch.setenv("WHERE", "here")
    tree = {"a": "${oc.env:WHERE}", "b": {"c": "${.d}", "d": 2, "e": r"\${a}"}}
    assert interpolation.resolve(tree, tree) == {"a": "here", "b": {"c": 2, "d": 2, "e": "${a}"}}
    assert interpolation.resolve(tree["b"], tree) == {"c": 2, "d": 2, "e": "${a}"}


@pytest.mark.parametrize("tree", [{"a": "${b}"}, {"a": "${a}"}, {"a": "x${a.b}"}])
def test_a_missing_key_is_named(tree):
    with pytest.raises(HarnessError, match="conf/: "):
        interpolation.resolve(tree, tree)
