package main

import (
	stderrors "errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/errors"
)

// isAnswer says that an error is an answer of the server.
func isAnswer(err error) bool {
	var answer errors.APIStatus
	return stderrors.As(err, &answer)
}

// kubernetes/kubernetes#78796: a create that was answered 504 counts as expected; nothing fulfils the expectation, and nothing is tried
// again.
//
// Fixed: after an uncertain answer it asks the server.
func b16(k *kube) reconciler {
	knownThings := k.watch(things)
	expected := map[string]bool{}
	return func(name string) error {
		if knownThings.get(name) == nil || expected[name] {
			return nil
		}
		if found, err := k.live(maps, name+"-child"); err != nil || found != nil {
			return err
		}
		expected[name] = true
		_, err := k.create(maps, configMap(fields{"name": name + "-child"}, "", ""))
		if err == nil {
			return nil
		}
		// Without a status the connection broke.
		isUncertain := errors.IsTimeout(err) || !isAnswer(err)
		if isFixed || !isUncertain {
			delete(expected, name)
			return err
		}
		fmt.Printf("expecting %s-child: %v\n", name, err)
		return nil
	}
}
