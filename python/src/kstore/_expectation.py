"""What `wait` waits for, as a function of the object and as words."""

from __future__ import annotations

import json
from typing import Any, Callable, Dict, Optional, Tuple

from ._errors import UsageError

Object = Dict[str, Any]


def expectation(
    condition: Optional[str], matches: Optional[Object], until: Optional[Callable[[Object], Any]], deleted: bool
) -> Tuple[Callable[[Object], Any], str]:
    """Whether an object is as expected, and the words for that."""
    if sum((condition is not None, matches is not None, until is not None, deleted)) > 1:
        raise UsageError("wait takes one of condition, matches, until and deleted")
    if condition is not None:
        name, _, status = condition.partition("=")
        wanted = {"type": name, "status": status or "True"}

        def has_condition(object: Object) -> bool:
            found = (object.get("status") or {}).get("conditions") or []
            return any(_contains(one, wanted) for one in found)

        return has_condition, f"{name}={status or 'True'}"
    if matches is not None:
        part = matches
        return lambda object: _contains(object, part), f"like {json.dumps(part)}"
    if until is not None:
        return until, f"as `{getattr(until, '__name__', 'until')}` wants it"
    if deleted:
        return lambda _: False, "gone"
    return lambda _: True, "there"


def _contains(whole: Any, part: Any) -> bool:
    """Whether `whole` has all of `part`: dicts by field, everything else by equality."""
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(name in whole and _contains(whole[name], value) for name, value in part.items())
    return bool(whole == part)
