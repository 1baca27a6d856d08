//! `agnhost logs-generator`: lines that look like those of an API server, at even intervals.

use super::{Steps, value};
use crate::limits::LONGEST_SLEEP;
use crate::shell::descriptor::next_random;
use crate::shell::env::Env;
use crate::shell::tools::{Effect, Outcome, ToolCall};
use std::time::Duration;

const METHODS: [&str; 3] = ["GET", "POST", "PUT"];
const NAMESPACES: [&str; 3] = ["kube-system", "default", "ns"];
/// The letters of random names in Kubernetes: no vowels, and nothing that looks like another.
const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// Prints a number of lines in a time.
#[derive(Debug)]
struct Generator {
    next: u32,
    total: u32,
    pause: Duration,
    seed: u64,
}

pub(super) fn run(call: &ToolCall<'_>, arguments: &[String]) -> Outcome {
    let total = value(arguments, &["log-lines-total", "t"]).and_then(|text| text.parse::<u32>().ok());
    let run = value(arguments, &["run-duration", "d"])
        .and_then(|text| kstore_go_duration::parse_non_negative(text).ok());
    match (total.filter(|total| *total > 0), run.filter(|run| !run.is_zero())) {
        (None, _) => Outcome::fail(255, "Invalid total number of lines: 0\n".to_owned()),
        (_, None) => Outcome::fail(255, "Invalid duration: 0s\n".to_owned()),
        (Some(total), Some(run)) => {
            let seed = call.env.work.total() ^ call.env.now.unsigned_abs();
            let generator = Generator { next: 0, total, pause: (run / total).min(LONGEST_SLEEP), seed };
            Outcome { then: vec![Effect::Step(Box::new(generator))], ..Outcome::default() }
        }
    }
}

impl Generator {
    fn below(&mut self, most: u32) -> u32 {
        u32::from_le_bytes([(); 4].map(|()| next_random(&mut self.seed))) % most
    }

    fn line(&mut self, env: &Env) -> String {
        let id = self.next;
        let (method, namespace) = (METHODS[self.below(3) as usize], NAMESPACES[self.below(3) as usize]);
        let length = 3 + self.below(2);
        let letter = |generator: &mut Self| char::from(LETTERS[generator.below(27) as usize]);
        let name: String = (0..length).map(|_| letter(self)).collect();
        let status = 200 + self.below(400);
        let now = jiff::Timestamp::from_second(env.now).unwrap_or_default();
        let head = now.strftime("I%m%d %H:%M:%S");
        format!(
            "{head}.000000       1 logs_generator.go:76] {id} {method} /api/v1/namespaces/{namespace}/pods/{name} {status}\n"
        )
    }
}

impl Steps for Generator {
    fn step(mut self: Box<Self>, env: &Env) -> Vec<Effect> {
        if self.next >= self.total {
            return Vec::new();
        }
        let line = self.line(env);
        self.next += 1;
        vec![Effect::Error(line.into_bytes()), Effect::Sleep(self.pause), Effect::Step(self)]
    }
}
