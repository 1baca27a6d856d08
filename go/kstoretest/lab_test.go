package kstoretest

import (
	"bytes"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// failVariable makes the test binary the one whose test fails.
const failVariable = "KSTORETEST_FAIL"

const hourly = `{"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "hourly"}, "spec": {"schedule": "0 * * * *",
	"successfulJobsHistoryLimit": 100, "jobTemplate": {"spec": {"template": {"spec": {"restartPolicy": "Never",
	"containers": [{"name": "a", "image": "a", "command": ["true"]}]}}}}}}`

// patience is for the busiest machine: the ten seconds of calls are of real time.
const patience = 10 * time.Minute

const jobsPath = "/apis/batch/v1/namespaces/default/jobs"

// api sends a request of the Kubernetes API.
func (l *Lab) api(t *testing.T, method, path, body string) string {
	t.Helper()
	request, err := http.NewRequest(method, l.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "lab-test/1")
	response, err := l.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var text bytes.Buffer
	if _, err := text.ReadFrom(response.Body); err != nil || response.StatusCode >= 300 {
		t.Fatalf("%s %s: %d %s %v", method, path, response.StatusCode, text.String(), err)
	}
	return text.String()
}

func (l *Lab) jobs(t *testing.T) int {
	t.Helper()
	return strings.Count(l.api(t, http.MethodGet, jobsPath, ""), `"creationTimestamp":"2026-03-01T`)
}

func TestADayPassesAndForksGoTheirOwnWays(t *testing.T) {
	start := time.Date(2026, 3, 1, 0, 0, 30, 0, time.UTC)
	lab := StartLab(t, LabOptions{Start: start, Seed: 7, Patience: patience})
	lab.api(t, http.MethodPost, "/apis/batch/v1/namespaces/default/cronjobs", hourly)
	lab.Settled(t)
	fork := lab.Fork(t)
	before := lab.Now(t)
	if advanced := lab.Advance(t, 12*time.Hour); advanced.Time.Sub(before) != 12*time.Hour {
		t.Errorf("%+v", advanced)
	}
	if jobs := lab.jobs(t); jobs != 12 {
		t.Errorf("%d jobs", jobs)
	}
	if jobs := fork.jobs(t); jobs != 0 {
		t.Errorf("%d jobs of the fork, whose clock stands", jobs)
	}
	for _, fork := range fork.Forks(t, 2) {
		fork.Advance(t, 2*time.Hour)
		if jobs := fork.jobs(t); jobs != 2 {
			t.Errorf("%d jobs", jobs)
		}
	}
	if made := lab.Requests(t, "client=lab-test&verb=create"); len(made) != 1 || made[0].Resource != "cronjobs.batch" {
		t.Errorf("%+v", made)
	}
	fork.Stop()
	if _, err := fork.client.Get(fork.URL + "/readyz"); err == nil {
		t.Error("the fork runs on")
	}
}

func TestWhatIsBusyIsNamed(t *testing.T) {
	lab := StartLab(t, LabOptions{Components: []string{"apiserver"}, Patience: patience})
	busy := map[string]any{"match": map[string]string{"agent": "worker"}, "busy": true}
	lab.must(t, http.MethodPut, "/clients/worker", busy, nil)
	var refused *LabError
	err := lab.Call(http.MethodPost, "/settled", map[string]string{"patience": "200ms"}, nil)
	if !errors.As(err, &refused) || refused.Code != 504 || len(refused.Busy) != 1 || !strings.Contains(refused.Busy[0], "says that it is busy") {
		t.Errorf("%v", err)
	}
	if err := lab.Call(http.MethodPost, "/clock/advance", map[string]string{"buy": "1h"}, nil); err == nil || !strings.Contains(err.Error(), `did you mean "by"?`) {
		t.Errorf("%v", err)
	}
}

func TestAFailedTestReportsTheLabAndKeepsASnapshotThatStartsAgain(t *testing.T) {
	if os.Getenv(failVariable) != "" {
		lab := StartLab(t, LabOptions{Components: []string{"apiserver"}, Patience: patience})
		fork := lab.Fork(t)
		fork.Apply(t, `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}`)
		fork.must(t, http.MethodPut, "/clients/worker", map[string]any{"match": map[string]string{"agent": "worker"}, "busy": true}, nil)
		t.Fatal("on purpose")
	}
	folder := filepath.Join(t.TempDir(), "kept")
	command := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$")
	command.Env = append(os.Environ(), failVariable+"=1", KeepVariable+"="+folder, "KSTORE_REPORTS="+folder)
	output, err := command.CombinedOutput()
	text := string(output)
	for _, part := range []string{"on purpose", "clock manual at", "client worker: busy: says that it is busy", "kept " + folder} {
		if err == nil || !strings.Contains(text, part) {
			t.Errorf("%q is not in the log, or the test passed (%v):\n%s", part, err, text)
		}
	}
	if reports, _ := filepath.Glob(filepath.Join(folder, "*.html")); len(reports) != 2 {
		t.Errorf("reports: %v\n%s", reports, text)
	}
	logs, _ := filepath.Glob(filepath.Join(folder, "*.requests.json"))
	found := 0
	for _, log := range logs {
		requests, _ := os.ReadFile(log)
		if !strings.Contains(string(requests), `"configmaps"`) {
			continue
		}
		found++
		snapshot := strings.TrimSuffix(log, ".requests.json") + ".snapshot"
		again := StartLab(t, LabOptions{Components: []string{"apiserver"}, Image: snapshot, Patience: patience})
		again.api(t, http.MethodGet, "/api/v1/namespaces/default/configmaps/a", "")
	}
	if len(logs) != 2 || found != 1 {
		t.Errorf("kept %v", logs)
	}
}

func TestObjectsAreAppliedAsTextAndValues(t *testing.T) {
	lab := StartLab(t, LabOptions{Components: []string{"apiserver"}, Patience: patience})
	type object map[string]any
	lab.Apply(t, "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: ns\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: ns}\n",
		object{"apiVersion": "v1", "kind": "ConfigMap", "metadata": object{"name": "b"}})
	lab.api(t, http.MethodGet, "/api/v1/namespaces/ns/configmaps/a", "")
	lab.api(t, http.MethodGet, "/api/v1/namespaces/default/configmaps/b", "")
	if err := lab.apply([]byte(`{"kind": "ConfigMap"}`)); err == nil || !strings.Contains(err.Error(), "needs apiVersion") {
		t.Errorf("%v", err)
	}
	if revisions := lab.api(t, http.MethodGet, "/apis/apps/v1/namespaces/default/controllerrevisions", ""); !strings.Contains(revisions, `"items":[]`) {
		t.Errorf("%s", revisions)
	}
}
