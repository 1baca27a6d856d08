//! Hostile clients: limits of their permissions, of the resources that they can use, and of the harm that
//! they can do. Each test is one attack. Attacks that need sockets start the program, with bounds on time and
//! load.

mod authorization;
mod etcd_port;
mod files;
mod identity;
mod input;
mod load;
mod program;
mod sockets;
