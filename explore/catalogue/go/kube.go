package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

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
	"k8s.io/client-go/util/workqueue"
)

type (
	object   = unstructured.Unstructured
	fields   = map[string]any
	resource = schema.GroupVersionResource
)

var (
	things  = resource{Group: "example.com", Version: "v1", Resource: "things"}
	claims  = resource{Version: "v1", Resource: "persistentvolumeclaims"}
	maps    = resource{Version: "v1", Resource: "configmaps"}
	pods    = resource{Version: "v1", Resource: "pods"}
	secrets = resource{Version: "v1", Resource: "secrets"}
	sets    = resource{Group: "apps", Version: "v1", Resource: "statefulsets"}
	budgets = resource{Group: "policy", Version: "v1", Resource: "poddisruptionbudgets"}
	leases  = resource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}
	ctx     = context.Background()
)

// kube has the clients of an operator, and the queue of names that its informers fill.
type kube struct {
	config  *rest.Config
	client  dynamic.Interface
	queue   workqueue.TypedRateLimitingInterface[string]
	synced  []cache.InformerSynced
	informs []cache.SharedIndexInformer
}

// connect makes clients of the cluster of KUBECONFIG, without limits of client-go to the rate of requests.
func connect() *kube {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		panic(err)
	}
	config.QPS = -1
	limiter := workqueue.DefaultTypedControllerRateLimiter[string]()
	return &kube{config: config, client: dynamic.NewForConfigOrDie(config), queue: workqueue.NewTypedRateLimitingQueue(limiter)}
}

// in is the client of one resource in the namespace default.
func (k *kube) in(r resource) dynamic.ResourceInterface {
	return k.client.Resource(r).Namespace("default")
}

// store is the cache of an informer, which lists with resourceVersion=0.
type store struct{ cache.SharedIndexInformer }

// watch makes an informer of a resource, which queues the name of each changed object.
func (k *kube) watch(r resource) store {
	source := &cache.ListWatch{
		ListFunc:  func(o metav1.ListOptions) (runtime.Object, error) { return k.in(r).List(ctx, o) },
		WatchFunc: func(o metav1.ListOptions) (watch.Interface, error) { return k.in(r).Watch(ctx, o) },
	}
	informer := cache.NewSharedIndexInformer(source, &object{}, 0, cache.Indexers{})
	changed := func(changed any) {
		key, _ := cache.DeletionHandlingMetaNamespaceKeyFunc(changed)
		k.queue.Add(key[strings.Index(key, "/")+1:])
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: changed, UpdateFunc: func(_, new any) { changed(new) }, DeleteFunc: changed,
	})
	if err != nil {
		panic(err)
	}
	k.synced = append(k.synced, informer.HasSynced)
	k.informs = append(k.informs, informer)
	return store{informer}
}

// get is a copy of the cached object, or nil.
func (s store) get(name string) *object {
	found, exists, _ := s.GetStore().GetByKey("default/" + name)
	if !exists {
		return nil
	}
	return found.(*object).DeepCopy()
}

// names of all cached objects, sorted.
func (s store) names() []string {
	var names []string
	for _, found := range s.GetStore().List() {
		names = append(names, found.(*object).GetName())
	}
	slices.Sort(names)
	return names
}

// run starts the informers and reconciles each queued name, after an error again, later each time.
func (k *kube) run(reconcile reconciler) {
	for _, informer := range k.informs {
		go informer.Run(ctx.Done())
	}
	cache.WaitForCacheSync(ctx.Done(), k.synced...)
	for {
		name, _ := k.queue.Get()
		if err := reconcile(name); err != nil {
			fmt.Printf("reconciling %s: %v\n", name, err)
			k.queue.AddRateLimited(name)
		} else {
			k.queue.Forget(name)
		}
		k.queue.Done(name)
	}
}

// live is the object as the server has it, or nil.
func (k *kube) live(r resource, name string) (*object, error) {
	found, err := k.in(r).Get(ctx, name, metav1.GetOptions{})
	if errors.IsNotFound(err) {
		return nil, nil
	}
	return found, err
}

// list has the objects with a label, as the server has them.
func (k *kube) list(r resource, label, value string) ([]object, error) {
	found, err := k.in(r).List(ctx, metav1.ListOptions{LabelSelector: label + "=" + value})
	if err != nil {
		return nil, err
	}
	return found.Items, nil
}

func (k *kube) create(r resource, made *object) (*object, error) {
	return k.in(r).Create(ctx, made, metav1.CreateOptions{})
}

// ensure creates an object unless it exists.
func (k *kube) ensure(r resource, made *object) error {
	_, err := k.create(r, made)
	if errors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

func (k *kube) update(r resource, changed *object) error {
	_, err := k.in(r).Update(ctx, changed, metav1.UpdateOptions{})
	return err
}

func (k *kube) updateStatus(changed *object) error {
	_, err := k.in(things).UpdateStatus(ctx, changed, metav1.UpdateOptions{})
	return err
}

func (k *kube) merge(r resource, name, patch string, subresources ...string) error {
	_, err := k.in(r).Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, subresources...)
	return err
}

// remove deletes an object. It is no error if there is none.
func (k *kube) remove(r resource, name string, policy metav1.DeletionPropagation) error {
	err := k.in(r).Delete(ctx, name, metav1.DeleteOptions{PropagationPolicy: &policy})
	if errors.IsNotFound(err) {
		return nil
	}
	return err
}
