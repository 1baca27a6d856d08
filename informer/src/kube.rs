//! Sources on any Kubernetes API, through the request layer of kube-rs. Feature `kube`.
//!
//! [`KubeSource`] is a [`ListerWatcher`](crate::ListerWatcher): it asks and reports, and the informer recovers. Of kube-rs it
//! uses the client alone (kubeconfig, credentials, transport); its watchers, stores and retries are not involved.

mod decode;
mod lines;
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
