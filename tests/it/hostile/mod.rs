//! Callers who mean harm, or behave as if they did: what they may not do, cannot use up, and cannot stop. Each test names one attack;
//! those that need sockets start the program itself, bounded in time and load.

mod authorization;
mod etcd_port;
mod files;
mod identity;
mod input;
mod load;
mod program;
mod sockets;
