"""Versions of Kubernetes: of a cluster, of --kubernetes-versions, and of the marker `kubernetes`."""

import pytest

import kstore
from kstore._versions import Versions, listed


@pytest.fixture(autouse=True)
def wide_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "240")


def run(pytester, text, *arguments):
    pytester.makepyfile(text)
    return pytester.runpytest_subprocess("-p", "no:cacheprovider", "-v", "-rs", *arguments)


def test_a_cluster_and_a_lab_have_the_version_that_they_are_asked_for():
    with kstore.Cluster(kubernetes_version="1.34.2", components=["apiserver"]) as cluster:
        assert cluster.version == (1, 34)
    with kstore.Lab(kubernetes_version="1.35", components=["apiserver"]) as lab:
        assert lab.cluster.version == (1, 35) and lab.fork().cluster.version == (1, 35)
    with pytest.raises(kstore.StartError, match="Kubernetes 1.12 is not served"):
        kstore.Cluster(kubernetes_version="1.12").start()


@pytest.mark.parametrize(
    "text, inside",
    [
        ("1.35+", [(1, 35), (1, 36), (2, 0)]),
        ("1.34-", [(1, 33), (1, 34)]),
        ("1.34-1.35", [(1, 34), (1, 35)]),
        (" 1.36 ", [(1, 36)]),
    ],
)
def test_ranges_of_the_marker(text, inside):
    every = [(1, 33), (1, 34), (1, 35), (1, 36), (2, 0)]
    assert [version for version in every if version in Versions(text)] == inside


@pytest.mark.parametrize("text", ["", "1", "1.35+1.36", "+", ">=1.35", "1.35++", "v1.35"])
def test_other_texts_are_no_ranges(text):
    with pytest.raises(kstore.UsageError, match="1.35"):
        Versions(text)


def test_lists_of_versions():
    assert listed("1.33, 1.36 1.33,v1.34.1") == ["1.33", "1.36", "v1.34.1"]
    assert listed("") == []
    with pytest.raises(kstore.UsageError):
        listed("1.33;1.34")


def test_each_test_with_a_cluster_runs_once_with_each_version(pytester):
    text = """
        import pytest
        seen = set()

        def test_shared(cluster):
            cluster.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}})
            seen.add((cluster.version, cluster.pid))

        def test_session(kstore):
            seen.add((kstore.version, kstore.pid))

        @pytest.mark.kstore(components=["apiserver"])
        def test_own(cluster):
            seen.add((cluster.version, 0))

        @pytest.mark.kubernetes("1.35+")
        def test_newer(cluster):
            assert cluster.version >= (1, 35)

        @pytest.mark.kubernetes("1.34-")
        @pytest.mark.kubernetes("1.34+")
        def test_in_no_version(cluster):
            assert False

        def test_without_a_cluster():
            pass

        def test_each_version_had_one_shared_server():
            assert len(seen) == 4, seen
            assert {version for version, _ in seen} == {(1, 33), (1, 36)}
        """
    result = run(pytester, text, "--kubernetes-versions", "1.33,1.36")
    result.assert_outcomes(passed=9, skipped=1)
    shown = result.stdout.str()
    for name in ["test_shared[1.33]", "test_own[1.36]", "test_newer[1.36]", "test_in_no_version[none]"]:
        assert name in shown, name
    assert "test_newer[1.33]" not in shown and "is for Kubernetes 1.34" in shown
    pytester.makeini("[pytest]\nkubernetes_versions = 1.36\n")
    result = run(pytester, "def test_one(lab):\n    assert lab.cluster.version == (1, 36)\n")
    result.assert_outcomes(passed=1)
    assert "test_one[1.36]" in result.stdout.str()


def test_without_the_option_a_marked_test_runs_if_its_cluster_fits(pytester, monkeypatch):
    text = """
        import pytest

        @pytest.mark.kubernetes("1.35+")
        def test_newer(cluster):
            assert False

        @pytest.mark.kubernetes("1.34-")
        def test_older(kstore):
            assert kstore.version == (1, 34)

        @pytest.mark.kubernetes("1.35")
        def test_session(kstore):
            assert False
        """
    monkeypatch.setenv("KSTORE_KUBERNETES_VERSION", "1.34")
    result = run(pytester, text)
    result.assert_outcomes(passed=1, skipped=2)
    assert "is for Kubernetes 1.35+; the cluster is 1.34" in result.stdout.str()


@pytest.mark.parametrize(
    "arguments, mark, expected",
    [
        (["--kubernetes-versions=latest"], '"1.35+"', "a version of Kubernetes is MAJOR.MINOR"),
        (["--kubernetes-versions=1.36"], '">1.35"', "versions of Kubernetes are 1.35+"),
        (["--kubernetes-versions=1.36"], 'since="1.35"', "the marker kubernetes takes one text"),
    ],
)
def test_mistakes_are_told(pytester, arguments, mark, expected):
    text = f"import pytest\n\n@pytest.mark.kubernetes({mark})\ndef test_a(cluster): ...\n"
    result = run(pytester, text, *arguments)
    assert result.ret != 0
    assert expected in result.stdout.str() + result.stderr.str()
