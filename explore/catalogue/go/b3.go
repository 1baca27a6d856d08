package main

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// elastic/cloud-on-k8s#5249: no owner references; if a Thing is missing in the cache, the Secret of its name is deleted.
//
// After a restart on a server that lags behind, a Thing that exists again is missing. Fixed: asks the server before it deletes.
func b3(k *kube) reconciler {
	knownThings, knownSecrets := k.watch(things), k.watch(secrets)
	return func(name string) error {
		name = strings.TrimSuffix(name, "-password")
		secret := name + "-password"
		hasThing, hasSecret := knownThings.get(name) != nil, knownSecrets.get(secret) != nil
		if hasThing && !hasSecret {
			metadata := fields{"name": secret, "labels": fields{"thing": name}}
			_, err := k.create(secrets, made("v1", "Secret", metadata, fields{"stringData": fields{"p": "x"}}))
			return err
		}
		if hasThing || !hasSecret {
			return nil
		}
		if isFixed {
			if live, err := k.live(things, name); err != nil || live != nil {
				return err
			}
		}
		return k.remove(secrets, secret, metav1.DeletePropagationBackground)
	}
}
