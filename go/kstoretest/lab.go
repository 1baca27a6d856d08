package kstoretest

import (
	"bytes"
	"context"
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

// KeepVariable names the folder in which failed tests keep what shows the failure again, instead of LabOptions.Keep.
const KeepVariable = "KSTORE_KEEP"

// agent is the user agent of this package's requests.
const agent = "kstore-go"

// defaultPatience is that of the server.
const defaultPatience = 10 * time.Second

// labPath is where the lab answers, on the port of each cluster.
const labPath = "/kstore/lab/v1"

// LabOptions are those of a lab; the zero value is a whole cluster with one node, whose clock stands.
type LabOptions struct {
	// KubernetesVersion is the version of Kubernetes, as in [Options].
	KubernetesVersion string
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
	// Image is a snapshot file from which the cluster starts, such as that of a failed test.
	Image string
	// Patience is the real time for which calls wait for clients that are busy: ten seconds if 0, more for a busy machine. Forks have it, too.
	Patience time.Duration
	// Keep is a folder for a snapshot file and the request log of each failed test; the variable KSTORE_KEEP names another one.
	Keep string
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
	if o.Image != "" {
		flags = append(flags, "--lab-image", o.Image)
	}
	for _, path := range o.CRDs {
		flags = append(flags, "--crd", path)
	}
	for _, path := range o.Manifests {
		flags = append(flags, "--manifest", path)
	}
	return Options{
		KubernetesVersion: o.KubernetesVersion,
		Nodes:             nodes,
		Components:        o.Components,
		Flags:             append(flags, o.Flags...),
	}
}

// Lab is a cluster whose clock the test moves. Forks are labs, too.
type Lab struct {
	// Kubeconfig is the path of the administrator's kubeconfig.
	Kubeconfig string
	// URL of the API: https://127.0.0.1:PORT.
	URL string
	// ID of the cluster in the lab.
	ID string

	cluster  *Cluster
	first    *Lab
	client   *http.Client
	patience time.Duration
	keep     string
	end      sync.Once
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
	lab.patience, lab.keep = options.Patience, options.Keep
	if named := os.Getenv(KeepVariable); named != "" {
		lab.keep = named
	}
	if lab.patience == 0 {
		lab.patience = defaultPatience
	}
	if err := lab.introduce(); err != nil {
		cluster.Stop()
		return nil, err
	}
	return lab, nil
}

// introduce says that what a test applies is no work that time has to wait for: its calls are answered before they return.
func (l *Lab) introduce() error {
	body := map[string]any{"match": map[string]string{"agent": agent}, "counted": false}
	return l.Call(http.MethodPut, "/clients/"+agent, body, nil)
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
	return l.CallContext(context.Background(), method, path, body, answer)
}

// CallContext is Call, which the context ends.
func (l *Lab) CallContext(ctx context.Context, method, path string, body, answer any) error {
	var content []byte
	if body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			return err
		}
		content = encoded
	}
	text, err := l.send(ctx, method, labPath+path, "application/json", content)
	if err != nil || answer == nil {
		return err
	}
	return json.Unmarshal(text, answer)
}

// send makes a request of the API or of the lab: the text of the answer.
func (l *Lab) send(ctx context.Context, method, path, contentType string, content []byte) ([]byte, error) {
	response, err := l.open(ctx, method, path, contentType, content)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	return io.ReadAll(response.Body)
}

// open is send where the caller reads the body.
func (l *Lab) open(ctx context.Context, method, path, contentType string, content []byte) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, l.URL+path, bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", contentType)
	request.Header.Set("User-Agent", agent)
	if method == http.MethodPost {
		// A repeated call happens once.
		key := make([]byte, 16)
		if _, err := rand.Read(key); err != nil {
			return nil, err
		}
		request.Header.Set("Idempotency-Key", hex.EncodeToString(key))
	}
	response, err := l.client.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode >= 400 {
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		if err != nil {
			return nil, err
		}
		return nil, refusal(response.StatusCode, text)
	}
	return response, nil
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
// if a client is not quiet within LabOptions.Patience; AdvanceFor says otherwise.
func (l *Lab) Advance(t testing.TB, by time.Duration) Advanced {
	t.Helper()
	return l.AdvanceFor(t, by, l.patience)
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

// Leap is one jump forward, as of a machine that was suspended: what was due meanwhile fires late.
func (l *Lab) Leap(t testing.TB, by time.Duration) {
	t.Helper()
	l.must(t, http.MethodPost, "/clock/leap", map[string]string{"by": by.String()}, nil)
}

// SetClock changes how time passes, to a clock as LabOptions.Clock has it.
func (l *Lab) SetClock(t testing.TB, clock string) {
	t.Helper()
	l.must(t, http.MethodPut, "/clock", clockOf(clock), nil)
}

// Settled waits until controllers, scheduler and nodes have nothing to do and all clients are quiet. A manual clock passes meanwhile. The
// test fails with what is busy if that takes too long.
func (l *Lab) Settled(t testing.TB) {
	t.Helper()
	l.must(t, http.MethodPost, "/settled", map[string]string{"patience": l.patience.String()}, nil)
}

// Quiet waits until all clients are quiet; no time passes. The test fails with those that are busy if that takes too long.
func (l *Lab) Quiet(t testing.TB) {
	t.Helper()
	l.must(t, http.MethodPost, "/quiet", map[string]string{"patience": l.patience.String()}, nil)
}

// Now is the time of the cluster.
func (l *Lab) Now(t testing.TB) time.Time {
	t.Helper()
	var clock struct{ Time time.Time }
	l.must(t, http.MethodGet, "/clock", nil, &clock)
	return clock.Time
}

// ForkOptions are those of a fork; with the zero value it is as its origin.
type ForkOptions struct {
	// Name of the fork; one that the lab chooses if empty.
	Name string
	// Clock as LabOptions.Clock has it.
	Clock string
	// Seed of all random values of the fork's own components.
	Seed uint64
	// Components that run.
	Components []string
}

func (o ForkOptions) body(from, name string) map[string]any {
	body := map[string]any{"from": map[string]string{from: name}}
	if o.Name != "" {
		body["name"] = o.Name
	}
	if o.Clock != "" {
		body["clock"] = clockOf(o.Clock)
	}
	if o.Seed != 0 {
		body["seed"] = o.Seed
	}
	if len(o.Components) > 0 {
		body["components"] = o.Components
	}
	return body
}

// clockOf is a clock as options have it, as the body of a call.
func clockOf(clock string) map[string]any {
	if number, found := strings.CutSuffix(clock, "x"); found {
		if factor, err := strconv.ParseFloat(number, 64); err == nil {
			return map[string]any{"mode": "scaled", "factor": factor}
		}
	}
	return map[string]any{"mode": clock}
}

// Fork is a branch: the same objects up to now, then a future and a clock of its own. It ends with the test.
func (l *Lab) Fork(t testing.TB) *Lab {
	t.Helper()
	return l.ForkWith(t, ForkOptions{})
}

// ForkWith is Fork with a clock, seed or components of its own.
func (l *Lab) ForkWith(t testing.TB, options ForkOptions) *Lab {
	t.Helper()
	return l.fork(t, options.body("cluster", l.ID))
}

// Forks are several from one moment, for example to try another fault in each.
func (l *Lab) Forks(t testing.TB, count int) []*Lab {
	t.Helper()
	image := l.Image(t, "")
	defer image.Delete(t)
	var forks []*Lab
	for range count {
		forks = append(forks, image.Fork(t))
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
	if err == nil {
		fork.first, fork.patience, fork.keep = l, l.patience, l.keep
		if l.first != nil {
			fork.first = l.first
		}
		err = fork.introduce()
	}
	if err != nil {
		t.Fatalf("kstoretest: %v", err)
	}
	t.Cleanup(func() {
		fork.report(t)
		fork.Stop()
	})
	return fork
}

// Reset goes back to the image that this fork came from, on the same port. All its connections end.
func (l *Lab) Reset(t testing.TB) {
	t.Helper()
	root := l
	if l.first != nil {
		root = l.first
	}
	root.must(t, http.MethodPost, "/clusters/"+l.ID+"/reset", struct{}{}, nil)
	l.client.CloseIdleConnections()
	if err := l.introduce(); err != nil {
		t.Fatalf("kstoretest: %v", err)
	}
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
