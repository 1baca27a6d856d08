//! The binary kstore-server: the only place where all crates meet
