//! Simulated containers: a shell, files and logs that exist only in memory. Nothing is run on the host.
//!
//! Everything is pure: no I/O, no clock, no `async`. What needs time or input is returned as a [`ShellStep`] or a
//! [`LogStep`], which the caller carries out. The crate knows neither pods nor a transport; `kubelet-sim` has both.
//!
//! Start at [`Shell`] and [`Log`], or with the README:
//!
#![doc = include_str!("../README.md")]

pub mod http;
mod limits;
mod log;
mod script;
mod shell;
mod terminal;
pub mod time;

pub use log::{
    CommandOutput, ContainerRun, Log, LogLine, LogQuery, LogReader, LogStep, LogStream, PrintedLines,
};
pub use script::{LogScript, ScriptedAnswer};
pub use shell::{
    BufferAllowance, BufferCapacity, Content, Disk, DiskCapacity, DiskEntry, DiskFull, DnsAnswer,
    DnsQuestion, DnsRecord, Environment, ImagePrograms, Killed, NetworkCall, NetworkEnd, NetworkFailure,
    NetworkReply, NotRunnable, OutputBytes, ProgramNotFound, Received, ReceivedEnd, RecordKind, Reservation,
    Server, ServerAction, ServerCertificate, ServerEncryption, ServerGreeting, ServerPeer, Shell, ShellStep,
    TlsClient, TlsFailure, TlsTrust, User, WorkMeter, check_runnable, has_program, is_shell, may_read_files,
    may_read_input, name_in_path,
};
pub use terminal::LineDiscipline;
