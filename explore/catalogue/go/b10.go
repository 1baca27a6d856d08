package main

import (
	"strconv"
	"strings"
	"time"
)

// kubernetes/kubernetes#129795: counts the creations that it has not seen yet; after five minutes of the cluster it believes its cache.
//
// A cache that lags for longer has too few children. Fixed: waits until the cache has reached the revision of what it made.
func b10(k *kube) reconciler {
	const expires = 5 * time.Minute
	knownThings, knownMaps := k.watch(things), k.watch(maps)
	expected, seen, ends, written := map[string]int{}, map[string]bool{}, map[string]time.Time{}, map[string]int64{}
	return func(name string) error {
		owner, _, _ := strings.Cut(name, "-")
		if knownMaps.get(name) != nil && !seen[name] {
			seen[name] = true
			expected[owner]--
		}
		thing := knownThings.get(owner)
		if thing == nil {
			return nil
		}
		now, err := k.now()
		if err != nil {
			return err
		}
		reached, _ := strconv.ParseInt(knownMaps.LastSyncResourceVersion(), 10, 64)
		if isFixed && reached < written[owner] {
			return nil
		}
		if !isFixed && expected[owner] > 0 && now.Before(ends[owner]) {
			return nil
		}
		missing := int(number(thing, "spec", "replicas"))
		for _, child := range knownMaps.names() {
			if strings.HasPrefix(child, owner+"-") {
				missing--
			}
		}
		if missing <= 0 {
			return nil
		}
		expected[owner], ends[owner] = missing, now.Add(expires)
		k.after(expires, owner)
		for range missing {
			created, err := k.create(maps, configMap(fields{"generateName": owner + "-"}, "", ""))
			if err != nil {
				return err
			}
			written[owner], _ = strconv.ParseInt(created.GetResourceVersion(), 10, 64)
		}
		return nil
	}
}
