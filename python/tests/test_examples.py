"""The worked examples of the book: an operator that makes an hourly CronJob for each Backup, and a record of each Job that has finished."""

import pathlib

import pytest

# A copy beside this file, or the folder of the checkout.
FOLDERS = [pathlib.Path(__file__).parent / "cases", pathlib.Path(__file__).parents[2] / "lab/cases"]
CASES = next(folder for folder in FOLDERS if folder.exists())
BACKUP = {"apiVersion": "example.com/v1", "kind": "Backup", "metadata": {"name": "b"}}
OPERATOR = ["sh", str(CASES / "backup.sh")]

# The calls' ten seconds are of real time: tests wait for clients until the busiest machine is done.
pytestmark = pytest.mark.kstore(lab={"clock": "manual", "patience": "10m"})


@pytest.fixture(scope="session")
def kstore_prepared(lab_cluster):
    lab_cluster.apply(CASES / "backups.yaml")


def test_a_backup_an_hour(lab):
    with lab.program(OPERATOR, name="backup"):
        lab.cluster.apply(BACKUP)
        lab.settled()
        lab.advance(hours=3)
        assert len(lab.cluster.list("configmaps", labels="backup=b")) == 3


def test_a_crash_between_record_and_status(lab):
    with lab.program(OPERATOR, name="backup") as operator, lab.plan(lab.kill(operator).after("create", "configmaps")) as plan:
        lab.cluster.apply(BACKUP)
        lab.settled()
        # Killed when the record is made, and started again.
        lab.advance(hours=1)
        assert plan.wait(timeout=180) == "done" and operator.incarnation == 1
        lab.settled()
        assert len(lab.cluster.list("configmaps", labels="backup=b")) == 1, lab.explain("backup/b")


def test_a_lagging_watch_makes_no_second_record(lab):
    with lab.program(OPERATOR, name="backup") as operator, lab.cache("behind", routes=[operator]) as behind:
        lab.cluster.apply(BACKUP)
        lab.settled()
        behind.freeze("configmaps")
        lab.advance(hours=1)
        behind.thaw()
        lab.settled()
        assert len(lab.cluster.list("configmaps", labels="backup=b")) == 1


def test_lost_answers_and_conflicts_make_no_second_record(lab):
    with lab.program(OPERATOR, name="backup") as operator:
        with lab.faults(seed=7).touch(0.3, client=operator).lost_answers(0.5, client=operator, verbs=["create"]) as faults:
            lab.cluster.apply(BACKUP)
            lab.settled()
            lab.advance(hours=2)
            assert {count["fault"] for count in faults.counts()} == {"touch", "lost-answer"}
        assert len(lab.cluster.list("configmaps", labels="backup=b")) == 2
