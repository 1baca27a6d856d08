// Reads its own writes with client-go: after each write it waits until the informer of ConfigMaps has delivered an object of at least the
// revision of the answer, as controller-runtime does, and then expects the write in the cache. Every watch of the informer ends after a
// random number of bytes. Fails with the first difference.
package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	writers  = 3
	writes   = 150
	patience = 30 * time.Second
)

var (
	ctx  = context.Background()
	maps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
)

// cutBody ends a response after a number of bytes.
type cutBody struct {
	io.ReadCloser
	left int
}

func (b *cutBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, io.ErrUnexpectedEOF
	}
	if len(p) > b.left {
		p = p[:b.left]
	}
	n, err := b.ReadCloser.Read(p)
	b.left -= n
	return n, err
}

// cutting is a transport whose watches end early.
type cutting struct {
	http.RoundTripper
	lock   sync.Mutex
	random *rand.Rand
	cuts   int
}

func (t *cutting) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := t.RoundTripper.RoundTrip(request)
	if err == nil && request.URL.Query().Get("watch") != "" {
		t.lock.Lock()
		t.cuts++
		response.Body = &cutBody{response.Body, 1 + t.random.Intn(15000)}
		t.lock.Unlock()
	}
	return response, err
}

// seen is the highest revision of any event that the informer delivered.
type seen struct {
	lock    sync.Mutex
	highest int64
}

func (s *seen) note(object any) {
	if last, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = last.Obj
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	s.highest = max(s.highest, revision(object.(*unstructured.Unstructured).GetResourceVersion()))
}

func (s *seen) wait(wanted int64) error {
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		s.lock.Lock()
		highest := s.highest
		s.lock.Unlock()
		if highest >= wanted {
			return nil
		}
	}
	return fmt.Errorf("revision %d was not delivered within %v", wanted, patience)
}

func revision(text string) int64 {
	number, err := strconv.ParseInt(text, 10, 64)
	if err != nil || number <= 0 || text[0] == '0' {
		panic(fmt.Sprintf("the resource version %q is no positive decimal", text))
	}
	return number
}

// deletion is what a DELETE answers: an object, or a Status with the revision of the deletion.
func deletion(config *rest.Config, client *http.Client, name string) (*unstructured.Unstructured, int, error) {
	url := fmt.Sprintf("%s/api/v1/namespaces/default/configmaps/%s", strings.TrimSuffix(config.Host, "/"), name)
	request, err := http.NewRequestWithContext(ctx, http.MethodDelete, url, bytes.NewReader(nil))
	if err != nil {
		return nil, 0, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, 0, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, 0, err
	}
	answer := &unstructured.Unstructured{}
	return answer, response.StatusCode, answer.UnmarshalJSON(body)
}

// write makes random writes of the objects of one writer.
func write(config *rest.Config, client *http.Client, api dynamic.ResourceInterface, store cache.Store, seen *seen, writer int) error {
	random := rand.New(rand.NewSource(int64(writer)))
	wanted := map[string]int64{} // 0: gone
	for round := range writes {
		name := fmt.Sprintf("w%d-%d", writer, random.Intn(4))
		object := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name},
			"data": map[string]any{"round": strconv.Itoa(round)},
		}}
		patch := []byte(fmt.Sprintf(`{"data":{"round":"%d"}}`, round))
		var answer *unstructured.Unstructured
		var err error
		isGone := false
		switch random.Intn(6) {
		case 0, 1:
			answer, err = api.Create(ctx, object, metav1.CreateOptions{})
		case 2:
			answer, err = api.Update(ctx, object, metav1.UpdateOptions{})
		case 3:
			answer, err = api.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
		case 4:
			answer, err = api.Apply(ctx, name, object, metav1.ApplyOptions{FieldManager: "own-writes", Force: true})
		case 5:
			var code int
			answer, code, err = deletion(config, client, name)
			isGone = code == http.StatusOK
			if err == nil && !isGone {
				continue
			}
		}
		if errors.IsNotFound(err) || errors.IsAlreadyExists(err) || errors.IsConflict(err) {
			continue
		}
		if err != nil {
			return err
		}
		version, _, _ := unstructured.NestedString(answer.Object, "metadata", "resourceVersion")
		number := revision(version)
		wanted[name] = number
		if isGone {
			wanted[name] = 0
		}
		if err := seen.wait(number); err != nil {
			return err
		}
		for name, number := range wanted {
			found, exists, _ := store.GetByKey("default/" + name)
			switch {
			case exists != (number != 0):
				return fmt.Errorf("round %d: %s is in the cache: %v, wanted revision %d", round, name, exists, number)
			case exists && revision(found.(*unstructured.Unstructured).GetResourceVersion()) != number:
				return fmt.Errorf("round %d: %s has not revision %d in the cache", round, name, number)
			}
		}
	}
	return nil
}

func run() error {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return err
	}
	config.QPS = -1
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}
	api := dynamic.NewForConfigOrDie(config).Resource(maps).Namespace("default")
	cut := rest.CopyConfig(config)
	transport := &cutting{random: rand.New(rand.NewSource(7))}
	cut.WrapTransport = func(inner http.RoundTripper) http.RoundTripper {
		transport.RoundTripper = inner
		return transport
	}
	watched := dynamic.NewForConfigOrDie(cut).Resource(maps).Namespace("default")
	informer := cache.NewSharedIndexInformer(&cache.ListWatch{
		ListFunc:  func(o metav1.ListOptions) (runtime.Object, error) { return watched.List(ctx, o) },
		WatchFunc: func(o metav1.ListOptions) (watch.Interface, error) { return watched.Watch(ctx, o) },
	}, &unstructured.Unstructured{}, 0, cache.Indexers{})
	seen := &seen{}
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: seen.note, UpdateFunc: func(_, new any) { seen.note(new) }, DeleteFunc: seen.note,
	}); err != nil {
		return err
	}
	go informer.Run(ctx.Done())
	cache.WaitForCacheSync(ctx.Done(), informer.HasSynced)
	results := make(chan error)
	for writer := range writers {
		go func() { results <- write(config, client, api, informer.GetStore(), seen, writer) }()
	}
	for range writers {
		if err := <-results; err != nil {
			return err
		}
	}
	fmt.Printf("ok: %d writers of %d writes, %d watches\n", writers, writes, transport.cuts)
	if transport.cuts < 5 {
		return fmt.Errorf("the watches were not cut: %d", transport.cuts)
	}
	return nil
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
