"""What a server shows without being asked to change anything: versions, health checks, discovery, OpenAPI documents, objects that exist
from the start, columns of tables, and metrics. Two such states are compared member for member.

Descriptions are not compared, nor the order of what is a set. Uids, times and resource versions are replaced first.
"""

import collections
import json
import re

from .answers import TIME, UUID

JSON = "application/json"
TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
PAGES = ("/", "/version", "/healthz?verbose", "/livez?verbose", "/readyz?verbose", "/.well-known/openid-configuration")
# Members whose strings are a set, or whose order is the server's own.
SETS = {"required", "produces", "consumes", "enum", "paths"}
PARAMETERS = "#/parameters/"
HEAD = re.compile(r"# TYPE (\S+) (\S+)")
SAMPLE = re.compile(r"([a-zA-Z_:][\w:]*)(?:\{(.*)\})? ")
LABEL = re.compile(r'(\w+)="(?:[^"\\]|\\.)*"')
SUFFIX = re.compile(r"_(bucket|sum|count)$")


def read(server):
    """The parts of a server's state by name."""
    def get(path, accept=JSON):
        # What is not there, or belongs to a server that is away, is answered by a text.
        body = server.request("GET", path, accept=accept).body
        return body if isinstance(body, dict) else {}
    parts = {f"page {path}": server.request("GET", path).body for path in PAGES}
    groups = ["/api/v1"] + [f"/apis/{version['groupVersion']}" for group in get("/apis")["groups"] for version in group["versions"]]
    for path in ("/api", "/apis"):
        parts[f"discovery {path}"] = get(path)
        parts[f"aggregated discovery {path}"] = named(get(path, AGGREGATED).get("items", []))
    for path in groups:
        listed = get(path)
        parts[f"discovery {path}"] = {resource["name"]: resource for resource in listed.get("resources", [])}
        for resource in listed.get("resources", []):
            if "/" in resource["name"] or "list" not in resource["verbs"]:
                continue
            kind = f"{path}/{resource['name']}"
            parts[f"objects {kind}"] = named(get(kind).get("items", []))
            parts[f"columns {kind}"] = get(kind, TABLE).get("columnDefinitions")
    parts["openapi v2"] = document(get("/openapi/v2"))
    for name, entry in get("/openapi/v3")["paths"].items():
        parts[f"openapi v3 {name}"] = document(get(entry["serverRelativeURL"]))
    parts["metrics"] = metrics(server.request("GET", "/metrics", accept="text/plain").body)
    return {name: normal(value) for name, value in parts.items()}


def named(items):
    """Objects by namespace and name."""
    return {"/".join(filter(None, (item["metadata"].get("namespace"), item["metadata"].get("name")))): item for item in items}


def document(value):
    """An OpenAPI document whose references to shared parameters are replaced, and whose parameters are by name."""
    shared = value.pop("parameters", {})

    def resolved(value, member=""):
        if isinstance(value, dict):
            reference = value.get("$ref", "")
            if isinstance(reference, str) and reference.startswith(PARAMETERS):
                return resolved(shared[reference[len(PARAMETERS):]])
            return {name: resolved(below, name) for name, below in value.items() if name != "description" or not isinstance(below, str)}
        if isinstance(value, list):
            found = [resolved(below) for below in value]
            return {parameter["name"]: parameter for parameter in found} if member == "parameters" else found
        return value
    return resolved(value)


def metrics(page):
    """The families of a metrics page: type and labels by name. Which samples exist depends on the traffic."""
    families = {}
    for line in page.splitlines():
        if head := HEAD.match(line):
            families[head[1]] = {"type": head[2], "labels": set()}
        elif sample := SAMPLE.match(line):
            short = SUFFIX.sub("", sample[1])
            family = families.get(short) or families.get(sample[1])
            if family:
                family["labels"].update(LABEL.findall(sample[2] or ""))
    return {name: {"type": family["type"], "labels": sorted(family["labels"])} for name, family in families.items()}


def normal(value, member=""):
    if isinstance(value, dict):
        return {name: "<version>" if name == "resourceVersion" else normal(below, name) for name, below in value.items()}
    if isinstance(value, list):
        found = [normal(below) for below in value]
        is_set = member in SETS and all(isinstance(below, str) for below in found)
        return sorted(found) if is_set else found
    return TIME.sub("<time>", UUID.sub("<uid>", value)) if isinstance(value, str) else value


def differences(left, right, path=""):
    """Each place where two values differ, as (path, what differs)."""
    if isinstance(left, dict) and isinstance(right, dict):
        for name in sorted({*left, *right}):
            if name not in right:
                yield f"{path}.{name}", "only left"
            elif name not in left:
                yield f"{path}.{name}", "only right"
            else:
                yield from differences(left[name], right[name], f"{path}.{name}")
    elif isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        for one, other in zip(left, right):
            yield from differences(one, other, f"{path}[]")
    elif left != right:
        yield path, f"{json.dumps(left)} <> {json.dumps(right)}"


def groups(left, right):
    """The differences of two states by the part and the last two members of the path: (part, member, what) and their number."""
    found = collections.Counter()
    for part in sorted({*left, *right}):
        for path, what in differences(left.get(part, {}), right.get(part, {})):
            family = part if not part.startswith("openapi v3") else "openapi v3"
            found[family, ".".join(path.split(".")[-2:]), what if what.startswith("only") else what[:160]] += 1
    return found
