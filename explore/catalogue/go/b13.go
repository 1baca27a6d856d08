package main

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// rabbitmq/cluster-operator#782: whether storage has to grow is read from the StatefulSet's template; then the StatefulSet is deleted,
// without its pods, the storage noted at the claims, and the StatefulSet made again.
//
// Dies after the deletion: the new StatefulSet has the new storage, and the claims never get it. Fixed: reads the claims.
func b13(k *kube) reconciler {
	knownThings, knownSets := k.watch(things), k.watch(sets)
	return func(name string) error {
		thing, found := knownThings.get(name), knownSets.get(name)
		if thing == nil {
			return nil
		}
		storage := number(thing, "spec", "storage")
		if found == nil {
			return k.makeSet(name, storage)
		}
		if found.GetDeletionTimestamp() != nil || storage <= storageOf(found) {
			return nil
		}
		if err := k.remove(sets, name, metav1.DeletePropagationOrphan); err != nil {
			return err
		}
		return k.grow(name, storage, false)
	}
}
