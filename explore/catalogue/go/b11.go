package main

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// instaclustr/cassandra-operator#398: a Pod's claim is deleted only if the Pod is seen while it is being deleted.
//
// Without that state the claim stays, and the next Pod of that name gets its data. Fixed: also deletes claims above `replicas` that have
// no Pod.
func b11(k *kube) reconciler {
	knownThings, knownPods := k.watch(things), k.watch(pods)
	return func(name string) error {
		name, _, _ = strings.Cut(name, "-")
		thing := knownThings.get(name)
		if thing == nil {
			return nil
		}
		replicas := number(thing, "spec", "replicas")
		if err := k.shrink(knownPods, replicas); err != nil {
			return err
		}
		if isFixed {
			if err := k.removeClaims(name, knownPods, replicas); err != nil {
				return err
			}
		}
		for n := range replicas {
			one := fmt.Sprintf("%s-%d", name, n)
			if knownPods.get(one) != nil {
				continue
			}
			if err := k.ensure(claims, claim("data-"+one, name, nil)); err != nil {
				return err
			}
			if err := k.ensure(pods, pod(fields{"name": one, "labels": fields{"thing": name}})); err != nil {
				return err
			}
		}
		return nil
	}
}

// shrink deletes the Pods above a number of replicas, and the claims of those that are being deleted.
func (k *kube) shrink(known store, replicas int64) error {
	for _, one := range known.names() {
		found := known.get(one)
		if found == nil || ordinal(one) < replicas {
			continue
		}
		r, name := pods, one
		if found.GetDeletionTimestamp() != nil {
			r, name = claims, "data-"+one
		}
		if err := k.remove(r, name, metav1.DeletePropagationBackground); err != nil {
			return err
		}
	}
	return nil
}

// removeClaims deletes the claims above a number of replicas that have no Pod.
func (k *kube) removeClaims(thing string, known store, replicas int64) error {
	found, err := k.list(claims, "thing", thing)
	for n := 0; err == nil && n < len(found); n++ {
		name := found[n].GetName()
		if ordinal(name) >= replicas && known.get(strings.TrimPrefix(name, "data-")) == nil {
			err = k.remove(claims, name, metav1.DeletePropagationBackground)
		}
	}
	return err
}
