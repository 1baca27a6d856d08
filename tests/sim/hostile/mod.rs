//! Hostile clients of a simulated cluster: limits of their permissions, and of the resources that they can use. Each
//! test is one attack. Attacks that need sockets are in `hostile` of the binary `program`.

mod authorization;
mod former_namespace;
mod input;
