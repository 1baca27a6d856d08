package kstoretest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

// AssetsVariable is where envtest looks for its programs.
const AssetsVariable = "KUBEBUILDER_ASSETS"

// Extras are the parts of a cluster that run inside kube-apiserver. envtest's own control plane has none of them, and so has the zero value.
type Extras struct {
	// Controllers that run, by Kubernetes' names with commas between them, such as "namespace,garbagecollector"; "all" for all.
	Controllers string
	// Scheduler binds pods to nodes.
	Scheduler bool
	// Nodes is the number of simulated nodes, on which pods become ready.
	Nodes int
}

// SetAssets makes the assets (see [MakeAssets]) in a new temporary folder, sets KUBEBUILDER_ASSETS to it and the variables of the extras
// for the programs in it, and returns a function that removes the folder and restores the variables.
//
// Call it before envtest's Start, once for a test binary: environment variables belong to the whole process.
func SetAssets(extras Extras) (restore func(), err error) {
	dir, err := os.MkdirTemp("", "kstore-assets-")
	if err != nil {
		return nil, err
	}
	if err := MakeAssets(dir); err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	undo := []func(){func() { os.RemoveAll(dir) }}
	for name, value := range extras.variables(dir) {
		before, had := os.LookupEnv(name)
		undo = append(undo, func() {
			if had {
				os.Setenv(name, before)
			} else {
				os.Unsetenv(name)
			}
		})
		if value == "" {
			err = os.Unsetenv(name)
		} else {
			err = os.Setenv(name, value)
		}
		if err != nil {
			break
		}
	}
	restore = func() {
		for _, step := range undo {
			step()
		}
	}
	if err != nil {
		restore()
		return nil, err
	}
	return restore, nil
}

// MakeAssets puts the programs into dir, which is made if it is not there: kube-apiserver, etcd and the other programs as links to kstore-server, and kubectl
// if one is on PATH. For envtest.Environment's BinaryAssetsDirectory.
func MakeAssets(dir string) error {
	server, err := FindServer()
	if err != nil {
		return err
	}
	if output, err := exec.Command(server, "assets", dir).CombinedOutput(); err != nil {
		return fmt.Errorf("%s assets %s: %w\n%s", server, dir, err, output)
	}
	for _, name := range []string{"kube-apiserver", "etcd"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("%s made no %s: %w", server, name, err)
		}
	}
	return nil
}

// variables has every variable that SetAssets is about; those that are to be unset have no value.
func (e Extras) variables(dir string) map[string]string {
	set := map[string]string{AssetsVariable: dir, "KSTORE_CONTROLLERS": e.Controllers, "KSTORE_SCHEDULER": "", "KSTORE_NODES": ""}
	if e.Scheduler {
		set["KSTORE_SCHEDULER"] = "1"
	}
	if e.Nodes > 0 {
		set["KSTORE_NODES"] = strconv.Itoa(e.Nodes)
	}
	return set
}
