package main

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// put makes or changes a ConfigMap, and says whether it changed one.
func (k *kube) put(name, config string) (bool, error) {
	found, err := k.live(maps, name)
	if err != nil {
		return false, err
	}
	if found == nil {
		_, err := k.create(maps, configMap(fields{"name": name}, "config", config))
		return false, err
	}
	if text(found, "data", "config") == config {
		return false, nil
	}
	found.Object["data"] = fields{"config": config}
	return true, k.update(maps, found)
}

// restart makes a worker anew.
func (k *kube) restart(worker, config string) error {
	if err := k.remove(maps, worker, metav1.DeletePropagationBackground); err != nil {
		return err
	}
	_, err := k.put(worker, config)
	return err
}

// konpyutaika/nifikop#49: a changed ConfigMap is updated, then `status.outOfSync` set, which restarts the worker. Dies between: never
// restarted.
//
// The worker is a ConfigMap that keeps the configuration with which it was started. Fixed: compares what the worker was started with.
func b14(k *kube) reconciler {
	knownThings := k.watch(things)
	return func(name string) error {
		thing := knownThings.get(name)
		if thing == nil {
			return nil
		}
		wanted := text(thing, "spec", "config")
		hasChanged, err := k.put(name+"-config", wanted)
		if err != nil {
			return err
		}
		worker, err := k.live(maps, name+"-worker")
		if err != nil {
			return err
		}
		status, _ := thing.Object["status"].(fields)
		switch {
		case worker == nil:
			_, err := k.put(name+"-worker", wanted)
			return err
		case isFixed:
			if text(worker, "data", "config") == wanted {
				return nil
			}
			return k.restart(name+"-worker", wanted)
		case hasChanged:
			thing.Object["status"] = fields{"outOfSync": true}
			return k.updateStatus(thing)
		case status["outOfSync"] == true:
			if err := k.restart(name+"-worker", wanted); err != nil {
				return err
			}
			thing.Object["status"] = fields{"outOfSync": false}
			return k.updateStatus(thing)
		}
		return nil
	}
}
