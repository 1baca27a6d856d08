package kstoretest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// How long a cluster may take to become ready, and its server to end by itself before it is killed.
const (
	startTimeout = 60 * time.Second
	endTimeout   = 10 * time.Second
	// The server's states are read for 20 seconds at most.
	reportTimeout = 40 * time.Second
)

// guard is what the server runs: it reads a pipe from here, and so ends when this process is gone, however that came about. $0 is the
// cluster's folder.
const guard = `echo ready; read -r _; rm -rf -- "$0"`

// Options of a cluster; the zero value is a whole one.
type Options struct {
	// KubernetesVersion is the version of Kubernetes whose API is served, such as "1.34"; if empty, that of the variable
	// KSTORE_KUBERNETES_VERSION, else the program's default.
	KubernetesVersion string
	// Nodes is the number of simulated nodes; three if 0, none if negative.
	Nodes int
	// Components that run, of apiserver, controllers, scheduler and kubelet-sim; all if empty.
	Components []string
	// Flags are further ones of `kstore-server run`.
	Flags []string
}

// Cluster is a running cluster, in memory, in a process of its own.
type Cluster struct {
	// Kubeconfig is the path of the administrator's kubeconfig.
	Kubeconfig string
	// URL of the API: https://127.0.0.1:PORT.
	URL string

	dir    string
	server *exec.Cmd
	input  io.WriteCloser
	stop   sync.Once
}

// Start starts a cluster for a test, which fails at once if that is not possible, and ends it when the test and its subtests are done. Any
// number of clusters may run at once. A cluster whose test binary dies ends by itself. A test that fails leaves a report of its cluster in
// .kstore-reports, or in the folder that the variable KSTORE_REPORTS names; none if it is "off".
func Start(t testing.TB, options Options) *Cluster {
	t.Helper()
	cluster, err := StartCluster(options)
	if err != nil {
		t.Fatalf("kstoretest: %v", err)
	}
	t.Cleanup(func() {
		reportFailure(t, cluster.Kubeconfig, t.Name())
		if log := cluster.Log(); t.Failed() && log != "" {
			t.Logf("log of kstore-server:\n%s", log)
		}
		cluster.Stop()
	})
	return cluster
}

// StartCluster is Start where there is no test, as in TestMain or a suite's set-up. The caller calls Stop.
//
// On return the API serves. The error has the server's log.
func StartCluster(options Options) (*Cluster, error) {
	path, err := FindServer()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "kstore-")
	if err != nil {
		return nil, err
	}
	cluster := &Cluster{dir: dir, Kubeconfig: filepath.Join(dir, "kubeconfig")}
	cluster.server = exec.Command(path, options.arguments(dir, cluster.Kubeconfig)...)
	if err := cluster.start(); err != nil {
		log := cluster.Log()
		cluster.Stop()
		return nil, fmt.Errorf("%w\n%s", err, log)
	}
	return cluster, nil
}

func (o Options) arguments(dir, kubeconfig string) []string {
	nodes := o.Nodes
	if nodes == 0 {
		nodes = 3
	}
	arguments := []string{"run", "--write-kubeconfig", kubeconfig, "--nodes", strconv.Itoa(max(nodes, 0))}
	if len(o.Components) > 0 {
		arguments = append(arguments, "--components", strings.Join(o.Components, ","))
	}
	if o.KubernetesVersion != "" {
		arguments = append(arguments, "--kubernetes-version", o.KubernetesVersion)
	}
	arguments = append(arguments, o.Flags...)
	return append(arguments, "--", "sh", "-c", guard, dir)
}

func (c *Cluster) start() error {
	log, err := os.Create(c.logFile())
	if err != nil {
		return err
	}
	defer log.Close()
	c.server.Stderr = log
	output, err := c.server.StdoutPipe()
	if err != nil {
		return err
	}
	if c.input, err = c.server.StdinPipe(); err != nil {
		return err
	}
	if err := c.server.Start(); err != nil {
		return err
	}
	ready := make(chan error, 1)
	go func() {
		_, err := bufio.NewReader(output).ReadString('\n')
		ready <- err
	}()
	select {
	case err := <-ready:
		if err != nil {
			return fmt.Errorf("kstore-server ended at its start")
		}
	case <-time.After(startTimeout):
		return fmt.Errorf("kstore-server was not ready after %v", startTimeout)
	}
	return c.readURL()
}

// readURL finds the address in the server's own kubeconfig, which has one line for it.
func (c *Cluster) readURL() error {
	text, err := os.ReadFile(c.Kubeconfig)
	if err != nil {
		return err
	}
	for _, line := range strings.Split(string(text), "\n") {
		if url, found := strings.CutPrefix(strings.TrimSpace(line), "server: "); found {
			c.URL = strings.Trim(url, `"`)
			return nil
		}
	}
	return fmt.Errorf("%s has no server", c.Kubeconfig)
}

// Stop ends the server and removes its files; on return both are gone. Does nothing the second time.
func (c *Cluster) Stop() {
	c.stop.Do(func() {
		if c.input != nil {
			c.input.Close()
		}
		if c.server.Process != nil {
			kill := time.AfterFunc(endTimeout, func() { c.server.Process.Kill() })
			c.server.Wait()
			kill.Stop()
		}
		os.RemoveAll(c.dir)
	})
}

// Report saves the history of the cluster as one HTML file, which a browser opens without it: each write with its author and its cause, and
// the objects at each revision. Values of Secrets are hidden.
func (c *Cluster) Report(file string) error {
	return saveReport(c.Kubeconfig, file)
}

// saveReport saves a report with further flags of the command report.
func saveReport(kubeconfig, file string, flags ...string) error {
	path, err := FindServer()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), reportTimeout)
	defer cancel()
	output, err := exec.CommandContext(ctx, path, append([]string{"report", file, "--kubeconfig", kubeconfig}, flags...)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("no report: %w: %s", err, strings.TrimSpace(string(output)))
	}
	return nil
}

// reportFailure saves the report of a test that failed in the folder that KSTORE_REPORTS names, else in .kstore-reports; none with "off".
func reportFailure(t testing.TB, kubeconfig, name string) {
	folder := os.Getenv("KSTORE_REPORTS")
	if folder == "" {
		folder = ".kstore-reports"
	}
	if !t.Failed() || folder == "off" {
		return
	}
	file, err := filepath.Abs(filepath.Join(folder, notInNames.ReplaceAllString(name, "-")+".html"))
	if err == nil {
		err = saveReport(kubeconfig, file, "--title", name)
	}
	if err != nil {
		t.Logf("%v", err)
		return
	}
	t.Logf("the report of the cluster, for a browser: %s", file)
}

// Log returns what the server has logged: warnings, unless RUST_LOG asks for more.
func (c *Cluster) Log() string {
	text, _ := os.ReadFile(c.logFile())
	return string(text)
}

// Env is the environment of this process with KUBECONFIG, for programs that a test runs.
func (c *Cluster) Env() []string {
	return append(os.Environ(), "KUBECONFIG="+c.Kubeconfig)
}

func (c *Cluster) logFile() string { return filepath.Join(c.dir, "server.log") }
