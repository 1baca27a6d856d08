//! The `.proto` files and the code generated from them. No logic: what a message means is said in the proto files.

/// kstore's own gRPC door.
pub mod kstore {
    /// `kstore.v1`.
    #[expect(missing_docs, clippy::too_many_lines, reason = "generated; the contract is in kstore.proto")]
    pub mod v1 {
        tonic::include_proto!("kstore.v1");

        /// The encoded `FileDescriptorSet`, for server reflection.
        pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/kstore.v1.bin"));
    }
}

/// The etcd v3 API. The modules carry the names of the proto packages, which are part of the wire.
pub mod etcd {
    /// `mvccpb`: keys and events.
    #[expect(missing_docs, reason = "generated; the fields are etcd's")]
    pub mod mvccpb {
        tonic::include_proto!("mvccpb");
    }

    /// `authpb`: permissions.
    #[expect(missing_docs, reason = "generated; the fields are etcd's")]
    pub mod authpb {
        tonic::include_proto!("authpb");
    }

    /// `etcdserverpb`: the services and their messages.
    #[expect(missing_docs, clippy::too_many_lines, reason = "generated; the fields are etcd's")]
    pub mod etcdserverpb {
        tonic::include_proto!("etcdserverpb");
    }
}
