package main

import (
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Orange-OpenSource/casskop#321: a PodDisruptionBudget with another `maxUnavailable` than the Thing's is deleted and made anew.
//
// After a restart on a server that lags behind, the old number looks like a change: the budget ends right, and was gone in between.
// Fixed: compares the generation from which the budget on the server was made.
func b4(k *kube) reconciler {
	const generation = "example.com/generation"
	knownThings, knownBudgets := k.watch(things), k.watch(budgets)
	return func(name string) error {
		thing, found := knownThings.get(name), knownBudgets.get(name)
		if thing == nil {
			return nil
		}
		wanted := number(thing, "spec", "maxUnavailable")
		if found == nil {
			metadata := fields{"name": name, "annotations": fields{generation: strconv.FormatInt(thing.GetGeneration(), 10)}}
			spec := fields{"maxUnavailable": wanted, "selector": fields{"matchLabels": fields{"thing": name}}}
			_, err := k.create(budgets, made("policy/v1", "PodDisruptionBudget", metadata, fields{"spec": spec}))
			return err
		}
		if number(found, "spec", "maxUnavailable") == wanted {
			return nil
		}
		if isFixed {
			live, err := k.live(budgets, name)
			if err != nil || live == nil {
				return err
			}
			if from, _ := strconv.ParseInt(live.GetAnnotations()[generation], 10, 64); from >= thing.GetGeneration() {
				return nil
			}
		}
		return k.remove(budgets, name, metav1.DeletePropagationBackground)
	}
}
