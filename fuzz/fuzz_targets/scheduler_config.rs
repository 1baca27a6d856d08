//! Fuzz target: KubeSchedulerConfigurations.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| kstore_scheduler::fuzzing::run("scheduler_config", bytes));
