//! The log on the simulated disk.
