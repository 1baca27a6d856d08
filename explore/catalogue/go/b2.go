package main

import (
	"fmt"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// storageNote is the annotation of a claim that stands for its size.
const storageNote = "example.com/storage"

// grow notes a storage at the claims of a Thing that have less, or another if it may shrink.
func (k *kube) grow(name string, storage int64, mayShrink bool) error {
	found, err := k.list(claims, "thing", name)
	if err != nil {
		return err
	}
	for _, item := range found {
		noted, _ := strconv.ParseInt(item.GetAnnotations()[storageNote], 10, 64)
		if noted >= storage && !mayShrink {
			continue
		}
		patch := fmt.Sprintf(`{"metadata": {"annotations": {%q: "%d"}}}`, storageNote, storage)
		if err := k.merge(claims, item.GetName(), patch); err != nil {
			return err
		}
	}
	return nil
}

// firstClaim makes the claim of a Thing, unless there is one.
func (k *kube) firstClaim(name string, storage int64) error {
	return k.ensure(claims, claim(fmt.Sprintf("data-%s-0", name), name, fields{storageNote: strconv.FormatInt(storage, 10)}))
}

// makeSet makes the StatefulSet of a Thing, and its claim. Fixed: the claims get the storage first.
func (k *kube) makeSet(name string, storage int64) error {
	if err := k.firstClaim(name, storage); err != nil {
		return err
	}
	if isFixed {
		if err := k.grow(name, storage, false); err != nil {
			return err
		}
	}
	_, err := k.create(sets, statefulSet(name, storage))
	return err
}

// rabbitmq/cluster-operator#653: another storage than the StatefulSet's means to delete it, without its pods, note the storage at the
// claims, and make it again.
//
// After a restart on a server that lags behind, the old storage looks like a change. Fixed: only if it is larger, and the StatefulSet is
// that on the server; claims never get less, and get what they lack before a StatefulSet is made.
func b2(k *kube) reconciler {
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
		if found.GetDeletionTimestamp() != nil || storage == storageOf(found) || (isFixed && storage < storageOf(found)) {
			return nil
		}
		if isFixed {
			live, err := k.live(sets, name)
			if err != nil || live == nil || live.GetUID() != found.GetUID() || live.GetDeletionTimestamp() != nil {
				return err
			}
		}
		if err := k.remove(sets, name, metav1.DeletePropagationOrphan); err != nil {
			return err
		}
		return k.grow(name, storage, !isFixed)
	}
}
