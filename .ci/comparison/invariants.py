"""What must hold for the answers of one server, without another one to compare with.

Each rule has a name, by which findings are counted; EXPECTED names what legitimately breaks one, with the reason.
"""

import collections
import copy
import json
import re
import threading

from . import answers, cases, fields
from .server import APPLY, JSON, PROTOBUF, YAML, each

RULES = {
    "no-failure": "no answer is a 5xx, except 501, 504 and what apply calls an internal error, and each comes",
    "in-time": "each answer comes within the time of --slow",
    "go-texts": "messages name Go's types and values, not Rust's, and an emptied list or map is not shown as null",
    "strict-or-not": "with and without field validation, answers differ only for unknown and doubled members",
    "unknown-refused": "a member that is unknown or there twice is refused if fields are validated, else ignored, as if it were not there",
    "yaml": "the same object as YAML gets the same answer",
    "protobuf": "the same object as protobuf gets the same answer",
    "apply": "an object that does not exist is taken or refused by server-side apply as by create",
    "null-is-absent": "a member of a built-in type that is null is as if it were not there, and a null element as the zero value of its type",
    "zero-is-absent": "a zero value is as if it were not there where Go's type is no pointer",
    "stored": "what is accepted can be read, is what the answer said, and is written again without a new resource version",
}

# (rule, pattern of a case's name or of the finding, reason).
EXPECTED = [
    ("stored", r"Node .* status\.addresses\[\d\] repeated", "only updates of nodes refuse an address that is there twice, as in Kubernetes"),
    ("go-texts", r"emptied$", "members that Go leaves out when empty are decoded as absent ones, so that texts show null; api/CONFORMANCE.md"),
]

RUST = re.compile(
    r"\bSome\(|\bOk\(|\bErr\(|expected struct|invalid type: |invalid value: [a-z]+ `|unknown variant|missing field `|at line \d+ column \d+|"
    r"serde|\bObject \{|\bString\(\"|\bNumber\(|\bArray \[|\bBool\(|\b[iuf](?:8|16|32|64|128)\b|Unexpected|&str"
)
# Errors of the types that server-side apply has of its own; kube-apiserver answers some of them with 500.
APPLY_ERRORS = re.compile(r"typed (?:patch|live) object|convert|duplicate entries|associative list|undeterminable|failed to create manager|field not declared in schema")


class Finding:
    def __init__(self, rule, case, detail):
        self.rule, self.case, self.detail = rule, case, detail

    def reason(self):
        """Why the finding is expected; none if it is not."""
        for rule, pattern, reason in EXPECTED:
            if rule == self.rule and (re.search(pattern, self.case.name) or re.search(pattern, self.detail)):
                return reason
        return None


class Checks:
    """Sends cases to a server and judges the answers; counts how often each rule was applied."""

    def __init__(self, server, slow):
        self.server, self.slow, self.table = server, slow, fields.Table()
        self.applied = collections.Counter()
        self.sent = 0
        self.lock = threading.Lock()
        # The answers for unchanged objects, which several cases are compared with.
        self.unchanged = {}

    def case(self, case):
        """(normalised answer, findings) of a case, with the requests that must be answered equally."""
        answer = self._counted(self.server.send(case))
        text = case.text()
        said = answers.normal(answer, text)
        found = list(self._alone(case, answer, said))
        if case.verb == "create" and case.validation == "Strict":
            for check in (self._strict, self._yaml, self._protobuf, self._apply):
                found += check(case, said, text)
        return said, found

    def _counted(self, answer):
        with self.lock:
            self.sent += 1
        return answer

    def _finding(self, rule, case, holds, detail):
        with self.lock:
            self.applied[rule] += 1
        return [] if holds else [Finding(rule, case, detail)]

    def _alone(self, case, answer, said):
        message = json.dumps(said["text"])
        of_apply = case.verb == "apply" and answer.code == 500 and APPLY_ERRORS.search(message)
        failed = answer.code == 0 or answer.code >= 500 and answer.code not in (501, 504) and not of_apply
        yield from self._finding("no-failure", case, not failed, f"{answer.code} {answers.short(message)}")
        yield from self._finding("in-time", case, answer.seconds <= self.slow, f"an answer after {answer.seconds:.1f} s")
        for text in [*_strings(said["text"]), *said["warnings"]]:
            wrong = RUST.search(text)
            is_null = self._is_emptied(case) and f"{cases.shown(case.path)}: Invalid value: null" in text
            yield from self._finding("go-texts", case, not wrong and not is_null, answers.short(text))

    def _is_emptied(self, case):
        """Whether the case has an empty list or map of a built-in kind. The error of a struct may show one of its members."""
        field = self.table.field(case.base.kind, case.path) if case.change == "emptied" else None
        return field is not None and field[1] in ("[]", "{}")

    def _twin(self, rule, case, said, other):
        kind = answers.classify(said, other)
        return self._finding(rule, case, kind == "equal", f"{kind}: {answers.difference(said, other)}")

    def _create(self, case, body, sent, content=JSON, validation="Strict"):
        return answers.normal(self._counted(self.server.create(case.base, body, content, validation)), sent)

    def _strict(self, case, said, text):
        other = self._create(case, text, text, validation="Ignore")
        if case.change not in ("unknown", "twice"):
            return self._twin("strict-or-not", case, said, other)
        if self._is_open(case):
            return []
        if id(case.base) not in self.unchanged:
            self.unchanged[id(case.base)] = self._create(case, json.dumps(case.base.value), text, validation="Ignore")
        base = self.unchanged[id(case.base)]
        refused = said["code"] == 400 and "strict decoding error" in said["text"][0]
        return [
            *self._finding("unknown-refused", case, refused, f"{said['code']} {answers.short(json.dumps(said['text']))}"),
            *self._twin("unknown-refused", case, base, other),
        ]

    def _is_open(self, case):
        """Whether any member may be at the case's path, for all that is known here."""
        if case.base.kind not in self.table.kinds:
            return True
        path = case.path[:-1] if case.change == "unknown" else case.path
        found = self.table.field(case.base.kind, path) if path else True
        # A map takes any name.
        is_map = found not in (None, True) and found[1] == "{}"
        return path[:1] != ("apiVersion",) and path[:1] != ("kind",) and (found is None or is_map or found is not True and found[0].type in fields.OPAQUE)

    def _yaml(self, case, said, _text):
        if case.change == "twice":
            return []
        other = self._create(case, as_yaml(case.body), json.dumps(case.body), YAML)
        return self._twin("yaml", case, said, _without_words_of_decoders(said, other))

    def _protobuf(self, case, said, text):
        if case.change in ("unknown", "twice"):
            return []
        try:
            body = self.table.encode(case.body)
        except fields.NotEncodable:
            return []
        other = self._create(case, body, text, PROTOBUF)
        return self._twin("protobuf", case, said, _without_words_of_decoders(said, other))

    def _apply(self, case, said, text):
        """Server-side apply has types of its own, which refuse some values earlier; all others are judged as in a create."""
        name = case.body.get("metadata", {}).get("name") if isinstance(case.body.get("metadata"), dict) else None
        if case.base.review or case.change not in ("none", "removed", "emptied") or said["code"] not in (201, 422) or not name:
            return []
        if case.path in (("apiVersion",), ("kind",)):
            # A create takes them from the path, apply does not.
            return []
        path = f"{self.server.collection(case.base.kind, case.base.namespace or cases.NAMESPACE)}/{name}"
        query = {"fieldManager": cases.MANAGER, "fieldValidation": "Strict", "dryRun": "All"}
        other = answers.normal(self._counted(self.server.request("PATCH", path, text, APPLY, query)), text)
        if other["code"] >= 400 and APPLY_ERRORS.search(json.dumps(other["text"])):
            return []
        return self._twin("apply", case, _without_managers(said), _without_managers(other))

    def pairs(self, answered):
        """Findings from pairs of cases that Go's decoder cannot tell apart. `answered` has (case, normalised answer)."""
        by_change, found = {}, []
        for case, said in answered:
            if case.verb == "create" and case.validation == "Strict":
                by_change[id(case.base), case.path, case.change] = (case, said)
        for (base, path, change), (case, said) in by_change.items():
            for rule, other in self._partners(case, change):
                partner = by_change.get((base, path, other))
                if partner is not None:
                    found += self._twin(rule, case, partner[1], said)
        return found

    def _partners(self, case, change):
        field = self.table.field(case.base.kind, case.path)
        if field is None or change not in ("null", "emptied") or field[0].type in fields.OPAQUE:
            return
        if field[0].wrap in ("[]", "{}") and not field[1]:
            if change == "null" and self.table.zero(case.base.kind, case.path) is not None:
                yield "null-is-absent", "emptied"
            return
        if change == "null":
            yield "null-is-absent", "removed"
        elif not field[0].wrap and (field[0].type in fields.ZEROS or field[0].type in self.table.types):
            yield "zero-is-absent", "removed"

    def store(self, answered):
        """Stores what was accepted, reads it, and writes it again; the objects of one kind one after the other."""
        by_kind = collections.defaultdict(list)
        for index, (case, said) in enumerate(answered):
            if case.verb == "create" and case.validation == "Strict" and said["code"] == 201 and _is_storable(case):
                by_kind[case.base.kind[1]].append((index, case))
        for found in each(self._store_kind, by_kind.values()):
            yield from found

    def _store_kind(self, chosen):
        return [finding for index, case in chosen for finding in self._store(index, case)]

    def _store(self, index, case):
        body = copy.deepcopy(case.body)
        body["metadata"]["name"] = f"kept-{index}"
        created = self._counted(self.server.create(case.base, json.dumps(body), dry_run=False))
        if created.code != 201:
            return self._finding("stored", case, False, f"accepted by a dry run, but {created.code} {answers.short(json.dumps(created.body))}")
        path = f"{self.server.collection(case.base.kind, case.base.namespace or cases.NAMESPACE)}/{body['metadata']['name']}"
        found = self._read_and_write(case, path, created.body)
        self.server.request("DELETE", path, json.dumps({"gracePeriodSeconds": 0, "propagationPolicy": "Background"}))
        return found

    def _read_and_write(self, case, path, created):
        read = self._counted(self.server.request("GET", path))
        if read.body != created:
            return self._finding("stored", case, False, f"read otherwise than answered: {answers.difference(created, read.body)}")
        query = {"fieldManager": cases.MANAGER, "fieldValidation": "Strict"}
        written = self._counted(self.server.request("PUT", path, json.dumps(read.body), JSON, query))
        return self._finding("stored", case, written.body == read.body, f"written again: {written.code} {answers.difference(read.body, written.body)}")


# Kinds whose names mean something, whose deletion needs a controller, or whose status the API server itself writes.
UNSTORABLE = {"Namespace", "CustomResourceDefinition", "APIService", "IPAddress", "ServiceCIDR", "FlowSchema"}


def _is_storable(case):
    metadata = case.body.get("metadata")
    return not case.base.review and case.base.kind[1] not in UNSTORABLE and isinstance(metadata, dict) and not metadata.get("finalizers")


def _without_words_of_decoders(said, other):
    """The other answer with the text of the first if both are refused as undecodable: decoders have words of their own and quote the body."""
    return {**other, "text": said["text"]} if said["code"] == other["code"] == 400 else other


def _without_managers(said):
    if said["object"] is None:
        return said
    metadata = {name: value for name, value in said["object"].get("metadata", {}).items() if name != "managedFields"}
    return {**said, "object": {**said["object"], "metadata": metadata}}


def _strings(value):
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for below in value:
            yield from _strings(below)


def as_yaml(value, indent=""):
    """The value as YAML in block style."""
    if isinstance(value, dict) and value:
        lines = []
        for name, below in value.items():
            is_block = isinstance(below, (dict, list)) and below
            lines.append(f"{indent}{json.dumps(name)}:" + (f"\n{as_yaml(below, indent + '  ')}" if is_block else f" {json.dumps(below)}"))
        return "\n".join(lines)
    if isinstance(value, list) and value:
        lines = []
        for below in value:
            is_block = isinstance(below, (dict, list)) and below
            lines.append(f"{indent}-\n{as_yaml(below, indent + '  ')}" if is_block else f"{indent}- {json.dumps(below)}")
        return "\n".join(lines)
    return indent + json.dumps(value)
