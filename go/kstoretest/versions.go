package kstoretest

import (
	"os"
	"strings"
	"testing"
)

// VersionsVariable names the versions of Kubernetes of [EachVersion], separated by commas, such as 1.33,1.36.
const VersionsVariable = "KSTORE_KUBERNETES_VERSIONS"

// servedVersions are the versions of Kubernetes that kstore-server has, oldest first.
const servedVersions = "1.33,1.34,1.35,1.36,1.37"

// WithKubernetesVersion returns the options of a whole cluster of a version of Kubernetes, such as "1.34".
func WithKubernetesVersion(version string) Options {
	return Options{KubernetesVersion: version}
}

// EachVersion runs a function as a subtest for each version of Kubernetes, by the version's name: those of the variable
// KSTORE_KUBERNETES_VERSIONS, or all that kstore has. While the function runs, the variable KSTORE_KUBERNETES_VERSION names the version: for
// [Start], [StartLab] and the programs of [SetAssets]. So the subtests do not run in parallel.
func EachVersion(t *testing.T, run func(t *testing.T, version string)) {
	t.Helper()
	versions := os.Getenv(VersionsVariable)
	if versions == "" {
		versions = servedVersions
	}
	for _, version := range strings.FieldsFunc(versions, func(r rune) bool { return r == ',' || r == ' ' }) {
		t.Run(version, func(t *testing.T) {
			t.Setenv("KSTORE_KUBERNETES_VERSION", version)
			run(t, version)
		})
	}
}
