//! A log written, damaged and cut off as the bytes say reads back as a prefix of what was written.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| kstore_store::fuzzing::wal_replay(bytes));
