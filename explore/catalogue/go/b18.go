package main

import (
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// elastic/beats#6503: its own loop of watches takes an ERROR event for no event, and begins again at the same revision.
//
// A revision that is too old stays so. Fixed: lists again.
func b18(k *kube) reconciler {
	var known sync.Map
	go func() {
		for version := ""; ; time.Sleep(20 * time.Millisecond) {
			var err error
			if version, err = k.follow(&known, version); err != nil {
				fmt.Printf("watching: %v\n", err)
			}
		}
	}()
	return func(name string) error {
		config, _ := known.Load(name)
		_, err := k.put(name+"-config", config.(string))
		return err
	}
}

// follow lists the Things, unless a version is given, watches them until the end of the watch, and returns the version where the next
// watch begins.
func (k *kube) follow(known *sync.Map, version string) (string, error) {
	changed := func(thing *object) {
		known.Store(thing.GetName(), text(thing, "spec", "config"))
		k.queue.Add(thing.GetName())
	}
	if version == "" {
		listed, err := k.in(things).List(ctx, metav1.ListOptions{})
		if err != nil {
			return "", err
		}
		version = listed.GetResourceVersion()
		for n := range listed.Items {
			changed(&listed.Items[n])
		}
	}
	watched, err := k.in(things).Watch(ctx, metav1.ListOptions{ResourceVersion: version})
	if err != nil {
		return version, err
	}
	defer watched.Stop()
	for event := range watched.ResultChan() {
		thing, isThing := event.Object.(*object)
		if isThing && (event.Type == watch.Added || event.Type == watch.Modified) {
			version = thing.GetResourceVersion()
			changed(thing)
		} else if event.Type == watch.Error && isFixed {
			return "", nil
		}
	}
	return version, nil
}
