package main

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// made is a new object of a kind with metadata and further fields.
func made(version, kind string, metadata, further fields) *object {
	content := fields{"apiVersion": version, "kind": kind, "metadata": metadata}
	for name, value := range further {
		content[name] = value
	}
	return &object{Object: content}
}

// configMap is a ConfigMap with one value, or none if the key is empty.
func configMap(metadata fields, key, value string) *object {
	if key == "" {
		return made("v1", "ConfigMap", metadata, nil)
	}
	return made("v1", "ConfigMap", metadata, fields{"data": fields{key: value}})
}

// pod has one container.
func pod(metadata fields) *object {
	containers := []any{fields{"name": "main", "image": "example.com/main"}}
	return made("v1", "Pod", metadata, fields{"spec": fields{"containers": containers}})
}

// claim is a PersistentVolumeClaim with a label `thing`.
func claim(name, thing string, annotations fields) *object {
	metadata := fields{"name": name, "labels": fields{"thing": thing}, "annotations": annotations}
	return made("v1", "PersistentVolumeClaim", metadata, fields{"spec": fields{
		"accessModes": []any{"ReadWriteOnce"}, "resources": fields{"requests": fields{"storage": "1Gi"}},
	}})
}

// statefulSet has no replicas, and a template of claims.
func statefulSet(name string, storage int64) *object {
	labels := fields{"thing": name}
	return made("apps/v1", "StatefulSet", fields{"name": name, "labels": labels}, fields{"spec": fields{
		"replicas": int64(0), "serviceName": name, "selector": fields{"matchLabels": labels},
		"template": fields{"metadata": fields{"labels": labels}, "spec": pod(nil).Object["spec"]},
		"volumeClaimTemplates": []any{fields{"metadata": fields{"name": "data"}, "spec": fields{
			"accessModes": []any{"ReadWriteOnce"},
			"resources":   fields{"requests": fields{"storage": fmt.Sprintf("%dGi", storage)}},
		}}},
	}})
}

// storageOf is the storage in the template of a StatefulSet, in Gi.
func storageOf(set *object) int64 {
	templates, _, _ := unstructured.NestedSlice(set.Object, "spec", "volumeClaimTemplates")
	text, _, _ := unstructured.NestedString(templates[0].(fields), "spec", "resources", "requests", "storage")
	storage, _ := strconv.ParseInt(strings.TrimSuffix(text, "Gi"), 10, 64)
	return storage
}

// ownedBy has the owner references of what a Thing controls.
func ownedBy(thing *object) []any {
	return []any{fields{
		"apiVersion": "example.com/v1", "kind": "Thing", "name": thing.GetName(), "uid": string(thing.GetUID()), "controller": true,
	}}
}

// number is an integer field, or zero.
func number(of *object, path ...string) int64 {
	value, _, _ := unstructured.NestedInt64(of.Object, path...)
	return value
}

// text is a string field, or empty.
func text(of *object, path ...string) string {
	value, _, _ := unstructured.NestedString(of.Object, path...)
	return value
}

// ordinal is the number behind the last hyphen of a name.
func ordinal(name string) int64 {
	value, _ := strconv.ParseInt(name[strings.LastIndex(name, "-")+1:], 10, 64)
	return value
}
