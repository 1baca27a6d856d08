"""Versions of Kubernetes: those of `--kubernetes-versions`, and the ranges of the marker `kubernetes`."""

from __future__ import annotations

import re
from typing import List, Optional, Tuple

from ._errors import UsageError

Minor = Tuple[int, int]


class Versions:
    """A range: `1.35+`, `1.34-`, `1.33-1.35` or `1.34`."""

    def __init__(self, text: str):
        one = r"(\d+)\.(\d+)"
        found = re.fullmatch(rf"{one}(?:(\+)|(-)(?:{one})?)?", str(text).strip())
        if found is None:
            raise UsageError(f"versions of Kubernetes are 1.35+, 1.34-, 1.33-1.35 or 1.34, not {text!r}")
        major, minor, plus, minus, to_major, to_minor = found.groups()
        self.text = str(text).strip()
        first = (int(major), int(minor))
        self._first: Optional[Minor] = first
        self._last: Optional[Minor] = first
        if plus:
            self._last = None
        elif minus and to_major:
            self._last = (int(to_major), int(to_minor))
        elif minus:
            self._first = None

    def __contains__(self, version: Minor) -> bool:
        return (self._first is None or self._first <= version) and (self._last is None or version <= self._last)


def minor(text: str) -> Minor:
    """The minor version of a text such as 1.34 or v1.34.2."""
    found = re.fullmatch(r"v?(\d+)\.(\d+)(\.\d+)?", text)
    if found is None:
        raise UsageError(f"a version of Kubernetes is MAJOR.MINOR, such as 1.34, not {text!r}")
    return int(found.group(1)), int(found.group(2))


def listed(text: str) -> List[str]:
    """The versions in a list that is separated by commas or blanks, without repeats."""
    versions = [word for word in re.split(r"[,\s]+", text) if word]
    for version in versions:
        minor(version)
    return list(dict.fromkeys(versions))
