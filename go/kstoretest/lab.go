package kstoretest

import (
	"bytes"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Clocks of a lab: how the time of a cluster passes.
const (
	// ManualClock stands unless a call lets time pass. It is the default.
	ManualClock = "manual"
	// AutoClock goes to the next deadline by itself whenever everything is quiet.
	AutoClock = "auto"
	// RealClock is the system's. Only forks may have another one then.
	RealClock = "real"
)

// labPath is where the lab answers, on the port of each cluster.
const labPath = "/kstore/lab/v1"

// LabOptions are those of a lab; the zero value is a whole cluster with one node, whose clock stands.
type LabOptions struct {
	// Nodes is the number of simulated nodes; one if 0, none if negative.
	Nodes int
	// Components that run, of apiserver, controllers, scheduler and kubelet-sim; all if empty.
	Components []string
	// CRDs and Manifests are files and folders of objects that exist from the beginning.
	CRDs, Manifests []string
	// Clock is ManualClock, AutoClock, RealClock, or a factor such as "60x".
	Clock string
	// Start is the time at which a clock begins; the zero value is now.
	Start time.Time
	// Seed is that of all random values of the cluster's own components; a random one if 0.
	Seed uint64
	// Flags are further ones of `kstore-server run`.
	Flags []string
}

func (o LabOptions) cluster() Options {
	nodes := o.Nodes
	if nodes == 0 {
		nodes = 1
	}
	clock := o.Clock
	if clock == "" {
		clock = ManualClock
	}
	flags := []string{"--lab", "--lab-clock", clock}
	if !o.Start.IsZero() {
		flags = append(flags, "--lab-start", o.Start.UTC().Format(time.RFC3339))
	}
	if o.Seed != 0 {
		flags = append(flags, "--lab-seed", strconv.FormatUint(o.Seed, 10))
	}
	for _, path := range o.CRDs {
		flags = append(flags, "--crd", path)
	}
	for _, path := range o.Manifests {
		flags = append(flags, "--manifest", path)
	}
	return Options{Nodes: nodes, Components: o.Components, Flags: append(flags, o.Flags...)}
}

// Lab is a cluster whose clock the test moves. Forks are labs, too.
type Lab struct {
	// Kubeconfig is the path of the administrator's kubeconfig.
	Kubeconfig string
	// URL of the API: https://127.0.0.1:PORT.
	URL string
	// ID of the cluster in the lab.
	ID string

	cluster *Cluster
	first   *Lab
	client  *http.Client
	end     sync.Once
}

// LabError is a refusal of the lab.
type LabError struct {
	// Code is the HTTP status: 504 if a limit ran out.
	Code int
	// Message says what is wrong.
	Message string
	// Busy has a line for each thing that is busy, if a limit ran out.
	Busy []string
}

func (e *LabError) Error() string { return e.Message }

// Advanced is what happened while time passed.
type Advanced struct {
	From, Time time.Time
	// Stops is the number of times to which the clock moved, Barriers how often it waited for clients.
	Stops, Barriers int
	// Ended is there, or busy: a client was not quiet within the patience.
	Ended string
	Busy  []struct{ Part, What, Client string }
	// Revision of the newest write.
	Revision int64
}

// Request is a row of the request log.
type Request struct {
	N                                                           int64
	Time                                                        time.Time
	Client, User, Agent, Verb, Resource, Subresource, Namespace string
	Name                                                        string
	Code                                                        int
	Revision                                                    int64
}

// StartLab starts a cluster with a lab for a test, which fails at once if that is not possible, and ends it with its forks when the test
// and its subtests are done. If the test fails, its log has the clock and the clients that are not quiet.
func StartLab(t testing.TB, options LabOptions) *Lab {
	t.Helper()
	lab, err := StartLabProcess(options)
	if err != nil {
		t.Fatalf("kstoretest: %v", err)
	}
	t.Cleanup(func() {
		lab.report(t)
		if log := lab.cluster.Log(); t.Failed() && log != "" {
			t.Logf("log of kstore-server:\n%s", log)
		}
		lab.Stop()
	})
	return lab
}

// StartLabProcess is StartLab where there is no test, as in TestMain: its tests fork it. The caller calls Stop.
func StartLabProcess(options LabOptions) (*Lab, error) {
	cluster, err := StartCluster(options.cluster())
	if err != nil {
		return nil, err
	}
	lab, err := labOf(cluster, cluster.Kubeconfig, "main")
	if err != nil {
		cluster.Stop()
		return nil, err
	}
	return lab, nil
}

func labOf(cluster *Cluster, kubeconfig, id string) (*Lab, error) {
	text, err := os.ReadFile(kubeconfig)
	if err != nil {
		return nil, err
	}
	config, err := readTLS(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", kubeconfig, err)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: config}}
	return &Lab{Kubeconfig: kubeconfig, URL: field(string(text), "server"), ID: id, cluster: cluster, client: client}, nil
}

// readTLS reads the authority and the client certificate of a kubeconfig that kstore wrote, which has one line for each.
func readTLS(kubeconfig string) (*tls.Config, error) {
	var data [3][]byte
	for i, name := range []string{"certificate-authority-data", "client-certificate-data", "client-key-data"} {
		decoded, err := base64.StdEncoding.DecodeString(field(kubeconfig, name))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		data[i] = decoded
	}
	pair, err := tls.X509KeyPair(data[1], data[2])
	if err != nil {
		return nil, err
	}
	authorities := x509.NewCertPool()
	authorities.AppendCertsFromPEM(data[0])
	return &tls.Config{RootCAs: authorities, Certificates: []tls.Certificate{pair}}, nil
}

func field(kubeconfig, name string) string {
	for _, line := range strings.Split(kubeconfig, "\n") {
		if value, found := strings.CutPrefix(strings.TrimSpace(line), name+": "); found {
			return strings.Trim(value, `"`)
		}
	}
	return ""
}

// Call makes a call of the lab's API. path is that below /kstore/lab/v1; body and answer are encoded as JSON unless they are nil.
// A refusal is a *LabError.
func (l *Lab) Call(method, path string, body, answer any) error {
	var content io.Reader
	if body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			return err
		}
		content = bytes.NewReader(encoded)
	}
	request, err := http.NewRequest(method, l.URL+labPath+path, content)
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	if method == http.MethodPost {
		// A repeated call happens once.
		key := make([]byte, 16)
		if _, err := rand.Read(key); err != nil {
			return err
		}
		request.Header.Set("Idempotency-Key", hex.EncodeToString(key))
	}
	response, err := l.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode >= 400 {
		return refusal(response.StatusCode, text)
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(text, answer)
}

func refusal(code int, text []byte) error {
	var status struct {
		Message string
		Details struct{ Causes []struct{ Message string } }
	}
	if err := json.Unmarshal(text, &status); err != nil {
		status.Message = string(text)
	}
	refused := &LabError{Code: code, Message: status.Message}
	for _, cause := range status.Details.Causes {
		refused.Busy = append(refused.Busy, cause.Message)
	}
	return refused
}

func (l *Lab) must(t testing.TB, method, path string, body, answer any) {
	t.Helper()
	if err := l.Call(method, path, body, answer); err != nil {
		t.Fatalf("kstoretest: %s %s: %v", method, path, err)
	}
}

// Advance lets time pass, stop by stop: each timer of the cluster fires at its time, and clients react before time goes on. The test fails
// if a client is not quiet within ten seconds of real time; AdvanceFor says otherwise.
func (l *Lab) Advance(t testing.TB, by time.Duration) Advanced {
	t.Helper()
	return l.AdvanceFor(t, by, 10*time.Second)
}

// AdvanceFor is Advance with the real time for which clients may be busy.
func (l *Lab) AdvanceFor(t testing.TB, by, patience time.Duration) Advanced {
	t.Helper()
	var advanced Advanced
	l.must(t, http.MethodPost, "/clock/advance", map[string]string{"by": by.String(), "patience": patience.String()}, &advanced)
	if advanced.Ended == "busy" {
		t.Fatalf("kstoretest: the clock stands at %v, since not all clients are quiet: %+v", advanced.Time, advanced.Busy)
	}
	return advanced
}

// Settled waits until controllers, scheduler and nodes have nothing to do and all clients are quiet. A manual clock passes meanwhile. The
// test fails with what is busy if that takes too long.
func (l *Lab) Settled(t testing.TB) {
	t.Helper()
	l.must(t, http.MethodPost, "/settled", struct{}{}, nil)
}

// Now is the time of the cluster.
func (l *Lab) Now(t testing.TB) time.Time {
	t.Helper()
	var clock struct{ Time time.Time }
	l.must(t, http.MethodGet, "/clock", nil, &clock)
	return clock.Time
}

// Fork is a branch: the same objects up to now, then a future and a clock of its own. It ends with the test.
func (l *Lab) Fork(t testing.TB) *Lab {
	t.Helper()
	return l.fork(t, map[string]any{"from": map[string]string{"cluster": l.ID}})
}

// Forks are several from one moment, for example to try another fault in each.
func (l *Lab) Forks(t testing.TB, count int) []*Lab {
	t.Helper()
	image := fmt.Sprintf("forks-%d", time.Now().UnixNano())
	l.must(t, http.MethodPost, "/images", map[string]string{"name": image}, nil)
	defer l.must(t, http.MethodDelete, "/images/"+image, nil, nil)
	var forks []*Lab
	for range count {
		forks = append(forks, l.fork(t, map[string]any{"from": map[string]string{"image": image}}))
	}
	return forks
}

func (l *Lab) fork(t testing.TB, body map[string]any) *Lab {
	t.Helper()
	var answer struct{ ID, Kubeconfig string }
	l.must(t, http.MethodPost, "/clusters", body, &answer)
	kubeconfig := filepath.Join(l.cluster.dir, "kubeconfig-"+answer.ID)
	err := os.WriteFile(kubeconfig, []byte(answer.Kubeconfig), 0o600)
	var fork *Lab
	if err == nil {
		fork, err = labOf(l.cluster, kubeconfig, answer.ID)
	}
	if err != nil {
		t.Fatalf("kstoretest: %v", err)
	}
	fork.first = l
	if l.first != nil {
		fork.first = l.first
	}
	t.Cleanup(func() {
		fork.report(t)
		fork.Stop()
	})
	return fork
}

// Requests are those of the log that the query selects, such as "client=backup&verb=create".
func (l *Lab) Requests(t testing.TB, query string) []Request {
	t.Helper()
	if _, err := url.ParseQuery(query); err != nil {
		t.Fatalf("kstoretest: %q: %v", query, err)
	}
	var log struct{ Requests []Request }
	l.must(t, http.MethodGet, "/requests?"+query, nil, &log)
	return log.Requests
}

// Env is the environment of this process with KUBECONFIG, for programs that a test runs.
func (l *Lab) Env() []string {
	return append(os.Environ(), "KUBECONFIG="+l.Kubeconfig)
}

// Stop ends a fork, or the first cluster with its forks and the server. Does nothing the second time.
func (l *Lab) Stop() {
	l.end.Do(func() {
		l.client.CloseIdleConnections()
		if l.first == nil {
			l.cluster.Stop()
			return
		}
		// The server may have ended with its first cluster.
		var refused *LabError
		if err := l.first.Call(http.MethodDelete, "/clusters/"+l.ID, nil, nil); errors.As(err, &refused) {
			fmt.Fprintf(os.Stderr, "kstoretest: the fork %s does not end: %v\n", l.ID, err)
		}
	})
}

// report writes the clock, and the clients that are not quiet, into the log of a test that failed.
func (l *Lab) report(t testing.TB) {
	if !t.Failed() {
		return
	}
	var clock struct{ Mode, Time, Skew string }
	var seen struct {
		Clients []struct {
			Name, State string
			Counted     bool
			Why         []string
		}
	}
	if l.Call(http.MethodGet, "/clock", nil, &clock) != nil || l.Call(http.MethodGet, "/clients", nil, &seen) != nil {
		return
	}
	t.Logf("cluster %s: clock %s at %s, %s from real time", l.ID, clock.Mode, clock.Time, clock.Skew)
	for _, client := range seen.Clients {
		if client.Counted && client.State != "quiet" {
			t.Logf("cluster %s: client %s is %s: %s", l.ID, client.Name, client.State, strings.Join(client.Why, "; "))
		}
	}
}
