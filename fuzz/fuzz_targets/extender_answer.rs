//! Fuzz target: answers of the scheduler's extenders.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| kstore_scheduler::fuzzing::run("extender_answer", bytes));
