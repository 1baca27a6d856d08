package kstoretest

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The worked examples of the book: an operator that makes an hourly CronJob for each Backup, and a record of each Job that has finished.

const backup = `{"apiVersion": "example.com/v1", "kind": "Backup", "metadata": {"name": "b"}}`

func startBackup(t *testing.T, lab *Lab) *Program {
	t.Helper()
	script, err := filepath.Abs("../../lab/cases/backup.sh")
	if err != nil {
		t.Fatal(err)
	}
	operator := lab.Program(t, "backup", ProgramOptions{}, "sh", script)
	lab.Apply(t, backup)
	lab.Settled(t)
	return operator
}

func (l *Lab) records(t *testing.T) int {
	t.Helper()
	return strings.Count(l.api(t, http.MethodGet, "/api/v1/namespaces/default/configmaps?labelSelector=backup%3Db", ""), `"uid"`)
}

func TestABackupAnHour(t *testing.T) {
	lab := StartLab(t, LabOptions{Clock: ManualClock, CRDs: []string{"../../lab/cases/backups.yaml"}, Patience: patience})
	main := lab.Fork(t)
	startBackup(t, main)
	main.Advance(t, 2*time.Hour)
	if records := main.records(t); records != 2 {
		t.Errorf("%d records", records)
	}
	// Branches from the begin, each with other faults.
	for n, fork := range lab.Forks(t, 2) {
		startBackup(t, fork)
		fork.SetFaults(t, Seed(n).Rule(Touch, 0.3).Client("backup").Rule(LostAnswer, 0.5).Client("backup").Verbs("create"))
		fork.Advance(t, time.Hour)
		if records := fork.records(t); records != 1 {
			t.Errorf("%d records in fork %d: %+v", records, n, fork.FaultCounts(t))
		}
	}
}

func TestACrashBetweenRecordAndStatus(t *testing.T) {
	lab := StartLab(t, LabOptions{CRDs: []string{"../../lab/cases/backups.yaml"}, Patience: patience})
	operator := startBackup(t, lab)
	plan := lab.Plan(t, Kill(operator).After("create", "configmaps"))
	lab.Advance(t, time.Hour)
	state := plan.Wait(t)
	lab.Settled(t)
	if records := lab.records(t); records != 1 {
		t.Errorf("%d records", records)
	}
	if started := operator.State(t); state.State != "done" || started.Incarnation != 1 {
		t.Errorf("%+v %+v", state, started)
	}
}
