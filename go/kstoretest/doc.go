// Package kstoretest lets Go tests run on kstore, a Kubernetes-style control plane that is ready in milliseconds.
//
// For suites of controller-runtime's envtest, [SetAssets] makes the folder with kube-apiserver and etcd that envtest starts, and sets
// KUBEBUILDER_ASSETS. For others, [Start] is a whole cluster, with controllers, a scheduler and simulated nodes, for one test.
//
// [StartLab] is a cluster whose clock the test moves, with forks and a log of requests.
//
// It needs the program kstore-server (see [FindServer]) and only the standard library. It is no client: [Cluster.Kubeconfig] is for
// client-go or kubectl.
package kstoretest
