//! Flags of the log.

use super::flag::{Choice, chosen, put, words};
use super::scope::Part;
use super::{Flag, ServerOptions};
use crate::telemetry::LogFormat;

pub(super) const LOGGING: &[Flag<ServerOptions>] = &[Flag::choice(
    ("log-format", "FORMAT"),
    words::<LogFormat>,
    |o: &mut ServerOptions, word| put(&mut o.log_format, chosen(word)),
    "Format of log lines on standard error",
)
.part(Part::Process)
.server_only()
.default("text")
.shaped(|arg| arg.global(true))];

impl Choice for LogFormat {
    const WORDS: &'static [(&'static str, Self, &'static str)] = &[
        ("text", Self::Text, "Text for people"),
        ("json", Self::Json, "One JSON object per line, for programs"),
    ];
}
