package kstoretest

import (
	"net/http"
	"net/url"
	"testing"
)

// Program is a program for which time waits. Made by [Lab.Program].
type Program struct {
	// Name of the program and of its client.
	Name string

	lab *Lab
}

// ProgramState is what the lab knows of a program.
type ProgramState struct {
	// State is running or ended.
	State string
	// Process is its process, or the last one, and Incarnation the number of times that it was started again.
	Process, Incarnation int
	// Code is the exit code, Signal the number of the signal that ended it.
	Code, Signal *int
	// Kubeconfig and Output are the paths of its kubeconfig and of the file with its output, Tail is the end of its output.
	Kubeconfig, Output, Tail string
}

// ProgramOptions are those of a program; the zero value has an administrator's rights.
type ProgramOptions struct {
	// Env has variables beside those of the server and KUBECONFIG.
	Env map[string]string
	// Folder in which it starts; that of the server if empty.
	Folder string
	// ServiceAccount, as NAMESPACE/NAME, has the rights of the program.
	ServiceAccount string
}

// Program starts a program as a child of the server, with KUBECONFIG set: a client called name, known by its process. It ends with the test,
// and with the server. If the test fails, its log has the end of the program's output.
func (l *Lab) Program(t testing.TB, name string, options ProgramOptions, command ...string) *Program {
	t.Helper()
	body := map[string]any{"name": name, "command": command}
	if len(options.Env) > 0 {
		body["env"] = options.Env
	}
	if options.Folder != "" {
		body["folder"] = options.Folder
	}
	if options.ServiceAccount != "" {
		body["serviceAccount"] = options.ServiceAccount
	}
	l.must(t, http.MethodPost, "/programs", body, nil)
	program := &Program{Name: name, lab: l}
	t.Cleanup(func() {
		if state, err := program.state(); err == nil && t.Failed() {
			t.Logf("last lines of the program %s, which is %s:\n%s", name, state.State, state.Tail)
		}
		// A cluster that has ended has no programs.
		_ = l.Call(http.MethodDelete, program.path(), nil, nil)
	})
	return program
}

// State is what the lab knows of the program.
func (p *Program) State(t testing.TB) ProgramState {
	t.Helper()
	state, err := p.state()
	if err != nil {
		t.Fatalf("kstoretest: program %s: %v", p.Name, err)
	}
	return state
}

func (p *Program) state() (ProgramState, error) {
	var state ProgramState
	return state, p.lab.Call(http.MethodGet, p.path(), nil, &state)
}

// Stop ends the program by SIGTERM, and after ten seconds by SIGKILL. Does nothing the second time.
func (p *Program) Stop(t testing.TB) {
	t.Helper()
	p.lab.must(t, http.MethodDelete, p.path(), nil, nil)
}

func (p *Program) path() string { return "/programs/" + url.PathEscape(p.Name) }
