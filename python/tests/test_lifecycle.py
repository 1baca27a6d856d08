"""The server's process: it ends with its cluster, with the process that started it, and with nothing else."""

import os
import pathlib
import select
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import kstore
import pytest

# How long a server whose Python process died may take to end.
END_SECONDS = 180
STARTS_AND_WAITS = """
import kstore, sys
cluster = kstore.Cluster().start()
print(cluster.pid, cluster.kubeconfig, flush=True)
sys.stdin.read()
"""
STARTS_AND_LEAVES = "import kstore; cluster = kstore.Cluster().start(); print(cluster.pid, cluster.kubeconfig, flush=True)"


class Watched:
    """A process that is no child of this one, and its end."""

    def __init__(self, pid):
        self.descriptor = os.pidfd_open(pid)

    def ended(self, seconds):
        """Whether it ends within so many seconds."""
        return bool(select.select([self.descriptor], [], [], seconds)[0])


def python(script):
    return subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def started(process):
    pid, kubeconfig = process.stdout.readline().split()
    return Watched(int(pid)), pathlib.Path(kubeconfig)


def test_stop_ends_its_own_server_and_no_other():
    with kstore.Cluster() as stays:
        goes = kstore.Cluster().start()
        server, directory = Watched(goes.pid), pathlib.Path(goes.kubeconfig).parent
        goes.stop()
        assert server.ended(0)
        assert not directory.exists()
        assert stays.get("namespace/default") is not None
        goes.stop()


def test_a_cluster_can_be_started_again_and_is_empty():
    cluster = kstore.Cluster()
    with cluster:
        cluster.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}})
    with cluster:
        assert cluster.get("configmap/a") is None


def test_a_killed_python_process_leaves_neither_server_nor_files():
    process = python(STARTS_AND_WAITS)
    server, kubeconfig = started(process)
    assert kubeconfig.exists() and not server.ended(0)
    process.kill()
    process.wait()
    assert server.ended(END_SECONDS)
    assert not kubeconfig.parent.exists()


def test_a_python_process_that_never_calls_stop_leaves_neither_server_nor_files():
    process = python(STARTS_AND_LEAVES)
    _, kubeconfig = started(process)
    assert process.wait(timeout=END_SECONDS) == 0
    assert not kubeconfig.parent.exists()


def test_sigterm_to_the_python_process_ends_the_server():
    process = python(STARTS_AND_WAITS)
    server, kubeconfig = started(process)
    process.send_signal(signal.SIGTERM)
    assert server.ended(END_SECONDS)
    process.wait()
    assert not kubeconfig.parent.exists()


def test_a_fork_of_the_process_does_not_end_the_server():
    with kstore.Cluster() as cluster:
        child = os.fork()
        if child == 0:
            cluster.stop()
            os._exit(0)
        os.waitpid(child, 0)
        assert cluster.get("namespace/default") is not None


def test_parallel_clusters_do_not_collide():
    with ThreadPoolExecutor(8) as threads:
        clusters = list(threads.map(lambda _: kstore.Cluster(nodes=0).start(), range(8)))
        try:
            assert len({cluster.url for cluster in clusters}) == 8
            name = lambda number: {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"c{number}"}}
            list(threads.map(lambda pair: pair[1].apply(name(pair[0])), enumerate(clusters)))
            for number, cluster in enumerate(clusters):
                found = cluster.request("GET", "/api/v1/namespaces/default/configmaps")["items"]
                names = {item["metadata"]["name"] for item in found} - {"kube-root-ca.crt"}
                assert names == {f"c{number}"}
        finally:
            list(threads.map(kstore.Cluster.stop, clusters))


def test_a_server_that_dies_is_told_as_such():
    with kstore.Cluster() as cluster:
        server = Watched(cluster.pid)
        os.kill(cluster.pid, signal.SIGKILL)
        assert server.ended(END_SECONDS)
        with pytest.raises(kstore.KstoreError, match="ended by itself or was ended"):
            cluster.get("namespace/default")


def test_a_start_that_fails_shows_the_log_and_leaves_no_files(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(kstore.StartError, match="--no-such-flag"):
        kstore.Cluster(flags=["--no-such-flag"]).start()
    with pytest.raises(kstore.ApiError):
        kstore.Cluster(manifests={"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "No Name"}}).start()
    assert list(tmp_path.iterdir()) == []


def test_a_variable_that_names_no_program_is_an_error(monkeypatch):
    monkeypatch.setenv("KSTORE_SERVER", "/nowhere/kstore-server")
    with pytest.raises(kstore.StartError, match="/nowhere/kstore-server"):
        kstore.find_server()


def test_the_module_runs_the_program():
    shown = subprocess.run([sys.executable, "-m", "kstore", "--version"], capture_output=True, text=True, check=True)
    assert shown.stdout.startswith("kstore-server ")
