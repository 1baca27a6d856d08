package main

import (
	"os"
	"time"
)

// kyverno/kyverno#14984: a replica that has lost its Lease goes on with what it does as the leader: each writes its name into a ConfigMap.
//
// The second replica waits for the Lease of the first; one that has lost it does not want it again. Fixed: stops with the leadership.
// Leadership is followed by a watch and not by client-go's package, whose timers pass in real time.
func b19(k *kube) reconciler {
	me, hasLed := os.Getenv("REPLICA"), false
	knownThings, knownMaps, knownLeases := k.watch(things), k.watch(maps), k.watch(leases)
	if me == "one" {
		lease := made("coordination.k8s.io/v1", "Lease", fields{"name": "things"}, fields{"spec": fields{"holderIdentity": me}})
		if err := k.ensure(leases, lease); err != nil {
			panic(err)
		}
	}
	leads := func() (bool, error) {
		lease := knownLeases.get("things")
		if lease == nil {
			return false, nil
		}
		holder := text(lease, "spec", "holderIdentity")
		hasLed = hasLed || holder == me
		if holder == "" && !hasLed {
			lease.Object["spec"].(fields)["holderIdentity"] = me
			return false, k.update(leases, lease)
		}
		return holder == me || (hasLed && !isFixed), nil
	}
	return func(string) error {
		if isLeader, err := leads(); err != nil || !isLeader || len(knownThings.names()) == 0 {
			return err
		}
		found := knownMaps.get("leader")
		if found == nil {
			return k.ensure(maps, configMap(fields{"name": "leader"}, "name", me))
		}
		if text(found, "data", "name") == me {
			return nil
		}
		found.Object["data"] = fields{"name": me}
		if err := k.update(maps, found); err != nil {
			return err
		}
		time.Sleep(50 * time.Millisecond)
		return nil
	}
}
