"""The cases that the packages of all languages run (cases.yaml says what each step means)."""

import datetime
import os
import re
from pathlib import Path

import kstore
import pytest
import yaml

# A copy beside this file, or the file of the checkout.
PLACES = [os.environ.get("KSTORE_LAB_CASES"), Path(__file__).parent / "cases/cases.yaml", Path(__file__).parents[2] / "lab/cases/cases.yaml"]
CASES = yaml.safe_load(next(Path(place) for place in PLACES if place and Path(place).exists()).read_text())["cases"]
UNITS = {"d": 86400, "h": 3600, "m": 60, "s": 1}


@pytest.fixture(scope="module")
def prepared():
    start = datetime.datetime(2026, 3, 1, 0, 0, 30, tzinfo=datetime.timezone.utc)
    with kstore.Lab(clock="manual", start=start, seed=7, nodes=1, patience="10m") as lab:
        lab.settled()
        yield lab


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_case(prepared, case):
    with prepared.fork(**case.get("fork", {})) as lab:
        run(lab, case["steps"], lab.clock.now())


def run(lab, steps, begin):
    for step in steps:
        ((kind, given),) = step.items()
        STEPS[kind](lab, given, begin)


def fork(lab, given, begin):
    with lab.fork(given["name"], clock=given.get("clock")) as other:
        run(other, given["steps"], begin)


def forks(lab, given, begin):
    for other in lab.forks(given["count"]):
        with other:
            run(other, given["steps"], begin)


def image(lab, given, begin):
    taken = lab.image(given["name"])
    run(lab, given["steps"], begin)
    with taken.fork() as other:
        run(other, given["then"], begin)
    taken.delete()


def passed(lab, given, begin):
    seconds = sum(int(number) * UNITS[unit] for number, unit in re.findall(r"(\d+)([dhms])", given))
    assert lab.clock.now() - begin == datetime.timedelta(seconds=seconds)


def count(lab, given, begin):
    names = [item["metadata"]["name"] for item in lab.cluster.list(given["resource"])]
    assert len([name for name in names if name.startswith(given.get("prefix", ""))]) == given["is"], names


def at(lab, given, begin):
    times = [item["metadata"]["creationTimestamp"] for item in lab.cluster.list(given["resource"])]
    assert times and all(time.endswith(given["time"]) for time in times), times


def get(lab, given, begin):
    found = lab.cluster.get(given["object"])
    assert found is not None and has(found, given.get("matches", {})), found


def has(found, wanted):
    if isinstance(wanted, dict):
        return isinstance(found, dict) and all(name in found and has(found[name], part) for name, part in wanted.items())
    if isinstance(wanted, list):
        return isinstance(found, list) and all(any(has(one, part) for one in found) for part in wanted)
    return found == wanted


def requests(lab, given, begin):
    rows = lab.requests(client=given["client"], verb=given["verb"], resource=given["resource"])
    assert [row["code"] for row in rows] == given["codes"], rows


def writes(lab, given, begin):
    rows = lab.writes(resource=given["resource"], name=given["name"])
    assert [one["effect"] for row in rows for one in row["objects"] if one["name"] == given["name"]] == given["effects"], rows


def busy(lab, given, begin):
    calls = {"settled": lab.settled, "quiet": lab.quiet, "advance": lambda patience: lab.advance("1h", patience=patience)}
    with pytest.raises(kstore.LabBusy) as raised:
        calls[given["call"]](patience=0.2)
    assert raised.value.busy == given["busy"]


def reported(lab, given, begin):
    assert given in lab.report().splitlines()


def refused(lab, given, begin):
    with pytest.raises(kstore.ApiError) as raised:
        lab.call(given["method"], given["path"], given.get("body"))
    assert raised.value.code == given["code"] and given["message"] in str(raised.value)


def reads(lab, given, begin):
    assert given["resource"] in lab.view(given["client"])["kinds"]


def clock(lab, given, begin):
    lab.set_clock(given["mode"], factor=given.get("factor"), up_to=given.get("upTo"))


def mode(lab, given, begin):
    assert lab.call("GET", "/clock")["mode"] == given


def wait(lab, given, begin):
    lab.wait(given["object"], condition=given.get("condition"), matches=given.get("matches"), limit=given.get("limit"))


def absent(lab, given, begin):
    assert lab.cluster.get(given) is None


def faults(lab, given, begin):
    rules = lab.faults(seed=given["seed"])
    for rule in given["rules"]:
        rules.rule(**rule)


def cache(lab, given, begin):
    lab.cache(given["name"], routes=given["clients"])


def plan(lab, given, begin):
    lab.plan(lab.kill(given["kill"]).after(*given["after"]), name="shared")


def incarnation(lab, given, begin):
    (program,) = [one for one in lab.cluster.operators if one.name == given["program"]]
    assert program.incarnation == given["is"]


def hits(lab, given, begin):
    assert [rule["hits"] for rule in lab.call("GET", "/faults/counts")["rules"]] == given


def node_faults(lab, given, begin):
    assert [[fault["fault"], fault["state"]] for fault in lab.node_faults(given["node"])] == given["are"]


def planned(lab, given, begin):
    assert kstore.Plan(lab, {"id": "shared"}).wait(timeout=180) == given


STEPS = {
    "apply": lambda lab, given, begin: lab.apply(given),
    "delete": lambda lab, given, begin: lab.cluster.delete(given),
    "settled": lambda lab, given, begin: lab.settled(),
    "advance": lambda lab, given, begin: lab.advance(given),
    "leap": lambda lab, given, begin: lab.leap(given),
    "clock": clock,
    "wait": wait,
    "client": lambda lab, given, begin: lab.client(**given),
    "program": lambda lab, given, begin: lab.program(given["command"], name=given["name"]),
    "stopNode": lambda lab, given, begin: lab.stop_node(given),
    "startNode": lambda lab, given, begin: lab.start_node(given),
    "nodeFault": lambda lab, given, begin: lab.node_fault(**given),
    "nodeFaults": node_faults,
    "healNode": lambda lab, given, begin: lab.heal_node(**given),
    "fork": fork,
    "forks": forks,
    "image": image,
    "faults": faults,
    "cache": cache,
    "freeze": lambda lab, given, begin: kstore.LabCache(lab, given["cache"]).freeze(*given["resources"]),
    "thaw": lambda lab, given, begin: kstore.LabCache(lab, given["cache"]).thaw(),
    "plan": plan,
    "hits": hits,
    "planned": planned,
    "incarnation": incarnation,
    "reset": lambda lab, given, begin: lab.reset(),
    "passed": passed,
    "mode": mode,
    "count": count,
    "at": at,
    "get": get,
    "absent": absent,
    "requests": requests,
    "writes": writes,
    "reads": reads,
    "busy": busy,
    "reported": reported,
    "refused": refused,
}
