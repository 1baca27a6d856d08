//! Simulated nodes: register, heartbeat, run pods without containers
