"""Answers without what legitimately varies, how two of them differ, and files of recorded ones."""

import gzip
import json
import os
import re

FORMAT = 1
# Characters that two texts have in common which are shown before their difference.
SHOWN_BEFORE = 60
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
TIME = re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z")
TOKEN_VOLUME = re.compile(r"\bkube-api-access-[a-z0-9]{5}\b")
# In a text that quotes an object as JSON.
QUOTED_VERSION = re.compile(r'(resourceVersion\\*": ?\\*")\d+')
LIST = re.compile(r": \[(.*)\]$", re.S)
# Members that a server chooses if the client does not.
CHOSEN = {"clusterIP", "clusterIPs", "nodePort", "healthCheckNodePort", "resourceVersion"}
# Members that say who the client is: by kind.
CLIENT = {"CertificateSigningRequest": ("spec", ("username", "uid", "groups", "extra")), "SelfSubjectReview": ("status", ("userInfo",))}

CLASSES = ("equal", "text", "warnings", "object", "causes", "code")


def normal(answer, sent):
    """The answer as a value that two servers must agree on. `sent` is the request's text: what it says is not replaced."""
    body = answer.body
    if not isinstance(body, dict):
        return {"code": answer.code, "reason": "", "causes": [], "text": str(body), "object": None, "warnings": sorted(answer.warnings)}
    found = {"code": answer.code, "reason": "", "causes": [], "text": "", "object": None, "warnings": sorted(_text(text, sent) for text in answer.warnings)}
    if body.get("kind") == "Status" and answer.code >= 300:
        details = body.get("details") or {}
        found["reason"] = body.get("reason", "")
        found["causes"] = sorted([cause.get("field", ""), cause.get("reason", "")] for cause in details.get("causes") or [])
        messages = sorted(_text(cause.get("message", ""), sent) for cause in details.get("causes") or [])
        found["text"] = [_sorted(_text(body.get("message", ""), sent)), details.get("name", ""), details.get("kind", ""), details.get("group", ""), messages]
        return found
    body = _object(body, sent)
    at, members = CLIENT.get(body.get("kind"), ("", ()))
    for member in members:
        body.get(at, {}).pop(member, None)
    found["object"] = body
    return found


def _object(value, sent):
    if isinstance(value, dict):
        made = {}
        for name, below in value.items():
            if name in CHOSEN and json.dumps(below)[:40] not in sent:
                below = "<chosen>"
            made[_text(name, sent)] = _object(below, sent)
        return made
    if isinstance(value, list):
        return [_object(below, sent) for below in value]
    return _text(value, sent) if isinstance(value, str) else value


def _text(text, sent):
    text = UUID.sub(lambda found: found[0] if found[0] in sent else "<uid>", text)
    text = QUOTED_VERSION.sub(r"\1<chosen>", text)
    text = TIME.sub(lambda found: found[0] if found[0] in sent else "<time>", text)
    return TOKEN_VOLUME.sub("kube-api-access-<random>", text)


def _sorted(message):
    """Errors in brackets come in the order of a map."""
    return LIST.sub(lambda found: ": [" + ", ".join(sorted(found[1].split(", "))) + "]", message)


def classify(left, right):
    """How two answers differ: the gravest of CLASSES."""
    if (left["code"], left["reason"]) != (right["code"], right["reason"]):
        return "code"
    for name in ("causes", "object", "warnings", "text"):
        if left[name] != right[name]:
            return name
    return "equal"


def difference(left, right, path=""):
    """The first place where two values differ, as text."""
    if isinstance(left, dict) and isinstance(right, dict):
        for name in sorted({*left, *right}):
            if name not in left or name not in right:
                has, value = ("left", left[name]) if name in left else ("right", right[name])
                return f"{path}.{name}: only {has} has {short(value)}"
            if left[name] != right[name]:
                return difference(left[name], right[name], f"{path}.{name}")
    if isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        for index, (one, other) in enumerate(zip(left, right)):
            if one != other:
                return difference(one, other, f"{path}[{index}]")
    if isinstance(left, str) and isinstance(right, str):
        common = len(os.path.commonprefix([left, right]))
        if common > SHOWN_BEFORE:
            left, right = (f"…{text[common - SHOWN_BEFORE:]}" for text in (left, right))
    return f"{path}: {short(left)} <> {short(right)}"


def short(value):
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 300 else f"{text[:300]}…"


def _opened(path, mode):
    return gzip.open(path, mode + "t") if str(path).endswith(".gz") else open(path, mode, encoding="utf-8")


def write(path, version, named):
    """Writes answers, as (name of the case, answer), to a file; it is compressed if its name ends in .gz."""
    with _opened(path, "w") as file:
        file.write(json.dumps({"format": FORMAT, "version": version}) + "\n")
        for name, answer in named:
            file.write(json.dumps({"case": name, **answer}) + "\n")


def read(path):
    """(version of the server, answers by the names of cases) of such a file."""
    with _opened(path, "r") as file:
        head = json.loads(file.readline())
        if head.get("format") != FORMAT:
            raise ValueError(f"{path} is no record of format {FORMAT}")
        return head["version"], {answer.pop("case"): answer for answer in map(json.loads, file)}
