package kstoretest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// Image is a state from which clusters start. Made by [Lab.Image].
type Image struct {
	// Name of the image in the lab.
	Name string

	lab *Lab
}

// Image takes an image of the cluster; an empty name is one of its own.
func (l *Lab) Image(t testing.TB, name string) *Image {
	t.Helper()
	image, err := l.image(name)
	if err != nil {
		t.Fatalf("kstoretest: image %s: %v", name, err)
	}
	return image
}

func (l *Lab) image(name string) (*Image, error) {
	if name == "" {
		name = fmt.Sprintf("image-%d", time.Now().UnixNano())
	}
	return &Image{Name: name, lab: l}, l.Call(http.MethodPost, "/images", map[string]string{"name": name}, nil)
}

// Fork is a cluster that begins here. It ends with the test.
func (i *Image) Fork(t testing.TB) *Lab {
	t.Helper()
	return i.ForkWith(t, ForkOptions{})
}

// ForkWith is Fork with a clock, seed or components of its own.
func (i *Image) ForkWith(t testing.TB, options ForkOptions) *Lab {
	t.Helper()
	return i.lab.fork(t, options.body("image", i.Name))
}

// Save writes the image into a snapshot file, from which LabOptions.Image and the flag --lab-image start.
func (i *Image) Save(t testing.TB, path string) {
	t.Helper()
	if err := i.save(path); err != nil {
		t.Fatalf("kstoretest: %s: %v", path, err)
	}
}

func (i *Image) save(path string) error {
	response, err := i.lab.open(context.Background(), http.MethodGet, labPath+"/images/"+i.Name+"/file", "", nil)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, response.Body)
	if closed := file.Close(); err == nil {
		err = closed
	}
	return err
}

// Delete forgets the image; clusters from it live on.
func (i *Image) Delete(t testing.TB) {
	t.Helper()
	i.lab.must(t, http.MethodDelete, "/images/"+i.Name, nil, nil)
}

// Report is for people: the clock, the clients for which time waits and why they are not quiet, the faults that hit, and the plans. The log
// of a failed test has it.
func (l *Lab) Report() (string, error) {
	var clock struct {
		Mode, Time, Skew string
		Stops            int64
	}
	var seen struct {
		Clients []struct {
			Name, State string
			Counted     bool
			Why         []string
		}
	}
	if err := l.Call(http.MethodGet, "/clock", nil, &clock); err != nil {
		return "", err
	}
	if err := l.Call(http.MethodGet, "/clients", nil, &seen); err != nil {
		return "", err
	}
	lines := []string{fmt.Sprintf("clock %s at %s, %s from real time, %d stops", clock.Mode, clock.Time, clock.Skew, clock.Stops)}
	for _, client := range seen.Clients {
		if !client.Counted {
			continue
		}
		line := fmt.Sprintf("client %s: %s", client.Name, client.State)
		if len(client.Why) > 0 {
			line += ": " + strings.Join(client.Why, "; ")
		}
		lines = append(lines, line)
	}
	return strings.Join(append(lines, l.perturbed()...), "\n"), nil
}

// perturbed has the faults that hit, and the plans. An older server has neither.
func (l *Lab) perturbed() []string {
	var lines []string
	var counts struct{ Rules []FaultCount }
	if l.Call(http.MethodGet, "/faults/counts", nil, &counts) == nil {
		for _, rule := range counts.Rules {
			if rule.Hits > 0 {
				lines = append(lines, fmt.Sprintf("fault %s: %d hits", rule.Name, rule.Hits))
			}
		}
	}
	var running struct {
		Plans []struct {
			ID, State string
			Actions   []struct {
				Action struct{ Action string }
				State  string
			}
		}
	}
	if l.Call(http.MethodGet, "/plans", nil, &running) == nil {
		for _, plan := range running.Plans {
			var states []string
			for _, action := range plan.Actions {
				states = append(states, action.Action.Action+" "+action.State)
			}
			lines = append(lines, fmt.Sprintf("plan %s: %s: %s", plan.ID, plan.State, strings.Join(states, ", ")))
		}
	}
	return lines
}

// report tells the log of a test that failed what the lab knows, and keeps what shows the failure again.
func (l *Lab) report(t testing.TB) {
	if !t.Failed() {
		return
	}
	// After what the lab says and keeps, whose request log this one would be in.
	defer reportFailure(t, l.Kubeconfig, t.Name()+"-"+l.ID)
	text, err := l.Report()
	if err != nil {
		t.Logf("the lab of cluster %s cannot be asked: %v", l.ID, err)
		return
	}
	t.Logf("the lab of cluster %s:\n%s", l.ID, text)
	if l.keep == "" {
		return
	}
	snapshot, log, err := l.keepFiles(t.Name() + "-" + l.ID)
	if err != nil {
		t.Logf("nothing is kept: %v", err)
		return
	}
	t.Logf("kept %s: the state of the cluster, from which LabOptions.Image and --lab-image start\nkept %s: its request log", snapshot, log)
}

var notInNames = regexp.MustCompile(`[^A-Za-z0-9_.-]+`)

// keepFiles writes a snapshot file and the request log into the folder.
func (l *Lab) keepFiles(name string) (snapshot, log string, err error) {
	if err := os.MkdirAll(l.keep, 0o755); err != nil {
		return "", "", err
	}
	stem := filepath.Join(l.keep, notInNames.ReplaceAllString(name, "-"))
	snapshot, log = stem+".snapshot", stem+".requests.json"
	image, err := l.image("")
	if err != nil {
		return "", "", err
	}
	err = image.save(snapshot)
	if deleted := l.Call(http.MethodDelete, "/images/"+image.Name, nil, nil); err == nil {
		err = deleted
	}
	if err != nil {
		return "", "", err
	}
	var requests struct{ Requests json.RawMessage }
	if err := l.Call(http.MethodGet, "/requests", nil, &requests); err != nil {
		return "", "", err
	}
	return snapshot, log, os.WriteFile(log, requests.Requests, 0o644)
}
