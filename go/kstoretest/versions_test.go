package kstoretest

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// versionOf asks a cluster for its version.
func versionOf(t *testing.T, cluster *Cluster) string {
	t.Helper()
	var version struct{ Major, Minor string }
	if err := json.Unmarshal(get(t, cluster, "/version"), &version); err != nil {
		t.Fatal(err)
	}
	return version.Major + "." + version.Minor
}

func TestAClusterHasTheVersionOfItsOptions(t *testing.T) {
	options := WithKubernetesVersion("1.34.2")
	options.Components = []string{"apiserver"}
	if version := versionOf(t, Start(t, options)); version != "1.34" {
		t.Errorf("version is %s", version)
	}
	_, err := StartCluster(WithKubernetesVersion("1.12"))
	if err == nil || !strings.Contains(err.Error(), "Kubernetes 1.12 is not served") {
		t.Errorf("error is %v", err)
	}
}

func TestALabHasTheVersionOfItsOptions(t *testing.T) {
	options := LabOptions{KubernetesVersion: "1.35", Nodes: -1}.cluster()
	if options.KubernetesVersion != "1.35" {
		t.Errorf("options are %+v", options)
	}
}

func TestEachVersionRunsOnceWithAClusterOfIt(t *testing.T) {
	var seen []string
	each := func(t *testing.T, version string) {
		if got := versionOf(t, Start(t, Options{Components: []string{"apiserver"}})); got != version {
			t.Errorf("version is %s, not %s", got, version)
		}
		seen = append(seen, version)
	}
	EachVersion(t, each)
	if !slices.Equal(seen, strings.Split(servedVersions, ",")) {
		t.Errorf("seen are %v", seen)
	}
	seen = nil
	t.Setenv(VersionsVariable, "1.36, 1.33")
	EachVersion(t, each)
	if !slices.Equal(seen, []string{"1.36", "1.33"}) {
		t.Errorf("seen are %v", seen)
	}
}
