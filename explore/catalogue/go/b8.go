package main

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func isReady(pod *object) bool {
	conditions, _, _ := unstructured.NestedSlice(pod.Object, "status", "conditions")
	for _, condition := range conditions {
		if c := condition.(fields); c["type"] == "Ready" && c["status"] == "True" {
			return pod.GetDeletionTimestamp() == nil
		}
	}
	return false
}

// opensearch-project/opensearch-k8s-operator#1471: a rolling restart deletes the next Pod when all Pods in the cache are ready.
//
// A cache that lags behind has the deleted Pod, and it is ready. Fixed: asks the server for the Pods.
func b8(k *kube) reconciler {
	knownThings, knownPods := k.watch(things), k.watch(pods)
	restarted := map[string]bool{}
	return func(name string) error {
		name, _, _ = strings.Cut(name, "-")
		thing := knownThings.get(name)
		if thing == nil {
			return nil
		}
		wanted, next, areReady := text(thing, "spec", "config"), "", true
		for n := range 3 {
			one := fmt.Sprintf("%s-%d", name, n)
			found := knownPods.get(one)
			if isFixed {
				var err error
				if found, err = k.live(pods, one); err != nil {
					return err
				}
			}
			if found == nil {
				areReady = false
				if err := k.ensure(pods, pod(fields{"name": one, "labels": fields{"config": wanted}})); err != nil {
					return err
				}
				continue
			}
			areReady = areReady && isReady(found)
			if next == "" && found.GetLabels()["config"] != wanted && !restarted[one+wanted] {
				next = one
			}
		}
		if !areReady || next == "" {
			return nil
		}
		if err := k.remove(pods, next, metav1.DeletePropagationBackground); err != nil {
			return err
		}
		restarted[next+wanted] = true
		return nil
	}
}
