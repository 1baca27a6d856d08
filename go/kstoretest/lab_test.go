package kstoretest

import (
	"bytes"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"
)

const hourly = `{"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "hourly"}, "spec": {"schedule": "0 * * * *",
	"successfulJobsHistoryLimit": 100, "jobTemplate": {"spec": {"template": {"spec": {"restartPolicy": "Never",
	"containers": [{"name": "a", "image": "a", "command": ["true"]}]}}}}}}`

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
	lab := StartLab(t, LabOptions{Start: start, Seed: 7})
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
	lab := StartLab(t, LabOptions{Components: []string{"apiserver"}})
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
