//! Requests that race with other writers, and plugins that write or judge streams.

mod fences;
mod images;
mod namespaces;
mod provisioned;
mod quotas;
mod streams;
