package kstoretest

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// helperVariable makes the test binary the process that TestADeadProcessLeavesNoServer kills.
const helperVariable = "KSTORETEST_HELPER"

func TestMain(m *testing.M) {
	if os.Getenv(helperVariable) != "" {
		cluster, err := StartCluster(Options{})
		if err != nil {
			panic(err)
		}
		fmt.Println(cluster.server.Process.Pid, cluster.dir)
		select {}
	}
	os.Exit(m.Run())
}

func TestAClusterServesWithItsKubeconfig(t *testing.T) {
	cluster := Start(t, Options{Nodes: 2})
	// They register after the start.
	for end := time.Now().Add(3 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		var nodes struct {
			Items []json.RawMessage
		}
		if err := json.Unmarshal(get(t, cluster, "/api/v1/nodes"), &nodes); err != nil {
			t.Fatal(err)
		}
		if len(nodes.Items) == 2 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%d nodes", len(nodes.Items))
		}
	}
	if !strings.HasPrefix(cluster.URL, "https://127.0.0.1:") {
		t.Errorf("URL is %s", cluster.URL)
	}
}

func TestAFailedTestLeavesAReportOfItsCluster(t *testing.T) {
	if os.Getenv(failVariable) != "" {
		Start(t, Options{Components: []string{"apiserver"}})
		t.Fatal("on purpose")
	}
	folder := filepath.Join(t.TempDir(), "reports")
	command := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$")
	command.Env = append(os.Environ(), failVariable+"=1", "KSTORE_REPORTS="+folder)
	output, err := command.CombinedOutput()
	file := filepath.Join(folder, t.Name()+".html")
	if err == nil || !strings.Contains(string(output), file) {
		t.Errorf("the log has no report, or the test passed (%v):\n%s", err, output)
	}
	if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), "kstore-report") {
		t.Errorf("%v", err)
	}
}

func TestNegativeNodesAndComponentsLeaveTheApiserverAlone(t *testing.T) {
	cluster := Start(t, Options{Nodes: -1, Components: []string{"apiserver"}})
	if body := string(get(t, cluster, "/api/v1/nodes")); !strings.Contains(body, `"items":[]`) {
		t.Error(body)
	}
}

func TestStopEndsOneServerAndItsFilesAndNoOther(t *testing.T) {
	stays, goes := Start(t, Options{}), Start(t, Options{})
	goes.Stop()
	goes.Stop()
	if goes.server.ProcessState == nil {
		t.Error("the server runs on")
	}
	if _, err := os.Stat(goes.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder is still there: %v", err)
	}
	get(t, stays, "/readyz")
}

func TestParallelClustersDoNotCollide(t *testing.T) {
	const count = 6
	var urls sync.Map
	t.Run("clusters", func(t *testing.T) {
		for i := 0; i < count; i++ {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				cluster := Start(t, Options{Nodes: -1})
				if _, taken := urls.LoadOrStore(cluster.URL, true); taken {
					t.Errorf("%s twice", cluster.URL)
				}
				get(t, cluster, "/readyz")
			})
		}
	})
}

func TestADeadProcessLeavesNoServer(t *testing.T) {
	helper := exec.Command(os.Args[0])
	helper.Env = append(os.Environ(), helperVariable+"=1")
	output, err := helper.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := helper.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	var dir string
	line, _ := bufio.NewReader(output).ReadString('\n')
	if _, err := fmt.Sscan(line, &pid, &dir); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	helper.Process.Kill()
	helper.Wait()
	// tail ends when the process does.
	if output, err := exec.Command("timeout", "180", "tail", fmt.Sprintf("--pid=%d", pid), "-f", "/dev/null").CombinedOutput(); err != nil {
		t.Errorf("the server %d runs on: %v %s", pid, err, output)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is still there: %v", dir, err)
	}
}

func TestAStartThatFailsHasTheLog(t *testing.T) {
	_, err := StartCluster(Options{Flags: []string{"--no-such-flag"}})
	if err == nil || !strings.Contains(err.Error(), "--no-such-flag") {
		t.Error(err)
	}
}

func TestAssetsAreWhatEnvtestProbesAndStarts(t *testing.T) {
	t.Setenv(AssetsVariable, "/elsewhere")
	t.Setenv("KSTORE_NODES", "7")
	restore, err := SetAssets(Extras{Controllers: "all", Scheduler: true, Nodes: 2})
	if err != nil {
		t.Fatal(err)
	}
	dir := os.Getenv(AssetsVariable)
	for name, flag := range map[string]string{"kube-apiserver": "--etcd-servers", "etcd": "--unsafe-no-fsync"} {
		help, err := exec.Command(filepath.Join(dir, name), "--help").CombinedOutput()
		if err != nil || !strings.Contains(string(help), flag) {
			t.Errorf("%s --help: %v\n%s", name, err, help)
		}
	}
	for name, value := range map[string]string{"KSTORE_CONTROLLERS": "all", "KSTORE_SCHEDULER": "1", "KSTORE_NODES": "2"} {
		if os.Getenv(name) != value {
			t.Errorf("%s is %q", name, os.Getenv(name))
		}
	}
	restore()
	if os.Getenv(AssetsVariable) != "/elsewhere" || os.Getenv("KSTORE_NODES") != "7" {
		t.Error("the variables are not as before")
	}
	if _, set := os.LookupEnv("KSTORE_SCHEDULER"); set {
		t.Error("KSTORE_SCHEDULER stays set")
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is still there", dir)
	}
}

func TestAMissingServerSaysWhatToDo(t *testing.T) {
	t.Setenv(ServerVariable, "/nowhere/kstore-server")
	if _, err := FindServer(); err == nil || !strings.Contains(err.Error(), ServerVariable) {
		t.Error(err)
	}
	t.Setenv(ServerVariable, "")
	t.Setenv("PATH", t.TempDir())
	if _, err := FindServer(); !errors.Is(err, ErrNoServer) {
		t.Error(err)
	}
}

// get is a client of the kubeconfig's certificates.
func get(t *testing.T, cluster *Cluster, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(cluster.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	data := func(name string) []byte {
		_, after, _ := strings.Cut(string(text), name+": ")
		value, _, _ := strings.Cut(after, "\n")
		decoded, err := base64.StdEncoding.DecodeString(strings.Trim(value, `" `))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return decoded
	}
	pair, err := tls.X509KeyPair(data("client-certificate-data"), data("client-key-data"))
	if err != nil {
		t.Fatal(err)
	}
	authorities := x509.NewCertPool()
	authorities.AppendCertsFromPEM(data("certificate-authority-data"))
	config := &tls.Config{RootCAs: authorities, Certificates: []tls.Certificate{pair}}
	client := http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
	answer, err := client.Get(cluster.URL + path)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s %v\n%s", path, answer.Status, err, body)
	}
	return body
}
