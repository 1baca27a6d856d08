"""The pytest plugin, by test files that it runs in a process of their own."""

import base64
import json
import pathlib
import re
import zlib

CRDS = pathlib.Path(__file__).parent / "crds"


def run(pytester, text, *arguments):
    pytester.makepyfile(text)
    return pytester.runpytest_subprocess("-p", "no:cacheprovider", *arguments)


def test_each_test_has_a_namespace_of_its_own_in_one_cluster(pytester):
    result = run(
        pytester,
        """
        seen = []
        MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}

        def test_one(cluster):
            assert cluster.get("configmap/a") is None
            cluster.apply(MAP)
            seen.append((cluster.namespace, cluster.pid))

        test_two = test_one

        def test_they_shared_a_server(kstore):
            (one, first), (two, second) = seen
            assert one != two and first == second == kstore.pid
            kstore.wait(f"namespace/{one}", deleted=True)
        """,
    )
    result.assert_outcomes(passed=3)


def test_with_isolation_by_cluster_each_test_has_a_server(pytester):
    text = """
        import pytest
        seen = []

        def test_one(cluster):
            seen.append(cluster.pid)
            assert cluster.namespace == "default"

        test_two = test_one

        def test_they_shared_none():
            assert len(set(seen)) == 2
        """
    run(pytester, text, "--kstore-isolation=cluster").assert_outcomes(passed=3)
    pytester.makeini("[pytest]\nkstore_isolation = cluster\n")
    run(pytester, text).assert_outcomes(passed=3)


def test_markers_of_module_and_function_add_up(pytester):
    pytester.makefile(".yaml", widgets=(CRDS / "widgets.yaml").read_text())
    pytester.makefile(".json", made='{"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "made"}}')
    result = run(
        pytester,
        """
        import pytest
        pytestmark = pytest.mark.kstore(crds=["widgets.yaml"])

        @pytest.mark.kstore(manifests="made.json")
        def test_both(cluster):
            assert cluster.get("widget/made")["metadata"]["namespace"] == cluster.namespace

        def test_the_definition_alone(cluster):
            assert cluster.get("widget/made") is None

        @pytest.mark.kstore(nodes=5, isolation="namespace")
        def test_nodes_need_a_cluster_of_its_own(cluster):
            assert cluster.namespace == "default"
            # They register after the start.
            for number in range(5):
                cluster.wait(f"node/node-{number}", timeout=180)
            assert len(cluster.request("GET", "/api/v1/nodes")["items"]) == 5
        """,
    )
    result.assert_outcomes(passed=3)


def about_report(file):
    """What a report says about itself: the first chunk of its data, after a line of 16 bytes and its own head of 12."""
    data = base64.b64decode(re.search(r'id="kstore-report">([^<]*)<', file.read_text())[1])
    assert data[:24] == b"KSTORE-REPORT 1\nmeta    "
    return json.loads(zlib.decompress(data[28 : 28 + int.from_bytes(data[24:28], "little")]))


def test_a_failure_reports_the_last_writes_of_that_test_alone(pytester):
    result = run(
        pytester,
        """
        def config_map(name):
            return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}

        def test_before(cluster):
            cluster.apply(config_map("earlier"))

        def test_fails(cluster):
            cluster.apply(config_map("later"))
            assert False

        def test_fails_with_the_session_cluster(kstore):
            kstore.apply(config_map("sessions"))
            assert False
        """,
    )
    result.assert_outcomes(passed=1, failed=2)
    text = result.stdout.str()
    assert text.count("kstore: last writes in this test") == 2
    assert "created configmaps/test-" in text and "/later" in text
    assert "created configmaps/default/sessions" in text
    assert "/earlier" not in text
    reports = sorted(pytester.path.glob(".kstore-reports/*.html"))
    assert len(reports) == 2
    abouts = [about_report(report) for report in reports]
    assert all("test_" in about["title"] and "Error" in about["failure"] for about in abouts), abouts
    assert str(reports[0]) in text


def test_the_traceback_of_an_error_of_the_package_ends_in_the_test(pytester):
    result = run(
        pytester,
        """
        def test_fails(cluster):
            cluster.wait("configmap/a", timeout=0.1)

        def test_fails_in_its_own_function(cluster):
            cluster.wait("namespace/default", until=lambda found: found["nothing"])
        """,
    )
    result.assert_outcomes(failed=2)
    first, _, second = result.stdout.str().partition("test_fails_in_its_own_function")
    assert "_cluster.py" not in first
    assert "WaitTimeout: configmap/a" in first
    # An error that is not the package's own keeps its whole way.
    assert "_cluster.py" in second


def test_a_failure_has_the_last_lines_of_the_operator_and_a_death_fails_the_test(pytester):
    result = run(
        pytester,
        """
        import os, select
        SAYS = ["sh", "-c", "echo here I am; kubectl create configmap up >/dev/null; exec kubectl get configmaps --watch >/dev/null"]

        def test_fails_itself(cluster):
            cluster.operator(SAYS)
            cluster.wait("configmap/up")
            assert False

        def test_passes(cluster):
            cluster.operator(SAYS)
            cluster.wait("configmap/up")

        def test_nobody_notices(cluster):
            died = cluster.operator(["sh", "-c", "echo farewell; exit 4"])
            while died.exit_code is None:
                cluster.get("configmap/a")

        def test_the_next_is_not_concerned(cluster):
            assert cluster.operators == []
            cluster.wait("namespace/default")
        """,
    )
    result.assert_outcomes(passed=3, failed=1, errors=1)
    text = result.stdout.str()
    assert text.count("kstore: last lines of the operator") == 1 and "here I am" in text
    assert "ended with 4" in text and "farewell" in text


def test_a_newer_version_than_the_clusters_skips(pytester):
    result = run(
        pytester,
        """
        import pytest

        @pytest.mark.kstore(version="1.99")
        def test_of_the_future(cluster): ...

        @pytest.mark.kstore(version="1.30")
        def test_of_the_past(cluster): ...
        """,
    )
    result.assert_outcomes(passed=1, skipped=1)


def test_a_wrong_word_in_a_marker_is_a_usage_error(pytester):
    result = run(
        pytester,
        """
        import pytest

        @pytest.mark.kstore(node=5)
        def test_it(cluster): ...
        """,
    )
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*the marker kstore takes crds, manifests, nodes*"])
