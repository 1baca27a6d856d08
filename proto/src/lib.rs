//! The protobuf definitions and generated code: kstore.v1 and etcd v3
