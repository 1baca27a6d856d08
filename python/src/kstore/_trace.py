"""The server's explanation of an object: who wrote what, and because of what. Its text has the form of `kstore-server explain`."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Dict, Iterator, List

Write = Dict[str, Any]


class Trace:
    """The writes to an object that nothing in their own tree caused, each with all that followed from it.

    `writes` has them as the server tells them: `revision`, `time`, `object`, `effect`, `changes`, `verb`, `user`, `agent`, `children`. `str()` is a
    tree, one line a write; same writes beside each other are one line with their number.
    """

    def __init__(self, writes: List[Write]):
        self.writes = writes

    def after(self, revision: int) -> "Trace":
        """The trees that begin after a revision."""
        return Trace([write for write in self.writes if write["revision"] > revision])

    def revisions(self) -> Iterator[int]:
        """Those of all writes in the trees."""
        return _revisions(self.writes)

    def __str__(self) -> str:
        lines: List[str] = []
        for write in self.writes:
            lines.append(f"{write['time']}  {_described(write)}")
            _branches(lines, write.get("children", []), "", _seconds(write))
        return "\n".join(lines) if lines else "no writes are remembered"


def _revisions(writes: List[Write]) -> Iterator[int]:
    for write in writes:
        yield int(write["revision"])
        yield from _revisions(write.get("children", []))


def _branches(lines: List[str], children: List[Write], indent: str, start: float) -> None:
    runs: List[List[Write]] = []
    for child in children:
        is_leaf = not child.get("children")
        if runs and is_leaf and not runs[-1][-1].get("children") and _described(child, False) == _described(runs[-1][0], False):
            runs[-1].append(child)
        else:
            runs.append([child])
    for index, run in enumerate(runs):
        knot, below = ("└─", "   ") if index == len(runs) - 1 else ("├─", "│  ")
        times = f"  ×{len(run)}" if len(run) > 1 else ""
        lines.append(f"{indent}{knot} {_seconds(run[0]) - start:+.3f}s  {_described(run[0])}{times}")
        if run[0].get("truncated"):
            lines.append(f"{indent}{below}…")
        _branches(lines, run[0].get("children", []), indent + below, start)


def _described(write: Write, with_revision: bool = True) -> str:
    program = str(write.get("agent", "")).split("/")[0].split(" ")[0]
    user = str(write.get("user", ""))
    actor = program if user.startswith("system:") and program else f"{user} ({program})" if program else user
    subresource = str(write.get("verb", "")).partition("/")[2]
    revision = f"#{write['revision']}  " if with_revision else ""
    changes = "  " + ", ".join(write.get("changes", [])) if with_revision and write.get("changes") else ""
    return f"{revision}{actor} {write['effect']} {write['object']}" + (f" [{subresource}]" if subresource else "") + changes


def _seconds(write: Write) -> float:
    # Python before 3.11 reads neither a Z nor more or fewer than six digits of a second.
    whole, _, rest = str(write["time"]).rstrip("Z").partition(".")
    return datetime.fromisoformat(whole + "+00:00").timestamp() + float(f"0.{rest or 0}")
