"""The cases of a comparison: complete objects of each kind, each with one member removed, emptied, doubled, of a wrong type or unknown.

All of it is deterministic: the same folder of objects gives the same cases with the same names.
"""

import copy
import functools
import hashlib
import json
import pathlib

FOLDER = pathlib.Path(__file__).resolve().parent / "objects"
NAMESPACE, STORED_NAMESPACE, OTHER_NAMESPACE = "compare", "compare-stored", "compare-limits"
NAMESPACES = (NAMESPACE, STORED_NAMESPACE, OTHER_NAMESPACE)
MANAGER = "compare"

EMPTY = {str: "", list: [], dict: {}, int: 0, float: 0, bool: False}
WRONG = {str: 7, list: {}, dict: "text", int: "text", float: "text", bool: "text"}
UNKNOWN = "unknownMember"
REMOVED = object()

# Of the cases that are created strictly, the share that is also sent another way: one of so many.
SHARES = {"create-ignore": 8, "update": 5, "merge": 5, "apply": 4}
# Changes that a merge patch can say without being a replacement of the whole list.
MERGED = {"removed", "emptied", "wrong-type"}


class Base:
    """A complete object. `stored` is its copy that is stored before the cases are sent, for those that change what is there."""

    def __init__(self, value, only=None, stored=None, review=False, title=None):
        self.value, self.review = value, review
        # Tells it from other objects of the kind.
        self.title = title or value.get("metadata", {}).get("name", "")
        self.namespace = value.get("metadata", {}).get("namespace")
        self.kind = (value["apiVersion"], value["kind"])
        # Members outside these are changed by other objects of the kind.
        self.only = only
        self.stored = None if review else _stored(value, stored)

    def paths(self):
        """The paths of all members and elements that are changed, those of the objects around them first."""
        return [path for path in _paths(self.value, ()) if not self.only or any(path[: len(start)] == start for start in self.only)]


def load(folder=FOLDER):
    """The objects of a folder, ordered by file."""
    bases = []
    for file in sorted(folder.glob("*.json")):
        for entry in json.loads(file.read_text()):
            value, stored = entry["object"], entry.get("stored")
            if "variants" not in entry:
                bases.append(Base(value, None, stored, entry.get("review", False), entry.get("title")))
                continue
            at = tuple(entry.get("at", []))
            for name, members in entry["variants"].items():
                made = copy.deepcopy(value)
                made["metadata"]["name"] += f"-{name}"
                get(made, at).update(members)
                bases.append(Base(made, [at + (member,) for member in members], stored))
    return bases


def _stored(value, patch):
    made = copy.deepcopy(value)
    metadata = made.setdefault("metadata", {})
    # Without these it can be deleted at the end.
    metadata.pop("finalizers", None)
    for port in made.get("spec", {}).get("ports", []) if made["kind"] == "Service" else []:
        if "nodePort" in port:
            port["nodePort"] += 100
    if "healthCheckNodePort" in made.get("spec", {}):
        made["spec"]["healthCheckNodePort"] += 100
    if patch:
        merge(made, patch)
    else:
        metadata["name"] = f"stored-{metadata['name']}"
    return made


def merge(value, patch):
    """A merge patch, in place."""
    for name, below in patch.items():
        if isinstance(below, dict) and isinstance(value.get(name), dict):
            merge(value[name], below)
        elif below is None:
            value.pop(name, None)
        else:
            value[name] = copy.deepcopy(below)


class Case:
    """A request: an object with one change, and the way it is sent."""

    def __init__(self, base, path, change, verb, validation, make):
        self.base, self.path, self.change, self.verb, self.validation = base, path, change, verb, validation
        self.make = make
        self.name = f"{base.kind[0]} {base.kind[1]} {base.title}: {verb} {validation.lower()}: {shown(path)} {change}"

    @functools.cached_property
    def body(self):
        """The changed object, or the merge patch."""
        if self.verb == "create":
            return self.make(self.base.value)
        made = self.make(self.base.stored)
        return difference(self.base.stored, made) if self.verb == "merge" else made

    def group(self):
        """Kind, path without indices, and change: cases that differ in one of a group mostly have one cause."""
        return f"{self.base.kind[1]} {shown(self.path, indices=False)} {self.change}"

    def text(self):
        """The body as JSON; a member that is there twice cannot be said by a value."""
        return json.dumps(self.body) if self.change != "twice" else _twice(self.body, self.path)


def shown(path, indices=True):
    """`spec.ports[0].name`, or without indices `spec.ports[].name`."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]" if indices else "[]"
        else:
            text += f".{step}" if text else step
    return text or "."


def _paths(value, path):
    if path:
        yield path
    if isinstance(value, dict):
        for name, below in value.items():
            yield from _paths(below, path + (name,))
    elif isinstance(value, list):
        for number, below in enumerate(value):
            yield from _paths(below, path + (number,))


def get(value, path):
    for step in path:
        value = value[step]
    return value


def changes(base):
    """Each change of a base as (path, name of the change, what becomes of the object)."""
    yield (), "none", lambda value: value
    for path in base.paths():
        now = get(base.value, path)
        element = isinstance(path[-1], int)
        yield path, "removed", lambda value, path=path: changed(value, path, REMOVED)
        yield path, "null", lambda value, path=path: changed(value, path, None)
        empty = EMPTY.get(type(now), now)
        if now != empty:
            yield path, "emptied", lambda value, path=path, empty=empty: changed(value, path, empty)
        yield path, "wrong-type", lambda value, path=path, now=now: changed(value, path, WRONG.get(type(now), 7))
        if element:
            yield path, "repeated", lambda value, path=path: repeated(value, path)
        else:
            yield path, "twice", lambda value: value
        if isinstance(now, dict):
            yield path + (UNKNOWN,), "unknown", lambda value, path=path: changed(value, path + (UNKNOWN,), 1)
    if not base.only:
        yield (UNKNOWN,), "unknown", lambda value: changed(value, (UNKNOWN,), 1)


def changed(value, path, to):
    made = copy.deepcopy(value)
    above = get(made, path[:-1])
    if to is not REMOVED:
        above[path[-1]] = copy.deepcopy(to)
    else:
        del above[path[-1]]
    return made


def repeated(value, path):
    made = copy.deepcopy(value)
    get(made, path[:-1]).append(copy.deepcopy(get(value, path)))
    return made


def _twice(value, path):
    """JSON with the member at the path written twice, with equal values."""
    def write(at, below):
        if isinstance(at, dict):
            members = []
            for name, inner in at.items():
                text = f"{json.dumps(name)}: {write(inner, below[1:] if below and below[0] == name else ())}"
                members += [text, text] if below == (name,) else [text]
            return "{" + ", ".join(members) + "}"
        if isinstance(at, list) and below:
            return "[" + ", ".join(write(inner, below[1:] if below[0] == number else ()) for number, inner in enumerate(at)) + "]"
        return json.dumps(at)
    return write(value, path)


def difference(old, new):
    """The merge patch that makes `new` of `old`."""
    patch = {}
    for name in old:
        if name not in new:
            patch[name] = None
        elif isinstance(old[name], dict) and isinstance(new[name], dict):
            below = difference(old[name], new[name])
            if below:
                patch[name] = below
        elif old[name] != new[name]:
            patch[name] = new[name]
    patch.update({name: new[name] for name in new if name not in old})
    return patch


def number(text):
    """A number that depends on the text only, evenly spread."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def generate(bases):
    """All cases: each change is created strictly; a share of them also without field validation, as update, merge patch and apply."""
    for base in bases:
        for path, change, make in changes(base):
            yield Case(base, path, change, "create", "Strict", make)
            sample = number(f"{base.kind} {shown(path)} {change}")
            if change in ("unknown", "twice") or sample % SHARES["create-ignore"] == 0:
                yield Case(base, path, change, "create", "Ignore", make)
            if not base.review and path[:2] not in (("metadata", "name"), ("metadata", "namespace")) and _has(base.stored, path, change):
                yield from _writes(base, path, change, make, sample)


def _has(value, path, change):
    """Whether a stored copy, which differs from its object in a few members, has what is changed."""
    try:
        get(value, path[:-1] if change == "unknown" else path)
    except (KeyError, IndexError):
        return False
    return True


def _writes(base, path, change, make, sample):
    validation = "Strict" if sample % 2 else "Ignore"
    if sample // 8 % SHARES["update"] == 0:
        yield Case(base, path, change, "update", validation, make)
    if sample // 64 % SHARES["merge"] == 0 and change in MERGED:
        yield Case(base, path, change, "merge", "Strict", make)
    if sample // 512 % SHARES["apply"] == 0 and path not in (("apiVersion",), ("kind",)):
        yield Case(base, path, change, "apply", validation, make)


def some(cases, limit):
    """Evenly spread cases, as many as `limit`, in their order."""
    cases = list(cases)
    if limit is None or limit >= len(cases):
        return cases
    chosen = set(sorted(range(len(cases)), key=lambda index: number(cases[index].name))[:limit])
    return [case for index, case in enumerate(cases) if index in chosen]
