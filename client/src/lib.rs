//! Typed client over any tower service, in process or over the network
