//! What a container gets from the objects of the API: variables, files and users, as a kubelet computes them. Pure, and the same for
//! every runtime.

pub mod cgroup;
pub mod cri;
pub mod downward;
pub mod etc;
pub mod raised;
pub mod services;
pub mod user;
pub mod volume;
