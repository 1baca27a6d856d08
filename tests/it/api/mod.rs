//! What clients see of the API through the REST door, area by area.

/// Logs, commands, ports.
mod streams;
