"""Reads JSON into the types of the interface. Unknown fields are passed over."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable
from datetime import datetime
from functools import cache
from typing import Any, TypeVar

T = TypeVar("T")


def decode(shape: type[T], value: object) -> T:
    """Reads `value` as `shape`. Raises `TypeError`, `KeyError` or `ValueError` if it has another form."""
    read: Callable[[Any], T] = _reader(typing.cast("Any", shape))
    return read(value)


def camel(name: str) -> str:
    """Returns the name that a field has in JSON."""
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)


@cache
def _reader(shape: Any) -> Callable[[Any], Any]:
    choose = getattr(shape, "decode_json", None)
    if choose is not None:
        return typing.cast("Callable[[Any], Any]", choose)
    if dataclasses.is_dataclass(shape):
        return _object_reader(shape)
    origin = typing.get_origin(shape)
    arguments = typing.get_args(shape)
    if origin is list:
        item = _reader(arguments[0])
        return lambda value: [item(one) for one in _expect(list, value)]
    if origin is typing.Annotated:
        return typing.cast("Callable[[Any], Any]", arguments[1])
    if origin in (typing.Union, types.UnionType):
        inner = [one for one in arguments if one is not type(None)]
        return _reader(inner[0])
    if origin is typing.Literal:
        return lambda value: _expect(str, value)
    if shape is datetime:
        return lambda value: datetime.fromisoformat(_expect(str, value))
    return lambda value: _expect(shape, value)


def _object_reader(shape: Any) -> Callable[[Any], Any]:
    hints = typing.get_type_hints(shape, include_extras=True)
    fields = []
    for field in dataclasses.fields(shape):
        required = field.default is dataclasses.MISSING
        fields.append((field.name, camel(field.name), _reader(hints[field.name]), required))

    def read(value: Any) -> Any:
        given = _expect(dict, value)
        known = {}
        for name, key, of_field, required in fields:
            if required or given.get(key) is not None:
                known[name] = of_field(given[key])
        return shape(**known)

    return read


def _expect(shape: Any, value: Any) -> Any:
    if not isinstance(value, shape):
        raise TypeError(f"{shape.__name__} expected, not {type(value).__name__}")
    return value
