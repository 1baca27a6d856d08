package main

import "fmt"

// tektoncd/pipeline#3656: no name of a Pod in the cached status means to make a Pod with a generated name, and to note its name there.
//
// A cache that lags behind has no name although there is a Pod. Fixed: asks the server for Pods with the owner's UID.
func b5(k *kube) reconciler {
	knownThings, knownMaps := k.watch(things), k.watch(maps)
	return func(name string) error {
		thing := knownThings.get(name)
		if thing == nil || knownMaps.get(name) == nil || text(thing, "status", "podName") != "" {
			return nil
		}
		uid := string(thing.GetUID())
		var made string
		if isFixed {
			found, err := k.list(pods, "thing", uid)
			if err != nil {
				return err
			}
			if len(found) > 0 {
				made = found[0].GetName()
			}
		}
		if made == "" {
			metadata := fields{"generateName": name + "-", "labels": fields{"thing": uid}, "ownerReferences": ownedBy(thing)}
			created, err := k.create(pods, pod(metadata))
			if err != nil {
				return err
			}
			made = created.GetName()
		}
		return k.merge(things, name, fmt.Sprintf(`{"status": {"podName": %q}}`, made), "status")
	}
}
