//! Sources on any Kubernetes API, through the client of kube-rs. Feature `kube`.
//!
//! [`KubeSource`] is a [`ListerWatcher`](crate::ListerWatcher): it sends requests and reports errors, and the
//! informer recovers. It uses only the client of kube-rs (kubeconfig, credentials, transport), not its
//! watchers, stores or retries.

mod decode;
mod object;
mod refusal;
mod request;
mod source;
mod stream;
#[cfg(test)]
mod tests;
mod versions;

pub use decode::Raw;
pub use object::Kube;
pub use source::KubeSource;
