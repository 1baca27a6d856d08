//! The etcd v3 gRPC facade over the store
