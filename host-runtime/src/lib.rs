//! Containers that run a program of this machine: which images are mapped to a program, what such a container sees, and the processes that
//! confine it.
//!
//! [`mapping`] and [`plan`] are pure, but for files that they look at: from an image and a container to a program, its command line and its
//! files. [`files`] writes those files, [`child`] starts the program. The process that starts it is this program again, by one of the
//! commands of `launcher`: it makes the namespaces, so that this process, which has threads, need not. [`gateway`] joins a network
//! namespace to a network of this process. [`outside`] opens connections from there to networks beyond it. Nothing here knows an object of
//! the API.

mod cgroup;
pub mod child;
mod confinement;
pub mod files;
pub mod gateway;
mod host;
mod image;
pub mod launch;
pub mod launcher;
mod limits;
mod link;
pub mod mapping;
mod namespace;
pub mod outside;
pub mod plan;
mod processes;
pub mod resources;
mod running;
pub mod terminal;

pub use confinement::IdMap;
pub use host::{ContainerUsages, HostPrograms, MappedProgram};
pub use image::{ImageConfig, UnpackedImage};
pub use link::PodLink;
pub use namespace::NetworkNamespace;
