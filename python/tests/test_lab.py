"""The lab: time that tests let pass, forks, and what their clients did."""

import asyncio
import datetime
import json
import sys
import threading
import time

import kstore
import pytest

# A CronJob that runs at each full hour.
HOURLY = {
    "apiVersion": "batch/v1",
    "kind": "CronJob",
    "metadata": {"name": "hourly"},
    "spec": {
        "schedule": "0 * * * *",
        "successfulJobsHistoryLimit": 100,
        "jobTemplate": {
            "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "a", "command": ["true"]}]}}}
        },
    },
}
# An operator that records each Job in a ConfigMap, by kubectl.
OPERATOR = """
import subprocess
seen = set()
# kubectl ends with its watch, which the server ends after a while of the cluster's time.
while True:
    watch = subprocess.Popen(["kubectl", "get", "jobs", "--watch", "-o", "name"], stdout=subprocess.PIPE, text=True)
    for line in watch.stdout:
        job = line.strip().rpartition("/")[2]
        if job not in seen:
            seen.add(job)
            subprocess.run(["kubectl", "create", "configmap", f"record-{job}"], check=True, stdout=subprocess.DEVNULL)
"""
UTC = datetime.timezone.utc
# The calls' ten seconds are of real time: tests wait for clients until the busiest machine is done.
PATIENCE = "10m"


def config_map(name):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}


def records(lab):
    return [item for item in lab.cluster.list("configmaps") if item["metadata"]["name"].startswith("record-")]


@pytest.fixture(scope="module")
def prepared():
    with kstore.Lab(start=datetime.datetime(2026, 3, 1, 0, 0, 30, tzinfo=UTC), seed=7, patience=PATIENCE) as lab:
        lab.settled()
        yield lab


@pytest.fixture
def fork(prepared):
    with prepared.fork() as fork:
        yield fork


def test_a_day_passes_and_each_job_is_made_at_its_hour(fork):
    fork.apply(HOURLY)
    before = fork.clock.now()
    advanced = fork.advance(hours=23, minutes=60)
    assert advanced["ended"] == "there"
    assert fork.clock.now() - before == datetime.timedelta(days=1)
    jobs = fork.cluster.list("jobs")
    assert len(jobs) == 24
    assert all(job["metadata"]["creationTimestamp"].endswith(":00:00Z") for job in jobs)
    assert len([write for write in fork.writes(resource="jobs.batch") if write["verb"] == "create"]) == 24
    fork.advance(to=fork.clock.now() + datetime.timedelta(hours=1))
    assert len(fork.cluster.list("jobs")) == 25
    with pytest.raises(kstore.ApiError, match="already"):
        fork.advance(to=before)


def test_forks_go_their_own_ways_and_a_reset_goes_back(prepared, fork):
    fork.apply(config_map("a"))
    assert prepared.cluster.get("configmap/a") is None
    with fork.fork(seed=9) as other:
        assert other.cluster.get("configmap/a") is not None
        other.cluster.delete("configmap/a")
    assert fork.cluster.get("configmap/a") is not None
    one, two = fork.forks(2)
    one.advance(hours=1)
    assert one.clock.time() - two.clock.time() == 3600
    one.stop(), two.stop()
    fork.reset()
    assert fork.cluster.get("configmap/a") is None
    image = fork.image("here")
    with image.fork(components=["apiserver"]) as alone:
        alone.settled()
    image.delete()


def test_time_waits_for_a_program_and_its_requests_are_logged(fork):
    with fork.program([sys.executable, "-c", OPERATOR], name="recorder"):
        fork.apply(HOURLY)
        fork.settled()
        fork.advance(hours=3)
        assert len(records(fork)) == 3
        assert {record["metadata"]["creationTimestamp"][-6:-4] for record in records(fork)} == {"00"}
        made = fork.requests(client="recorder", verb="create", resource="configmaps")
        assert [request["code"] for request in made] == [201] * 3
        assert "jobs.batch" in fork.view("recorder")["kinds"]


def test_what_is_busy_is_named(fork):
    fork.client("worker", agent="worker", busy=True)
    with pytest.raises(kstore.LabBusy, match="client worker: says that it is busy") as raised:
        fork.settled(patience=0.2)
    assert raised.value.busy == ["client worker: says that it is busy"]
    with pytest.raises(kstore.LabBusy, match="the clock stands"):
        fork.advance(hours=1, patience=0.2)
    assert "client worker: busy: says that it is busy" in fork.report()
    fork.client("worker", busy=False)
    fork.settled()


def test_a_wait_lets_the_time_pass_that_an_object_needs(fork):
    fork.apply(HOURLY)
    fork.advance(hours=1)
    (job,) = fork.cluster.list("jobs")
    assert fork.wait(job, condition="Complete")["status"]["succeeded"] == 1
    with pytest.raises(kstore.LabBusy, match="configmaps/default/none"):
        fork.wait("configmap/none", limit="1m")


def test_a_clock_for_programs_follows_the_clusters(fork):
    fork.set_clock("scaled", factor=3600)
    before = fork.clock.time()
    fork.clock.sleep(600)
    assert fork.clock.time() - before >= 600
    assert fork.set_clock("manual")["mode"] == "manual"
    with pytest.raises(kstore.ApiError, match="is none of real"):
        fork.set_clock("fast")


def test_the_plugin_forks_a_lab_for_each_test(pytester):
    pytester.makeconftest(
        """
        import pytest

        @pytest.fixture(scope="session")
        def kstore_prepared(lab_cluster):
            lab_cluster.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "prepared"}})
        """
    )
    pytester.makepyfile(
        """
        import pytest

        MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}

        def test_one(lab):
            assert lab.cluster.get("configmap/prepared") and lab.cluster.get("configmap/a") is None
            lab.apply(MAP)
            lab.advance(hours=1)

        test_two = test_one

        @pytest.mark.kstore(lab={"clock": "60x", "seed": 5}, nodes=2, manifests=[MAP])
        def test_marked(lab):
            assert lab.call("GET", "/clock")["mode"] == "scaled"
            assert lab.cluster.get("configmap/a")

        def test_fails(lab):
            lab.client("worker", agent="worker", busy=True)
            assert False

        @pytest.mark.kstore(lab={"time": 1})
        def test_misspelt(lab): ...
        """
    )
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", f"--kstore-patience={PATIENCE}")
    result.assert_outcomes(passed=3, failed=1, errors=1)
    text = result.stdout.str()
    assert "kstore: the lab" in text and "client worker: busy: says that it is busy" in text
    assert "a dict of clock, seed" in text


@pytest.mark.parametrize("by", ["option", "variable", "ini"])
def test_a_failed_test_keeps_a_snapshot_that_starts_again(pytester, monkeypatch, by):
    folder = pytester.path / "kept"
    pytester.makepyfile(
        """
        def test_fails(lab):
            lab.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}})
            lab.advance(hours=1)
            assert False

        def test_passes(lab): ...
        """
    )
    options = ["-p", "no:cacheprovider", f"--kstore-patience={PATIENCE}"]
    if by == "option":
        options.append(f"--kstore-keep={folder}")
    elif by == "variable":
        monkeypatch.setenv("KSTORE_KEEP", str(folder))
    else:
        pytester.makeini(f"[pytest]\nkstore_keep = {folder}\n")
    result = pytester.runpytest_subprocess(*options)
    result.assert_outcomes(failed=1, passed=1)
    (snapshot,) = folder.glob("*.snapshot")
    (log,) = folder.glob("*.requests.json")
    text = result.stdout.str()
    assert "test_fails" in snapshot.name and f"{snapshot}: the cluster's state" in text and str(log) in text
    assert "clock manual at" in text
    assert any(request["resource"] == "configmaps" for request in json.loads(log.read_text()))
    if by == "option":
        with kstore.Lab(image=snapshot, components=["apiserver"], patience=PATIENCE) as again:
            assert again.cluster.get("configmap/a") is not None
            loaded = again.load_image("loaded", snapshot)
            with loaded.fork() as fork:
                assert fork.cluster.get("configmap/a") is not None


def test_the_timers_of_an_event_loop_follow_the_clusters_clock(fork):
    fork.apply(HOURLY)
    fork.settled()
    begin, seen = fork.clock.time(), []

    async def operator():
        loop = asyncio.get_running_loop()
        assert abs(loop.time() - begin) < 0.01
        for _ in range(3):
            await asyncio.sleep(3600)
            # At its time, after the job of that hour.
            seen.append((round(loop.time() - begin), len(fork.cluster.list("jobs"))))
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), 60)
        seen.append(round(loop.time() - begin))
        return "done"

    loop = fork.event_loop()
    done = []
    thread = threading.Thread(target=lambda: done.append(loop.run_until_complete(operator())))
    thread.start()
    try:
        fork.advance(hours=2)
        # The clock stood when the operator had seen both hours.
        assert seen == [(3600, 1), (7200, 2)]
        fork.advance(hours=2)
    finally:
        thread.join()
        loop.close()
    assert seen[2:] == [(10800, 3), 10860] and done == ["done"]


def test_an_event_loop_serves_sockets_while_the_clock_stands(fork):
    loop = fork.event_loop()
    try:
        async def calls():
            server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
            # A timer that never is due while the clock stands.
            timer = loop.call_later(3600, lambda: None)
            reader, _ = await asyncio.open_connection(*server.sockets[0].getsockname())
            assert await reader.read() == b""
            timer.cancel()
            server.close()

        loop.run_until_complete(calls())
    finally:
        loop.close()


def test_a_sleep_of_a_thread_ends_at_its_time(fork):
    times = []
    begin = fork.clock.time()

    def program():
        for _ in range(3):
            fork.clock.sleep(600)
            times.append(round(fork.clock.time() - begin))

    thread = threading.Thread(target=program)
    thread.start()
    while not fork.call("GET", "/clock").get("next"):
        time.sleep(0.01)
    fork.advance(hours=1)
    thread.join()
    assert times == [600, 1200, 1800]
    assert fork.clock.monotonic() >= begin + 3600
