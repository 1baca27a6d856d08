"""The pytest plugin: the fixtures `kstore`, `cluster`, `lab` and `lab_cluster`, the markers `kstore` and `kubernetes`, the option
--kubernetes-versions, and what the server knows about a failure.

    @pytest.mark.kstore(crds=["crds/"], manifests=["web.yaml"], nodes=5, version="1.33")
    def test_rollout(cluster): ...
"""

from __future__ import annotations

import os
import re
import uuid
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

import pytest

from ._cluster import Cluster
from ._errors import KstoreError, OperatorDied, WaitTimeout
from ._lab import Image, Lab
from ._versions import Versions, listed, minor

WORDS = ("crds", "manifests", "nodes", "components", "version", "isolation", "lab")
# What the marker's `lab` says of the test's fork.
LAB_WORDS = ("clock", "seed", "patience")
PREPARED = "kstore-prepared"
ISOLATIONS = ("namespace", "cluster")
STARTED = pytest.StashKey[Tuple[Cluster, int]]()
LAB = pytest.StashKey[Lab]()
# The variable that names the folder of --kstore-keep.
KEEP = "KSTORE_KEEP"
# The variable that names the folder of reports; `off`: there are none.
REPORTS = "KSTORE_REPORTS"
REPORTS_FOLDER = ".kstore-reports"
# The fixture by which a test gets a version of Kubernetes.
VERSION = "kstore_version"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("kstore")
    text = "versions of Kubernetes, such as 1.33,1.36: each test with a cluster runs once with each of them"
    group.addoption("--kubernetes-versions", metavar="LIST", help=text)
    parser.addini("kubernetes_versions", text, default="")
    text = "what each test's `cluster` is: a namespace of one that all share (default), or a cluster of its own"
    group.addoption("--kstore-isolation", choices=ISOLATIONS, help=text)
    parser.addini("kstore_isolation", text, default="namespace")
    text = "the clock of `lab` in tests whose marker does not say it: manual (default), auto, real, or a factor such as 60x"
    group.addoption("--kstore-lab", metavar="CLOCK", help=text)
    parser.addini("kstore_lab", text, default="manual")
    text = "real time for which calls of the lab wait for clients that are busy, such as 10m; ten seconds if not given"
    group.addoption("--kstore-patience", metavar="DURATION", help=text)
    parser.addini("kstore_patience", text)
    text = "folder for a snapshot file and the request log of each failed test with a lab; also the variable KSTORE_KEEP"
    group.addoption("--kstore-keep", metavar="DIR", help=text)
    parser.addini("kstore_keep", text)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "kstore(crds, manifests, nodes, components, version, isolation, lab): the cluster that a test needs: paths of definitions and "
        "manifests, relative to the test's file, which are applied before it; simulated nodes and components, for which it gets a cluster "
        "of its own; the lowest version of Kubernetes, else the test is skipped; isolation as --kstore-isolation has it; "
        "lab={'clock': …, 'seed': …, 'patience': …} for its fixture `lab`",
    )
    config.addinivalue_line(
        "markers",
        "kubernetes(versions): the versions of Kubernetes that a test is for, such as 1.35+, 1.34-, 1.33-1.35 or 1.36; with others it is "
        "skipped",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Runs a test with a cluster once with each version of --kubernetes-versions that its marker `kubernetes` names."""
    if VERSION not in metafunc.fixturenames:
        return
    config = metafunc.config
    versions = _usable(listed, config.getoption("--kubernetes-versions") or config.getini("kubernetes_versions"))
    if not versions:
        return
    fitting = [version for version in versions if _unfit(metafunc.definition, minor(version)) is None]
    if fitting:
        metafunc.parametrize(VERSION, fitting, indirect=True, scope="session", ids=fitting)
    else:
        skipped = pytest.param(versions[0], marks=pytest.mark.skip(reason=_unfit(metafunc.definition, minor(versions[0])) or ""))
        metafunc.parametrize(VERSION, [skipped], indirect=True, scope="session", ids=["none"])


@pytest.fixture(scope="session")
def kstore_version(request: pytest.FixtureRequest) -> Optional[str]:
    """The version of Kubernetes of this test's cluster, by --kubernetes-versions; None for that of the variable, else the default."""
    version: Optional[str] = getattr(request, "param", None)
    return version


@pytest.fixture(scope="session")
def kstore(kstore_version: Optional[str]) -> Iterator[Cluster]:
    """One cluster for the whole session (for each worker, with pytest-xdist; for each of --kubernetes-versions)."""
    with Cluster(kubernetes_version=kstore_version) as cluster:
        yield cluster


@pytest.fixture
def cluster(request: pytest.FixtureRequest, kstore_version: Optional[str]) -> Iterator[Cluster]:
    """A cluster for this test, as its marker `kstore` asks for it; see --kstore-isolation."""
    wanted = _wanted(request.node)
    # A namespace has no nodes or components of its own.
    if _isolation(request, wanted) == "namespace" and not {"nodes", "components"} & wanted.keys():
        shared: Cluster = request.getfixturevalue("kstore")
        view = shared.in_namespace(f"test-{uuid.uuid4().hex[:8]}")
        yield from _prepared(request, view, wanted)
        try:
            view.stop()
        finally:
            shared.delete(f"namespace/{view.namespace}")
        return
    flags: Dict[str, Any] = {name: wanted[name] for name in ("nodes", "components") if name in wanted}
    with Cluster(kubernetes_version=kstore_version, **flags) as own:
        yield from _prepared(request, own, wanted)


@pytest.fixture(scope="session")
def lab_cluster(pytestconfig: pytest.Config, kstore_version: Optional[str]) -> Iterator[Lab]:
    """The lab of the session (of each worker, with pytest-xdist), from whose first cluster each test's `lab` is forked."""
    patience = pytestconfig.getoption("--kstore-patience") or pytestconfig.getini("kstore_patience") or None
    # Each fork has a clock of its own.
    with Lab(clock="manual", patience=patience, kubernetes_version=kstore_version) as lab:
        yield lab


@pytest.fixture(scope="session")
def kstore_prepared(lab_cluster: Lab) -> None:
    """What all forks have: nothing, unless a conftest.py or a test file has a fixture of this name, which prepares `lab_cluster`."""


@pytest.fixture(scope="session")
def _kstore_image(lab_cluster: Lab, kstore_prepared: Any) -> Image:
    return lab_cluster.image(PREPARED, settled=True)


@pytest.fixture
def lab(request: pytest.FixtureRequest, _kstore_image: Image) -> Iterator[Lab]:
    """A fork for this test, of what `kstore_prepared` has made of the session's lab. The marker `kstore` says what else it has."""
    wanted = _wanted(request.node)
    chosen = wanted.get("lab", True)
    chosen = {} if chosen is True else chosen
    if not isinstance(chosen, dict) or set(chosen) - set(LAB_WORDS):
        raise pytest.UsageError(f"{request.node.nodeid}: lab of the marker kstore is True, or a dict of {', '.join(LAB_WORDS)}")
    config = request.config
    clock = chosen.get("clock") or config.getoption("--kstore-lab") or config.getini("kstore_lab")
    options: Dict[str, Any] = {name: wanted[name] for name in ("nodes", "components") if name in wanted}
    with _kstore_image.fork(seed=chosen.get("seed"), clock=clock, **options) as fork:
        fork._patience = chosen.get("patience", fork._patience)
        request.node.stash[LAB] = fork
        for _ in _prepared(request, fork.cluster, wanted):
            yield fork


def _isolation(request: pytest.FixtureRequest, wanted: Dict[str, Any]) -> str:
    config = request.config
    chosen = wanted.get("isolation") or config.getoption("--kstore-isolation") or config.getini("kstore_isolation")
    if chosen not in ISOLATIONS:
        raise pytest.UsageError(f"the isolation of kstore is {' or '.join(ISOLATIONS)}, not {chosen!r}")
    return str(chosen)


def _prepared(request: pytest.FixtureRequest, cluster: Cluster, wanted: Dict[str, Any]) -> Iterator[Cluster]:
    needed = wanted.get("version")
    if needed is not None and cluster.version < _version(needed):
        pytest.skip(f"needs Kubernetes {needed}; the cluster is {'.'.join(map(str, cluster.version))}")
    _skip_unfit(request.node, cluster)
    request.node.stash[STARTED] = (cluster, cluster.revision())
    for path in wanted.get("crds", []) + wanted.get("manifests", []):
        cluster.apply(path)
    yield cluster


def _wanted(item: pytest.Item) -> Dict[str, Any]:
    """What the markers of a test ask for: lists of all of them, outermost first; of the rest the innermost counts."""
    wanted: Dict[str, Any] = {}
    for node, mark in reversed(list(item.iter_markers_with_node("kstore"))):
        if mark.args or set(mark.kwargs) - set(WORDS):
            raise pytest.UsageError(f"{item.nodeid}: the marker kstore takes {', '.join(WORDS)} by name")
        for word, value in mark.kwargs.items():
            if word in ("crds", "manifests"):
                wanted.setdefault(word, []).extend(_paths(node, value))
            else:
                wanted[word] = value
    return wanted


def _paths(node: Any, value: Any) -> List[Any]:
    """Texts are paths relative to the folder of the marked file; dicts stay manifests."""
    values = value if isinstance(value, (list, tuple)) else [value]
    path = Path(node.path)
    folder = path if path.is_dir() else path.parent
    return [folder / one if isinstance(one, str) else one for one in values]


def _version(text: str) -> Tuple[int, int]:
    found = re.fullmatch(r"(\d+)\.(\d+)", str(text))
    if found is None:
        raise pytest.UsageError(f"version of the marker kstore is MAJOR.MINOR, such as 1.33, not {text!r}")
    return int(found.group(1)), int(found.group(2))


def _usable(read: Callable[[str], Any], text: str) -> Any:
    """What is read of a text that a user wrote."""
    try:
        return read(text)
    except KstoreError as error:
        raise pytest.UsageError(str(error)) from error


def _unfit(item: pytest.Item, version: Tuple[int, int]) -> Optional[str]:
    """Why a test is not for a version of Kubernetes; None if it is."""
    for mark in item.iter_markers("kubernetes"):
        if len(mark.args) != 1 or mark.kwargs:
            raise pytest.UsageError(f"{item.nodeid}: the marker kubernetes takes one text, such as 1.35+")
        wanted: Versions = _usable(Versions, mark.args[0])
        if version not in wanted:
            return f"is for Kubernetes {wanted.text}"
    return None


def _skip_unfit(item: pytest.Item, cluster: Cluster) -> None:
    if next(item.iter_markers("kubernetes"), None) is None:
        return
    reason = _unfit(item, cluster.version)
    if reason is not None:
        pytest.skip(f"{reason}; the cluster is {'.'.join(map(str, cluster.version))}")


def _kept(lab: Lab, folder: str, test: str) -> str:
    """Keeps what shows the failure of a test again; returns what the report says about it."""
    try:
        snapshot, log = lab.keep(folder, test)
    except (KstoreError, OSError) as error:
        return f"nothing: {error}"
    return f"{snapshot}: the cluster's state; kstore.Lab(image=…) or --lab-image starts from it\n{log}: its request log"


def _reported(cluster: Cluster, item: pytest.Item, since: int, failure: str) -> Optional[str]:
    """Saves the page of a failed test's cluster; returns what the report of the test says about it."""
    chosen = os.environ.get(REPORTS) or REPORTS_FOLDER
    if chosen == "off":
        return None
    stem = re.sub(r"[^A-Za-z0-9_.-]+", "-", item.nodeid).strip("-")
    file = item.config.rootpath / chosen / f"{stem}.html"
    try:
        return f"{cluster.report(file, since=since, title=item.nodeid, failure=failure)}: open it in a browser"
    except (KstoreError, OSError) as error:
        return str(error)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    """Remembers where a test begins that uses the session's cluster alone."""
    shared: Optional[Cluster] = getattr(item, "funcargs", {}).get("kstore")
    if shared is not None and STARTED not in item.stash:
        _skip_unfit(item, shared)
        item.stash[STARTED] = (shared, shared.revision())


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    outcome: Any = yield
    report = outcome.get_result()
    if not report.failed or report.when == "teardown" or STARTED not in item.stash:
        return
    cluster, since = item.stash[STARTED]
    try:
        text = cluster.last_writes(since)
        log = cluster.log().strip()
    except (KstoreError, OSError) as error:
        # The failure of the test is what counts.
        text, log = f"the cluster cannot be asked: {error}", ""
    told = isinstance(call.excinfo.value if call.excinfo else None, (OperatorDied, WaitTimeout))
    for operator in cluster.operators:
        # Its end belongs to this failure, which the end of the test need not tell once more.
        operator.told = True
        if not told:
            report.sections.append((f"kstore: last lines of the operator {' '.join(operator.command)}", operator.log_end()))
    report.sections.append(("kstore: last writes in this test", text))
    if LAB in item.stash:
        try:
            report.sections.append(("kstore: the lab", item.stash[LAB].report()))
        except (KstoreError, OSError) as error:
            report.sections.append(("kstore: the lab", f"it cannot be asked: {error}"))
        folder = item.config.getoption("--kstore-keep") or os.environ.get(KEEP) or item.config.getini("kstore_keep")
        if folder:
            report.sections.append(("kstore: kept", _kept(item.stash[LAB], str(folder), item.nodeid)))
    # After what the lab says and keeps, whose request log this one would be in.
    saved = _reported(cluster, item, since, report.longreprtext)
    if saved is not None:
        report.sections.append(("kstore: report", saved))
    if log:
        report.sections.append(("kstore: log of the server", "\n".join(log.splitlines()[-20:])))
