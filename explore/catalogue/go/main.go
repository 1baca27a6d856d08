// Operators of the catalogue on client-go: `catalogue b1` runs that of the bug B1, and `catalogue b1 --fixed` its repaired twin.
package main

import (
	"fmt"
	"os"
	"slices"
)

// reconciler brings one named object to its wanted state.
type reconciler func(name string) error

var programs = map[string]func(*kube) reconciler{
	"b1": b1, "b2": b2, "b3": b3, "b4": b4, "b5": b5, "b6": b6, "b8": b8, "b10": b10, "b11": b11,
	"b13": b13, "b14": b14, "b16": b16, "b17": b17, "b18": b18, "b19": b19, "b22": b22,
}

// isFixed says that the repaired twin runs.
var isFixed = slices.Contains(os.Args[1:], "--fixed")

func main() {
	var program func(*kube) reconciler
	if len(os.Args) > 1 {
		program = programs[os.Args[1]]
	}
	if program == nil {
		fmt.Fprintln(os.Stderr, "the first argument is the name of a bug, such as b1")
		os.Exit(2)
	}
	k := connect()
	k.run(program(k))
}
