//! Hostile clients of the program: limits of their permissions, of the resources that they can use, and of the harm
//! that they can do. Each test is one attack, with bounds on time and load. Attacks that need no sockets are in
//! `hostile` of the binary `sim`.

mod attacks;
mod etcd_port;
mod files;
mod frames;
mod identity;
mod load;
mod program;
mod sockets;
