//! Wire formats other than JSON: only [`protobuf`]. YAML is converted to JSON before it arrives here.

pub mod protobuf;
