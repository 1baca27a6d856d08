#!/usr/bin/env python3
"""Generates objects for a CustomResourceDefinition from its schemas and tests them against the server that kubectl talks to.

    .ci/crd_samples.py DEFINITION

For each served version: a minimal valid object (required fields, by default, enum, format, pattern and bounds) is created, read back and
deleted; the same object with a field of a wrong type is refused for that field. Where rules in CEL refuse the minimal object, optional
fields that the rules name are added until the server accepts it or TRIES candidates were refused. Prints a line for each object; fails
if the server's response to one contradicts the schema. Versions that need a conversion webhook are left out, except the stored one.
"""

import copy
import heapq
import itertools
import json
import re
import subprocess
import sys

# Number of candidate objects per version, before the definition's rules count as too hard to satisfy.
TRIES = 60

STRINGS = """a A 1 aa 0 true a.b a/b a.b/c a.b.c https://a.example.org http://a a:1 1h 1s 1m0s 5m 10s 1Gi 100m 1.2.3.4 10.0.0.0/8 ::1
v1 1.0 1.0.0 v1.0.0 v1.30.0 a@b.c a=b * /a / ./a 0 0 * * * @every 1h git@a.b:c/d ssh://git@a.b oci://a.b/c s3://a arn:aws:iam::1:role/a
ami-0123456789abcdef0 subnet-0123 sg-0123 sha256:0000000000000000000000000000000000000000000000000000000000000000 100% 10% 1-2 us-east-1
Equal Always default aaaa aaaaaaaa 00000000-0000-0000-0000-000000000000 2026-01-01T00:00:00Z a-b a_b ABC Running A1 Z +1 -1 P1D UTC
00:00 1d 30d Mon Never nonce 0m 0s 1ms 12345678 0x0 AAAA YQ== a,b {} [] "" a.b.c:80/d a/b:c@sha256:0 main refs/heads/a""".split()
STRINGS += ["0 0 * * *", "@every 1h", "a b", "10%", ""]

FORMATS = {
    "date-time": "2026-01-01T00:00:00Z", "date": "2026-01-01", "duration": "1h", "uuid": "00000000-0000-4000-8000-000000000000",
    "ipv4": "10.0.0.1", "ipv6": "::1", "cidr": "10.0.0.0/8", "uri": "https://a.example.org", "hostname": "a.example.org",
    "email": "a@b.example", "byte": "YQ==", "mac": "00:00:00:00:00:00", "password": "a",
}


# Paths of fields in refusals: spec.rules[0].from, followed by a colon.
PATHS = re.compile(r"(?<![\w.])([a-z]\w*(?:\.\w[\w-]*|\[\d+\])*)(?=: )")


class Refused(Exception):
    """The server refused an object."""


def kubectl(*args, body=None):
    text = None if body is None else json.dumps(body)
    done = subprocess.run(["kubectl", *args], input=text, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Refused(done.stderr.strip())
    return done.stdout


def matches(schema, text):
    pattern = schema.get("pattern")
    try:
        fits = pattern is None or re.search(pattern, text) is not None
    except re.error:
        # RE2 has classes that Python does not: the server decides.
        fits = True
    return fits and schema.get("minLength", 0) <= len(text) <= schema.get("maxLength", 1 << 20)


def string(schema):
    candidates = list(STRINGS)
    if "format" in schema:
        candidates.insert(0, FORMATS.get(schema["format"], "a"))
    quoted = re.findall(r"[A-Za-z0-9./:-]+", schema.get("pattern", ""))
    candidates += quoted + ["".join(quoted[:2])]
    least = schema.get("minLength", 0)
    candidates += ["a" * least, "1" * least, "A" * least]
    # The length of the repeated part of a pattern.
    candidates += [letter * int(n) for n in re.findall(r"{(\d+)", schema.get("pattern", "")) if int(n) < 300 for letter in "a1A"]
    return next((text for text in candidates if matches(schema, text)), "a")


def number(schema, whole):
    least = schema.get("minimum")
    most = schema.get("maximum")
    if least is not None and schema.get("exclusiveMinimum"):
        least += 1
    value = 1
    if least is not None:
        value = max(value, least)
    if most is not None:
        value = min(value, most - (1 if schema.get("exclusiveMaximum") else 0))
    step = schema.get("multipleOf")
    if step:
        value = -(-value // step) * step
    return int(value) if whole else value


def merged(schema):
    """The schema, merged with the first branch of anyOf and oneOf and with all of allOf."""
    branches = list(schema.get("allOf", []))
    for word in ("oneOf", "anyOf"):
        if schema.get(word):
            branches.append(schema[word][0])
    if not branches:
        return schema
    result = copy.deepcopy({key: value for key, value in schema.items() if key not in ("allOf", "oneOf", "anyOf")})
    for branch in branches:
        branch = merged(branch)
        result["required"] = sorted({*result.get("required", []), *branch.get("required", [])})
        for name, below in branch.get("properties", {}).items():
            own = result.setdefault("properties", {}).setdefault(name, {})
            own.update({key: value for key, value in below.items() if key not in own or key in ("enum", "pattern")})
        for key in ("enum", "pattern", "minimum", "maximum", "minLength", "maxLength", "minItems", "minProperties", "format"):
            if key in branch:
                result[key] = branch[key]
    return result


class Maker:
    """Generates one object. `added` has optional fields to add to the required ones, as (path, name), and texts that replace those
    suggested by the schemas, as (path, "=", text)."""

    def __init__(self, added):
        self.added = added
        self.texts = {step[0]: step[2] for step in added if len(step) == 3}

    def value(self, schema, path, vary=0):
        schema = merged(schema)
        if path in self.texts:
            return self.texts[path]
        if schema.get("default") is not None and path:
            return copy.deepcopy(schema["default"])
        if schema.get("enum"):
            options = [option for option in schema["enum"] if option not in ("", None)] or schema["enum"]
            return options[vary % len(options)]
        if schema.get("x-kubernetes-int-or-string"):
            return 1 if matches(schema, "1") else string(schema)
        kind = schema.get("type")
        if kind == "string":
            text = string(schema)
            varied = text + str(vary)
            return varied if vary and matches(schema, varied) else text
        if kind in ("integer", "number"):
            return number(schema, kind == "integer") + vary
        if kind == "boolean":
            return True
        if kind == "array":
            count = max(schema.get("minItems", 0), 1 if (path, "[]") in self.added else 0)
            return [self.value(schema.get("items", {}), f"{path}[{n}]", n) for n in range(count)]
        return self.object(schema, path, vary)

    def object(self, schema, path, vary):
        result = {}
        properties = schema.get("properties", {})
        wanted = [name for name in properties if name in schema.get("required", []) or (path, name) in self.added]
        missing = schema.get("minProperties", 0) - len(wanted)
        if missing > 0:
            wanted += [name for name in properties if name not in wanted][:missing]
        for name in wanted:
            below = f"{path}.{name}" if path else name
            if "default" not in properties[name] or (path, name) in self.added:
                result[name] = self.value(properties[name], below, vary)
        extra = schema.get("additionalProperties")
        if isinstance(extra, dict) and len(result) < schema.get("minProperties", 0):
            result["a"] = self.value(extra, f"{path}.a", vary)
        if "x-kubernetes-embedded-resource" in schema:
            result = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, **result}
        return result


def sample(definition, version, added, name):
    schema = version["schema"]["openAPIV3Schema"]
    # The fields of the object's own metadata are generated here.
    inner = {**schema, "properties": {key: value for key, value in schema.get("properties", {}).items()
                                      if key not in ("apiVersion", "kind", "metadata", "status")}}
    inner["required"] = [key for key in schema.get("required", []) if key in inner["properties"]]
    if "spec" in inner["properties"]:
        inner["required"].append("spec")
    made = Maker(added).value(inner, "")
    metadata = {"name": name}
    if definition["spec"]["scope"] == "Namespaced":
        metadata["namespace"] = "default"
    api_version = f"{definition['spec']['group']}/{version['name']}"
    return {"apiVersion": api_version, "kind": definition["spec"]["names"]["kind"], "metadata": metadata, **made}


def node(schema, path):
    """The schema at a path such as spec.rules[0].from, or none."""
    for part in re.findall(r"[^.\[\]]+", path):
        schema = merged(schema)
        if part.isdigit() and "items" in schema:
            schema = schema["items"]
        elif part in schema.get("properties", {}):
            schema = schema["properties"][part]
        elif isinstance(schema.get("additionalProperties"), dict):
            schema = schema["additionalProperties"]
        else:
            return None
    return schema


def words(schema, complaint):
    """The optional properties of a node, first the properties that its rules or the complaint name."""
    rules = " ".join(rule["rule"] + rule.get("message", "") for rule in schema.get("x-kubernetes-validations", [])) + complaint
    named = [name for name in schema.get("properties", {}) if re.search(rf"\b{re.escape(name)}\b", rules)]
    return named + [name for name in schema.get("properties", {}) if name not in named]


def additions(schema, complaint):
    """Fields whose addition may resolve the complaint, as (path, name), most promising first."""
    found = []
    for path in PATHS.findall(complaint) + ["spec", ""]:
        while True:
            here = node(schema, path)
            if here is not None:
                here = merged(here)
                if here.get("type") == "string":
                    found += [(path, "=", text) for text in re.findall(r"'([^' ]+)'", complaint)]
                if here.get("type") == "array":
                    found.append((path, "[]"))
                    found += [(f"{path}[0]", name) for name in words(merged(here.get("items", {})), complaint)[:12]]
                found += [(path, name) for name in words(here, complaint)[:12]]
            if "." not in path and "[" not in path:
                break
            path = re.sub(r"(\.[^.\[\]]+|\[\d+\])$", "", path)
    return [step for step in dict.fromkeys(found) if step[1] not in ("apiVersion", "kind", "metadata", "status")]


def faults(complaint):
    """Number of errors of an object, as kubectl lists them."""
    return complaint.count("\n* ") or 1


def accepted(definition, version):
    """The first object that the server accepts, and the last complaint if it accepts none."""
    schema = version["schema"]["openAPIV3Schema"]
    # The next candidate derives from the object with the fewest errors; of these, the oldest first.
    waiting, order = [(0, 0, frozenset(), "sample")], itertools.count(1)
    seen, complaint = set(), "no object was made"
    for _ in range(TRIES):
        if not waiting:
            break
        _, _, added, name = heapq.heappop(waiting)
        made = sample(definition, version, added, name)
        text = json.dumps(made, sort_keys=True)
        if text in seen:
            continue
        seen.add(text)
        try:
            kubectl("create", "--dry-run=server", "--validate=strict", "-o", "name", "-f", "-", body=made)
            return made, ""
        except Refused as refusal:
            complaint = str(refusal)
            if "metadata.name" in complaint or "name" in complaint.split(":")[-1]:
                names = re.findall(r"['\"]?\b([a-z][a-z0-9-]*)\b['\"]?", complaint.split(":")[-1])
                for other in ["default", "cluster", "a", *names[-3:]]:
                    if other != "sample":
                        heapq.heappush(waiting, (faults(complaint), next(order), added, other))
            for step in additions(schema, complaint):
                if step not in added:
                    heapq.heappush(waiting, (faults(complaint), next(order), added | {step}, name))
    return None, complaint


def wrong_types(schema, made):
    """Copies of the object with one field of a wrong type, at the top and at a leaf, each with the path of that field."""
    properties = merged(schema).get("properties", {})
    for name in [name for name in properties if name not in ("apiVersion", "kind", "metadata", "status")]:
        kind = merged(properties[name]).get("type")
        if kind and not properties[name].get("x-kubernetes-int-or-string"):
            yield name, {**made, name: "wrong" if kind != "string" else 7}
            break
    path, here, at = "", properties, made
    for name in ("spec",):
        if isinstance(at.get(name), dict) and name in here:
            path, here, at = name, merged(here[name]).get("properties", {}), at[name]
    for name, below in here.items():
        kind = merged(below).get("type")
        if path and kind and not below.get("x-kubernetes-int-or-string"):
            wrong = copy.deepcopy(made)
            wrong[path][name] = 7 if kind != "integer" and kind != "number" else "wrong"
            yield f"{path}.{name}", wrong
            break


def check(definition, version):
    """Descriptions of the server's wrong responses for objects of a version; empty if all are right."""
    made, complaint = accepted(definition, version)
    if made is None:
        return f"no valid object was found: {complaint}"
    plural = f"{definition['spec']['names']['plural']}.{version['name']}.{definition['spec']['group']}"
    name = made["metadata"]["name"]
    try:
        kubectl("create", "--validate=strict", "-f", "-", body=made)
        stored = json.loads(kubectl("get", plural, name, "-o", "json"))
        kubectl("delete", plural, name, "--wait=false")
    except Refused as refusal:
        return f"a valid object is not stored, read or deleted: {refusal}"
    lost = [key for key in made if key not in stored]
    if lost:
        return f"{lost} of a valid object are lost"
    for path, wrong in wrong_types(version["schema"]["openAPIV3Schema"], made):
        try:
            kubectl("create", "--dry-run=server", "--validate=false", "-f", "-", body=wrong)
            return f"a wrong type at {path} is accepted"
        except Refused as refusal:
            if path not in str(refusal):
                return f"a wrong type at {path} is refused for another reason: {refusal}"
    return ""


def main():
    definition = json.loads(kubectl("get", "customresourcedefinition", sys.argv[1], "-o", "json"))
    webhook = definition["spec"].get("conversion", {}).get("strategy") == "Webhook"
    failed = False
    for version in definition["spec"]["versions"]:
        if not version["served"] or (webhook and not version["storage"]):
            continue
        problem = check(definition, version)
        failed |= bool(problem)
        print(f"{version['name']}: {problem or 'a valid object is stored, wrong types are refused'}")
    sys.exit(failed)


if __name__ == "__main__":
    main()
