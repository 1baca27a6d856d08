//! Redirections: their targets are expanded first, then descriptors are opened in order.

use super::kernel::Kernel;
use super::process::{Process, Saved};
use crate::shell::descriptor::{self, Descriptor, OpenMode, WriteResult};
use crate::shell::expand::ExpandError;
use crate::shell::files::FileError;
use crate::shell::memory::{Buffer, Reservation};
use crate::shell::syntax::{Redirect, RedirectTarget};

impl Process {
    /// The expanded targets, one for each redirection.
    pub(super) fn redirect_targets(
        &mut self,
        kernel: &mut Kernel,
        redirects: &[Redirect],
    ) -> Result<Vec<String>, ExpandError> {
        let mut room = Reservation::new(&kernel.bounds.allowance);
        let mut targets = Vec::new();
        for redirect in redirects {
            let target = match &redirect.target {
                RedirectTarget::Read(word)
                | RedirectTarget::Write(word, _)
                | RedirectTarget::Append(word)
                | RedirectTarget::ReadWrite(word)
                | RedirectTarget::Duplicate(word)
                | RedirectTarget::Both(word, _)
                | RedirectTarget::HereString(word) => self.expand_text(kernel, word, &mut room)?,
                RedirectTarget::HereDocument(text) => match text.get() {
                    Some(word) => self.expand_text(kernel, word, &mut room)?,
                    None => String::new(),
                },
            };
            targets.push(target);
        }
        Ok(targets)
    }

    /// Opens the descriptors. What they were goes to `saved`.
    ///
    /// # Errors
    /// The text of the first error.
    pub(super) fn apply_redirects(
        &mut self,
        kernel: &mut Kernel,
        redirects: &[Redirect],
        targets: &[String],
        saved: &mut Saved,
    ) -> Result<(), String> {
        for (redirect, target) in redirects.iter().zip(targets) {
            let opened = match &redirect.target {
                RedirectTarget::Read(_) => Some(self.open(target, OpenMode::Read)?),
                RedirectTarget::Write(_, clobbers) => {
                    let path = self.state.env.path(target);
                    if self.state.options.noclobber && !clobbers && self.state.env.is_file(&path) {
                        return Err(format!("can't create {target}: File exists"));
                    }
                    Some(self.open(target, OpenMode::Write)?)
                }
                RedirectTarget::Append(_) => Some(self.open(target, OpenMode::Append)?),
                RedirectTarget::ReadWrite(_) => Some(self.open(target, OpenMode::ReadWrite)?),
                RedirectTarget::Both(_, appends) => {
                    let mode = if *appends { OpenMode::Append } else { OpenMode::Write };
                    let opened = self.open(target, mode)?;
                    saved.descriptors.push((2, self.descriptors.insert(2, opened.clone())));
                    Some(opened)
                }
                RedirectTarget::Duplicate(_) => match target.trim_end_matches('-') {
                    "" => None,
                    number => {
                        let number: u32 = number.parse().map_err(|_| format!("{target}: bad fd number"))?;
                        let copy = self.descriptors.get(&number).cloned();
                        Some(copy.ok_or_else(|| format!("{number}: Bad file descriptor"))?)
                    }
                },
                RedirectTarget::HereDocument(_) => Some(Self::text(kernel, target)?),
                RedirectTarget::HereString(_) => Some(Self::text(kernel, &format!("{target}\n"))?),
            };
            let number = redirect.descriptor;
            let before = match opened {
                Some(opened) => self.descriptors.insert(number, opened),
                None => self.descriptors.remove(&number),
            };
            saved.descriptors.push((number, before));
        }
        Ok(())
    }

    fn text(kernel: &Kernel, text: &str) -> Result<Descriptor, String> {
        let mut bytes = Buffer::new(&kernel.bounds);
        if bytes.push(text.as_bytes()) {
            Ok(descriptor::text(bytes))
        } else {
            Err("out of memory".to_owned())
        }
    }

    /// Opens a file, or one of the names that stand for open descriptors.
    pub(super) fn open(&self, given: &str, mode: OpenMode) -> Result<Descriptor, String> {
        let path = self.state.env.path(given);
        let number = match path.as_str() {
            "/dev/stdin" => Some(0),
            "/dev/stdout" => Some(1),
            "/dev/stderr" => Some(2),
            path => path
                .strip_prefix("/dev/fd/")
                .or_else(|| path.strip_prefix("/proc/self/fd/"))
                .or_else(|| path.strip_prefix("/proc/1/fd/"))
                .and_then(|number| number.parse().ok()),
        };
        let opened = match number {
            Some(number) => self.descriptors.get(&number).cloned().ok_or(FileError::Missing),
            None => descriptor::open(&self.state.env, given, mode),
        };
        opened.map_err(|why| match (mode, why) {
            (OpenMode::Read, FileError::Missing) => format!("can't open {given}: no such file"),
            (OpenMode::Read, why) => format!("can't open {given}: {why}"),
            (_, FileError::Missing) => format!("can't create {given}: nonexistent directory"),
            (_, why) => format!("can't create {given}: {why}"),
        })
    }

    /// Writes bytes to a descriptor. Returns false if the process must not go on: its pipe has no reader.
    pub(in crate::shell) fn print(&mut self, kernel: &mut Kernel, number: u32, bytes: &[u8]) -> bool {
        if bytes.is_empty() {
            return true;
        }
        match Buffer::of(bytes.to_vec(), &kernel.bounds) {
            Some(buffer) => self.print_buffer(kernel, number, buffer),
            None => {
                self.state.code = 1;
                kernel.bounds.work.kill(crate::shell::Killed::Memory);
                false
            }
        }
    }

    /// Writes bytes whose memory is reserved. What a pipe has no space for is kept, and the process waits before its next frame.
    pub(in crate::shell) fn print_buffer(&mut self, kernel: &mut Kernel, number: u32, bytes: Buffer) -> bool {
        let Some(descriptor) = self.descriptors.get(&number).cloned() else {
            if number != 2 {
                self.print(kernel, 2, b"write error: Bad file descriptor\n");
            }
            self.state.code = 1;
            return true;
        };
        if !self.pending.is_empty() {
            self.pending.push_back((descriptor, bytes, 0));
            return true;
        }
        match descriptor.write(&self.state.env, bytes.as_ref()) {
            WriteResult::Channel(channel) => kernel.print_buffer(channel, bytes),
            WriteResult::Written(count) if count < bytes.len() => {
                self.pending.push_back((descriptor, bytes, count));
            }
            WriteResult::Written(_) => {}
            WriteResult::Broken => {
                self.signals.push(super::signal::PIPE);
                return false;
            }
            WriteResult::Failed(why) => {
                self.state.code = 1;
                if number != 2 {
                    self.complain(kernel, &format!("write error: {why}"));
                }
            }
        }
        true
    }

    /// Writes what is kept. Returns false if the process must still wait.
    pub(super) fn flush(&mut self, kernel: &mut Kernel) -> bool {
        while let Some((descriptor, bytes, at)) = self.pending.pop_front() {
            match descriptor.write(&self.state.env, &bytes.as_ref()[at..]) {
                WriteResult::Channel(channel) => kernel.print(channel, &bytes.as_ref()[at..]),
                WriteResult::Written(count) if at + count < bytes.len() => {
                    self.pending.push_front((descriptor, bytes, at + count));
                    return false;
                }
                WriteResult::Written(_) | WriteResult::Failed(_) => {}
                WriteResult::Broken => {
                    self.pending.clear();
                    self.signals.push(super::signal::PIPE);
                    self.take_signals(kernel);
                    return self.ended.is_none();
                }
            }
        }
        true
    }
}
