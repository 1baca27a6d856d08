//! What the queue promises, as properties.
