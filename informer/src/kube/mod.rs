//! Sources on any Kubernetes API, over a [`Transport`]. Feature `rest`; with the feature `kube`, the client of
//! kube-rs is a transport.
//!
//! [`KubeSource`] is a [`ListerWatcher`](crate::ListerWatcher): it sends requests and reports errors, and the
//! informer recovers. Of kube-rs it uses only the client (kubeconfig, credentials, transport), not its
//! watchers, stores or retries.

mod decode;
#[cfg(feature = "kube")]
mod kube_rs;
#[cfg(feature = "kube")]
mod object;
mod refusal;
mod request;
mod source;
mod stream;
#[cfg(test)]
#[cfg(feature = "kube")]
mod tests;
mod transport;
mod versions;

pub use decode::Raw;
#[cfg(feature = "kube")]
pub use object::Kube;
pub use source::KubeSource;
pub use transport::{ResponseBody, Transport};
