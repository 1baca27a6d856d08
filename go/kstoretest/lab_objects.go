package kstoretest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"
)

// discovery asks for all kinds in one answer.
const discovery = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

// kind is one that the cluster serves, in one of its versions.
type kind struct {
	group, version, kind, plural, singular string
	isNamespaced                           bool
}

// qualified is plural.group.
func (k kind) qualified() string { return strings.TrimSuffix(k.plural+"."+k.group, ".") }

// path of all objects in the namespace, or of one.
func (k kind) path(namespace, name string) string {
	path := "/api/" + k.version
	if k.group != "" {
		path = "/apis/" + k.group + "/" + k.version
	}
	if k.isNamespaced {
		path += "/namespaces/" + url.PathEscape(namespace)
	}
	path += "/" + k.plural
	if name != "" {
		path += "/" + url.PathEscape(name)
	}
	return path
}

// kinds are those that the cluster serves, those of the core group first.
func (l *Lab) kinds() ([]kind, error) {
	var found []kind
	for _, root := range []string{"/api", "/apis"} {
		request, err := http.NewRequest(http.MethodGet, l.URL+root, nil)
		if err != nil {
			return nil, err
		}
		request.Header.Set("Accept", discovery)
		request.Header.Set("User-Agent", agent)
		response, err := l.client.Do(request)
		if err != nil {
			return nil, err
		}
		var groups struct {
			Items []struct {
				Metadata struct{ Name string }
				Versions []struct {
					Version   string
					Resources []struct {
						Resource, Scope, SingularResource string
						ResponseKind                      struct{ Kind string }
					}
				}
			}
		}
		err = json.NewDecoder(response.Body).Decode(&groups)
		response.Body.Close()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", root, err)
		}
		for _, group := range groups.Items {
			for _, version := range group.Versions {
				for _, r := range version.Resources {
					found = append(found, kind{group.Metadata.Name, version.Version, r.ResponseKind.Kind, r.Resource, r.SingularResource, r.Scope == "Namespaced"})
				}
			}
		}
	}
	return found, nil
}

// kind is the first kind that fits; shown is for the error.
func (l *Lab) kind(shown string, fits func(kind) bool) (kind, error) {
	kinds, err := l.kinds()
	if err != nil {
		return kind{}, err
	}
	for _, one := range kinds {
		if fits(one) {
			return one, nil
		}
	}
	return kind{}, fmt.Errorf("the cluster has no kind %s", shown)
}

// manifest is what has to be known of an object.
type manifest struct {
	APIVersion, Kind string
	Metadata         struct{ Name, Namespace string }
}

// Apply applies objects by server-side apply, in their order: texts of YAML or JSON, in which documents are separated by lines of ---, or
// values that encode to JSON as objects do, such as those of k8s.io/api with their TypeMeta. Objects without a namespace belong to default.
// The test fails at the first refusal.
func (l *Lab) Apply(t testing.TB, objects ...any) {
	t.Helper()
	for _, object := range objects {
		documents, err := l.documents(object)
		for i := 0; err == nil && i < len(documents); i++ {
			err = l.apply(documents[i])
		}
		if err != nil {
			t.Fatalf("kstoretest: apply: %v", err)
		}
	}
}

// ApplyFile is Apply with the text of a file.
func (l *Lab) ApplyFile(t testing.TB, path string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("kstoretest: %v", err)
	}
	l.Apply(t, string(text))
}

var documentEnd = regexp.MustCompile(`(?m)^---.*$`)

// documents are the objects of an argument of Apply, as JSON.
func (l *Lab) documents(object any) ([]json.RawMessage, error) {
	text, isText := object.(string)
	if !isText {
		encoded, err := json.Marshal(object)
		return []json.RawMessage{encoded}, err
	}
	if json.Valid([]byte(text)) {
		return []json.RawMessage{json.RawMessage(text)}, nil
	}
	var documents []json.RawMessage
	for _, document := range documentEnd.Split(text, -1) {
		if strings.TrimSpace(document) == "" {
			continue
		}
		decoded, err := l.decodeYAML(document)
		if err != nil {
			return nil, err
		}
		documents = append(documents, decoded)
	}
	return documents, nil
}

// decodeYAML has the server read YAML, which the standard library does not: as the free-form member of an object that is not stored.
func (l *Lab) decodeYAML(text string) (json.RawMessage, error) {
	wrapped := "apiVersion: apps/v1\nkind: ControllerRevision\nmetadata: {name: text}\nrevision: 1\ndata:\n  " + strings.ReplaceAll(text, "\n", "\n  ")
	path := "/apis/apps/v1/namespaces/default/controllerrevisions?dryRun=All"
	answer, err := l.send(context.Background(), http.MethodPost, path, "application/yaml", []byte(wrapped))
	if err != nil {
		return nil, err
	}
	var decoded struct{ Data json.RawMessage }
	return decoded.Data, json.Unmarshal(answer, &decoded)
}

func (l *Lab) apply(object json.RawMessage) error {
	var named manifest
	if err := json.Unmarshal(object, &named); err != nil {
		return err
	}
	if named.APIVersion == "" || named.Kind == "" || named.Metadata.Name == "" {
		return fmt.Errorf("an object needs apiVersion, kind and metadata.name: %.200s", object)
	}
	group, version, isGroup := strings.Cut(named.APIVersion, "/")
	if !isGroup {
		group, version = "", group
	}
	found, err := l.kind(named.APIVersion+" "+named.Kind, func(k kind) bool {
		return k.kind == named.Kind && k.group == group && k.version == version
	})
	if err != nil {
		return err
	}
	namespace := named.Metadata.Namespace
	if namespace == "" {
		namespace = "default"
	}
	path := found.path(namespace, named.Metadata.Name) + "?force=true&fieldManager=" + agent
	_, err = l.send(context.Background(), http.MethodPatch, path, "application/apply-patch+yaml", object)
	return err
}
