package main

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// datastax/cass-operator#412: a Thing that is being deleted takes all claims with its name as their label along. Else its claim is made.
//
// After a restart on a server that lags behind, the deleted Thing is back, and the claims are those of its namesake. Fixed: the label is
// the UID, and a claim is made only for a Thing that the server has.
func b1(k *kube) reconciler {
	const finalizer = "example.com/claims"
	knownThings, knownClaims := k.watch(things), k.watch(claims)
	return func(name string) error {
		name = strings.TrimPrefix(name, "data-")
		thing := knownThings.get(name)
		if thing == nil {
			return nil
		}
		label := name
		if isFixed {
			label = string(thing.GetUID())
		}
		if thing.GetDeletionTimestamp() != nil {
			found, err := k.list(claims, "thing", label)
			for n := 0; err == nil && n < len(found); n++ {
				err = k.remove(claims, found[n].GetName(), metav1.DeletePropagationBackground)
			}
			if err != nil {
				return err
			}
			thing.SetFinalizers(nil)
			return k.update(things, thing)
		}
		if !slices.Contains(thing.GetFinalizers(), finalizer) {
			thing.SetFinalizers([]string{finalizer})
			return k.update(things, thing)
		}
		if knownClaims.get("data-"+name) != nil {
			return nil
		}
		if isFixed {
			live, err := k.live(things, name)
			if err != nil || live == nil || live.GetUID() != thing.GetUID() {
				return err
			}
		}
		_, err := k.create(claims, claim("data-"+name, label, nil))
		return err
	}
}
