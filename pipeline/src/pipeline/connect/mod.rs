//! Connections to pods, services and nodes: which node, container and port a request reaches, by Kubernetes' rules. The streams
//! themselves are the front end's (`rest::stream`).

pub mod backend;
pub mod pod;
