package main

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/errors"
)

// envoyproxy/ai-gateway#2565: the finalizer is removed by an update whose conflict is swallowed; later events are no change of the wish.
//
// Fixed: the conflict is an error, so the reconcile is repeated with the newest object.
func b17(k *kube) reconciler {
	knownThings := k.watch(things)
	generations := map[string]int64{}
	return func(name string) error {
		thing := knownThings.get(name)
		if thing == nil || (!isFixed && generations[name] == thing.GetGeneration()) {
			return nil
		}
		generations[name] = thing.GetGeneration()
		switch {
		case thing.GetDeletionTimestamp() != nil:
			thing.SetFinalizers(nil)
		case len(thing.GetFinalizers()) == 0:
			thing.SetFinalizers([]string{"example.com/cleanup"})
		default:
			return nil
		}
		err := k.update(things, thing)
		if errors.IsConflict(err) && !isFixed {
			fmt.Printf("conflict on %s\n", name)
			return nil
		}
		if errors.IsNotFound(err) {
			return nil
		}
		return err
	}
}
