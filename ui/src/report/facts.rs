//! [`Facts`]: what a report has besides objects and writes: what the scheduler says about pods, readings of the metrics, and marks.
//! Pure.

use super::chunk::{ChunkWriter, append};
use super::encode::Lost;
use super::limits::{FACT_BYTES, FACT_INFLATED_BYTES, MARK_BYTES, MARKS};
use super::loss::Loss;
use super::mask::mask_credentials;
use serde_json::{Value, json};

/// What a mark is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkKind {
    /// Something that a plan did to the cluster or its clients.
    Fault,
    /// The begin or the end of a test, or of a part of one.
    Test,
    /// A revision to which a tag gives a name.
    Tag,
}

impl MarkKind {
    fn word(self) -> &'static str {
        match self {
            Self::Fault => "fault",
            Self::Test => "test",
            Self::Tag => "tag",
        }
    }
}

/// A place in the life of a cluster with a text, which slider and timeline show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// What it is about.
    pub kind: MarkKind,
    /// The newest revision at that moment.
    pub revision: i64,
    /// What happened, in a phrase. Its end is cut if it is longer than 512 bytes.
    pub text: String,
}

impl Mark {
    fn line(&self) -> Value {
        let end = self.text.floor_char_boundary(MARK_BYTES);
        let text = match end < self.text.len() {
            true => format!("{}…", &self.text[..end]),
            false => self.text.clone(),
        };
        let mut line = json!({"kind": self.kind.word(), "r": self.revision, "text": text});
        mask_credentials(&mut line);
        line
    }
}

/// What a report has besides objects and writes.
#[derive(Debug, Default)]
pub(super) struct Facts {
    /// What the scheduler says about pods, the most important first.
    pub(super) placements: Vec<Value>,
    /// Number of pods that nobody asked about.
    pub(super) placements_left_out: usize,
    /// Readings of the server's metrics.
    pub(super) server: Vec<Value>,
    pub(super) marks: Vec<Mark>,
}

impl Facts {
    /// The chunks that there are lines for, and what was left out of them. They have at most [`FACT_BYTES`], and at most `most` bytes.
    pub(super) fn encode(&self, most: usize) -> (Vec<u8>, Lost) {
        let (mut data, mut lost) = (Vec::new(), Lost::new());
        let mut room = (most.min(FACT_BYTES), FACT_INFLATED_BYTES);
        let mut marks: Vec<Value> = self.marks.iter().map(Mark::line).collect();
        marks.sort_by_key(|mark| mark["r"].as_i64());
        marks.truncate(MARKS);
        let left = self.marks.len() - chunk(&mut data, &mut room, "marks", &marks);
        lose(&mut lost, Loss::Marks, left);
        chunk(&mut data, &mut room, "server", &self.server);
        let left = self.placements.len() - chunk(&mut data, &mut room, "attempts", &self.placements);
        lose(&mut lost, Loss::Attempts, left + self.placements_left_out);
        (data, lost)
    }
}

fn lose(lost: &mut Lost, loss: Loss, number: usize) {
    if number > 0 {
        lost.insert(loss, number);
    }
}

/// Appends a chunk with as many of the first lines as there is room for, and takes it from the room. Returns their number.
fn chunk(out: &mut Vec<u8>, room: &mut (usize, usize), kind: &str, lines: &[Value]) -> usize {
    // A chunk that is a quarter smaller than the one before has room in the end.
    let counts = std::iter::successors(Some(lines.len()), |count| Some(count * 3 / 4));
    for count in counts.take_while(|count| *count > 0) {
        let mut chunk = ChunkWriter::new(room.0, room.1);
        if lines[..count].iter().try_for_each(|line| chunk.line(line)).is_err() {
            continue;
        }
        let before = out.len();
        let Ok((content, inflated)) = chunk.finish() else { continue };
        append(out, kind, &content);
        match room.0.checked_sub(out.len() - before) {
            Some(left) => {
                *room = (left, room.1 - inflated);
                return count;
            }
            None => out.truncate(before),
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::super::chunk::{FIRST_LINE, read};
    use super::*;

    fn facts(pods: usize) -> Facts {
        // Numbers that do not deflate to nothing.
        let text = |at: usize| {
            (0..40).map(|n| char::from(b'a' + ((at * 31 + n * n * 7) % 26) as u8)).collect::<String>()
        };
        Facts {
            placements: (0..pods).map(|at| json!({"pod": format!("default/{}-{at}", text(at))})).collect(),
            placements_left_out: 2,
            server: vec![json!({"metrics": "a 1"})],
            marks: vec![
                Mark { kind: MarkKind::Test, revision: 9, text: "end".to_owned() },
                Mark { kind: MarkKind::Tag, revision: 4, text: "é".repeat(MARK_BYTES) },
            ],
        }
    }

    fn chunks(data: &[u8]) -> Vec<(String, Vec<Value>)> {
        read(&[FIRST_LINE.as_bytes(), data].concat())
    }

    #[test]
    fn marks_are_in_order_and_their_texts_are_bounded() {
        let (data, lost) = facts(3).encode(usize::MAX);
        let found = chunks(&data);
        let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!((names, lost), (vec!["marks", "server", "attempts"], Lost::from([(Loss::Attempts, 2)])));
        assert_eq!(
            (&found[0].1[0]["r"], &found[0].1[1]),
            (&json!(4), &json!({"kind": "test", "r": 9, "text": "end"}))
        );
        let text = found[0].1[0]["text"].as_str().unwrap();
        assert!(text.len() <= MARK_BYTES + 3 && text.ends_with("é…"), "{}", text.len());
        let secret =
            Mark { kind: MarkKind::Fault, revision: 1, text: "-----BEGIN PRIVATE KEY-----".to_owned() };
        assert!(!secret.line().to_string().contains("BEGIN"));
    }

    /// The first pods stay: they are those that wait.
    #[test]
    fn in_any_room_the_first_lines_fit_and_the_others_are_counted() {
        let facts = facts(400);
        let whole = facts.encode(usize::MAX).0.len();
        for most in [0, 10, 200, whole / 2, whole - 1, whole] {
            let (data, lost) = facts.encode(most);
            assert!(data.len() <= most, "{} in {most}", data.len());
            let found = chunks(&data);
            let own = found.iter().find(|(name, _)| name == "attempts").map_or(&[][..], |(_, lines)| lines);
            assert_eq!(own, &facts.placements[..own.len()], "{most}");
            assert_eq!(lost[&Loss::Attempts], 402 - own.len(), "{most}");
        }
        assert_eq!(facts.encode(whole).1[&Loss::Attempts], 2);
    }

    #[test]
    fn more_marks_than_a_report_has_are_counted() {
        let mark = |revision| Mark { kind: MarkKind::Fault, revision, text: String::new() };
        let facts = Facts { marks: (0..1_003).map(mark).collect(), ..Facts::default() };
        assert_eq!(facts.encode(usize::MAX).1, Lost::from([(Loss::Marks, 3)]));
    }
}
