// Package kstoretest lets Go tests run on kstore, a Kubernetes-style control plane that is ready in milliseconds.
//
// For suites of controller-runtime's envtest, [SetAssets] makes the folder with kube-apiserver and etcd that envtest starts, and sets
// KUBEBUILDER_ASSETS. For others, [Start] is a whole cluster, with controllers, a scheduler and simulated nodes, for one test.
//
// [StartLab] is a cluster whose clock the test moves, with forks, programs, faults and a log of requests. The module kstoretest/labclock, which
// needs k8s.io/utils, is that clock for operators.
//
// It needs the program kstore-server (see [FindServer]) and only the standard library. It is no client beyond [Lab.Apply]: [Cluster.Kubeconfig] is for
// client-go or kubectl.
package kstoretest
