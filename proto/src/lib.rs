//! The `.proto` files of kstore, etcd, Kubernetes' key management services and container runtimes, and the code generated from
//! them. The proto files document the messages. [`ProgressDemand`] is not part of a wire protocol: it connects
//! a client and a server in one process. [`MessageBoundary`] finds the messages among the bytes of a call, and
//! [`count_fields`] counts the items of a message before it is decoded.

/// The README, whose example compiles as a documentation test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod message_boundary;
mod progress;
mod repeated;

pub use message_boundary::MessageBoundary;
pub use progress::ProgressDemand;
pub use repeated::{MessageFields, count_fields};

/// The gRPC API of kstore.
pub mod kstore {
    /// Package `kstore.v1`.
    #[expect(missing_docs, clippy::too_many_lines, reason = "generated; the contract is in kstore.proto")]
    pub mod v1 {
        include!("../generated/kstore.v1.in");

        /// The encoded `FileDescriptorSet`, for server reflection.
        pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!("../generated/kstore.v1.bin");
    }

    /// The gRPC API of the lab.
    pub mod lab {
        /// Package `kstore.lab.v1`. It has no generated types: the lab reads and writes messages by their descriptors.
        pub mod v1 {
            /// The encoded `FileDescriptorSet`, with the imported files.
            pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!("../generated/kstore.lab.v1.bin");
        }
    }
}

/// The etcd v3 API. The modules have the names of the proto packages, which are part of the wire protocol.
pub mod etcd {
    /// Package `mvccpb`: keys and events.
    #[expect(missing_docs, reason = "generated; the fields are etcd's")]
    pub mod mvccpb {
        include!("../generated/mvccpb.in");
    }

    /// Package `authpb`: permissions.
    #[expect(missing_docs, reason = "generated; the fields are etcd's")]
    pub mod authpb {
        include!("../generated/authpb.in");
    }

    /// Package `etcdserverpb`: services and their messages.
    #[expect(missing_docs, clippy::too_many_lines, reason = "generated; the fields are etcd's")]
    pub mod etcdserverpb {
        include!("../generated/etcdserverpb.in");
    }
}

/// Kubernetes' interface of key management services.
pub mod kms {
    /// Package `v2`.
    #[expect(missing_docs, clippy::too_many_lines, reason = "generated; the contract is in kms.proto")]
    pub mod v2 {
        include!("../generated/v2.in");
    }
}

/// Kubernetes' interface of container runtimes.
pub mod cri {
    /// Package `runtime.v1`.
    #[expect(missing_docs, clippy::too_many_lines, reason = "generated; the contract is in runtime.proto")]
    pub mod v1 {
        include!("../generated/runtime.v1.in");
    }
}
