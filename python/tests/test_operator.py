"""Programs that a cluster starts: their rights, their end, and what a failure tells of them."""

import os
import select
import signal
import subprocess
import sys

import kstore
import pytest

# Says that it has started by an object, then waits for its end.
STARTED = """
import signal, subprocess, sys
print("operator: watching", flush=True)
subprocess.run(["kubectl", "create", "configmap", "started"], check=True, stdout=subprocess.DEVNULL)
"""
LIVES = STARTED + "signal.pause()"
# Dies when the test says so, by its own watch on an object.
DIES = STARTED + """
subprocess.run(["kubectl", "wait", "--for=create", "configmap/die", "--timeout=120s"], check=True, stdout=subprocess.DEVNULL)
sys.exit("operator: out of ideas")
"""
ENDS_WITHIN = 60


def config_map(name):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}


def ended(descriptor, seconds):
    return bool(select.select([descriptor], [], [], seconds)[0])


@pytest.fixture(scope="module")
def server():
    with kstore.Cluster(nodes=0) as cluster:
        yield cluster


@pytest.fixture
def view(server, request):
    view = server.in_namespace(request.node.name.replace("_", "-"))
    yield view
    view.stop()


def test_a_wait_fails_at_once_when_the_operator_dies(view):
    operator = view.operator([sys.executable, "-c", DIES])
    view.wait("configmap/started", timeout=ENDS_WITHIN)
    view.apply(config_map("die"))
    # Its own limit would be an hour.
    with pytest.raises(kstore.OperatorDied, match=r"(?s)ended with 1; its last lines:.*operator: watching.*out of ideas") as died:
        view.wait("configmap/never", timeout=3600)
    assert (died.value.exit_code, operator.exit_code) == (1, 1)
    # One that is dead already fails a wait, too, also one of a namespace of this one.
    with pytest.raises(kstore.OperatorDied):
        view.in_namespace("below").wait("configmap/never", timeout=3600)


def test_a_death_that_no_wait_has_told_is_told_at_the_end(view):
    view.operator(["sh", "-c", "kubectl create configmap gone; echo no such module; exit 3"])
    view.wait("configmap/gone", timeout=ENDS_WITHIN)
    with pytest.raises(kstore.OperatorDied, match="by signal 9; its last lines: it wrote nothing"):
        with view.operator(["sh", "-c", "kill -9 $$"]) as killed:
            while killed.exit_code is None:
                view.get("configmap/gone")
    with pytest.raises(kstore.OperatorDied, match="(?s)ended with 3; .*no such module"):
        view.wait("configmap/never", timeout=ENDS_WITHIN)
    view.stop()


def test_a_program_that_is_to_end_is_waited_for(view):
    assert view.operator(["sh", "-c", "exit 3"]).wait() == 3
    view.wait(f"namespace/{view.namespace}")
    with pytest.raises(kstore.KstoreError, match="has not ended after 0.1 s"):
        view.operator(["sh", "-c", "kubectl get configmaps --watch"]).wait(0.1)
    view.stop()


def test_a_wait_that_times_out_has_the_last_lines(view):
    view.operator([sys.executable, "-c", LIVES])
    view.wait("configmap/started", timeout=ENDS_WITHIN)
    with pytest.raises(kstore.WaitTimeout) as failed:
        view.wait("configmap/never", timeout=1)
    assert "operator: watching" in str(failed.value)


def test_stop_ends_it_and_what_it_started(view):
    script = "python=$1; $python -c 'import signal; signal.pause()' & echo $!; kubectl create configmap up; wait"
    operator = view.operator(["sh", "-c", script, "sh", sys.executable])
    view.wait("configmap/up", timeout=ENDS_WITHIN)
    child = os.pidfd_open(int(operator.log().split()[0]))
    assert not ended(child, 0)
    operator.stop()
    assert operator.exit_code == -signal.SIGTERM
    assert ended(child, ENDS_WITHIN)
    # It was asked to end: that is no failure.
    view.wait("configmap/up", timeout=ENDS_WITHIN)


def test_an_operator_of_a_killed_process_ends_with_it():
    script = """
import kstore, signal, sys
cluster = kstore.Cluster(nodes=0).start()
print(cluster.operator([sys.executable, "-c", "import signal; signal.pause()"]).pid, flush=True)
signal.pause()
"""
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    operator = os.pidfd_open(int(process.stdout.readline()))
    process.kill()
    process.wait()
    assert ended(operator, ENDS_WITHIN)


def test_an_operator_acts_with_the_rights_of_its_service_account(view):
    view.operator(["sh", "-c", "kubectl get configmaps; exit 1"], service_account="op")
    with pytest.raises(kstore.OperatorDied, match=f'"system:serviceaccount:{view.namespace}:op" cannot list'):
        view.wait("configmap/never", timeout=ENDS_WITHIN)


def test_usage_errors_of_commands(view):
    with pytest.raises(kstore.UsageError, match="as a list"):
        view.operator("kopf run operator.py")
    with pytest.raises(kstore.UsageError, match="no nosuch on PATH"):
        view.operator(["nosuch"])
