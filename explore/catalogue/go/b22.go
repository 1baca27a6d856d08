package main

import (
	"fmt"
	"strings"
)

// ai-dynamo/grove#802: children are found by the name of their owner. The child of a deleted namesake is taken, and cannot be controlled.
//
// The child stays until its finalizer is removed, which waits for the end of its owner. Fixed: children are found by the UID of their
// owner.
func b22(k *kube) reconciler {
	knownThings, knownMaps := k.watch(things), k.watch(maps)
	return func(name string) error {
		name = strings.TrimSuffix(name, "-child")
		thing, child := knownThings.get(name), knownMaps.get(name+"-child")
		isMine := false
		if isFixed {
			isMine = thing != nil && child != nil && child.GetOwnerReferences()[0].UID == thing.GetUID()
		} else if child != nil {
			// The server knows best whether the owner of that name is gone.
			live, err := k.live(things, name)
			if err != nil {
				return err
			}
			isMine = live != nil
		}
		if child != nil && !isMine {
			if child.GetDeletionTimestamp() != nil {
				// A child that was made since has the same name.
				patch := fmt.Sprintf(`{"metadata": {"uid": %q, "finalizers": null}}`, child.GetUID())
				if err := k.merge(maps, name+"-child", patch); err != nil {
					return err
				}
			}
			child = nil
		}
		switch {
		case thing == nil:
			return nil
		case child == nil:
			metadata := fields{"name": name + "-child", "finalizers": []any{"example.com/child"}, "ownerReferences": ownedBy(thing)}
			_, err := k.create(maps, configMap(metadata, "", ""))
			return err
		case child.GetOwnerReferences()[0].UID != thing.GetUID():
			return fmt.Errorf("%s-child is controlled by another owner", name)
		case thing.Object["status"] == nil:
			thing.Object["status"] = fields{"conditions": []any{fields{"type": "Ready", "status": "True"}}}
			return k.updateStatus(thing)
		}
		return nil
	}
}
