//! What only this engine promises: see the conformance suite for what all do.
