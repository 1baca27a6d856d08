//! Wire formats other than JSON. YAML is JSON by the time it gets here; there is only [`protobuf`].

pub mod protobuf;
