package main

import (
	"math/rand"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ray-project/kuberay#715: counts its Pods in the cache, makes those that are missing, and deletes a surplus at random, each with its
// claim.
//
// A cache that lags behind has too few of them. Fixed: counts what it made and has not seen yet, too; and a Pod gets its claim later if it
// has none, since the program may end between the two.
func b6(k *kube) reconciler {
	knownThings, knownPods := k.watch(things), k.watch(pods)
	unseen := map[string]bool{}
	return func(name string) error {
		name, _, _ = strings.Cut(name, "-")
		thing, cached := knownThings.get(name), knownPods.names()
		if thing == nil {
			return nil
		}
		for _, seen := range cached {
			delete(unseen, seen)
			if isFixed {
				if err := k.ensureClaim(seen, name); err != nil {
					return err
				}
			}
		}
		count, replicas := len(cached), int(number(thing, "spec", "replicas"))
		if isFixed {
			count += len(unseen)
		}
		for ; count < replicas; count++ {
			created, err := k.create(pods, pod(fields{"generateName": name + "-", "labels": fields{"thing": name}}))
			if err != nil {
				return err
			}
			unseen[created.GetName()] = true
			if _, err := k.create(claims, claim(created.GetName(), name, nil)); err != nil {
				return err
			}
		}
		for _, n := range rand.Perm(len(cached))[:max(0, min(count-replicas, len(cached)))] {
			for _, r := range []resource{pods, claims} {
				if err := k.remove(r, cached[n], metav1.DeletePropagationBackground); err != nil {
					return err
				}
			}
		}
		return nil
	}
}

// ensureClaim makes the claim of a Pod that has none, unless the Pod is gone or going.
func (k *kube) ensureClaim(pod, thing string) error {
	found, err := k.live(claims, pod)
	if err != nil || found != nil {
		return err
	}
	live, err := k.live(pods, pod)
	if err != nil || live == nil || live.GetDeletionTimestamp() != nil {
		return err
	}
	return k.ensure(claims, claim(pod, thing, nil))
}
