package kstoretest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// ServerVariable names the program kstore-server where it is not on PATH.
const ServerVariable = "KSTORE_SERVER"

const program = "kstore-server"

// ErrNoServer is returned if there is no kstore-server.
var ErrNoServer = errors.New("there is no kstore-server: install it, or let KSTORE_SERVER name it")

// FindServer returns the absolute path of kstore-server: the value of KSTORE_SERVER if that is set, else the first on PATH.
//
// The error is [ErrNoServer], or says that KSTORE_SERVER names no program.
func FindServer() (string, error) {
	if named := os.Getenv(ServerVariable); named != "" {
		found, err := exec.LookPath(named)
		if err != nil {
			return "", fmt.Errorf("%s names no program: %w", ServerVariable, err)
		}
		return filepath.Abs(found)
	}
	found, err := exec.LookPath(program)
	if err != nil {
		return "", ErrNoServer
	}
	return filepath.Abs(found)
}
