//! Places of a program and of a text.

/// Places of a program that were reached.
pub(super) struct Seen {
    marks: Vec<u32>,
    round: u32,
}

impl Seen {
    pub(super) fn new(length: usize) -> Self {
        Self { marks: std::iter::repeat_n(0, length).collect(), round: 0 }
    }

    pub(super) fn clear(&mut self) {
        self.round += 1;
    }

    pub(super) fn insert(&mut self, place: usize) -> bool {
        let new = self.marks[place] != self.round;
        self.marks[place] = self.round;
        new
    }
}

/// The first character, and its length in bytes. A byte that is no UTF-8 is a character of its own.
pub(super) fn decode(bytes: &[u8]) -> (char, usize) {
    let Some(&first) = bytes.first() else { return ('\0', 1) };
    if first.is_ascii() {
        return (char::from(first), 1);
    }
    let length = match first {
        0xc0..=0xdf => 2,
        0xe0..=0xef => 3,
        _ => 4,
    };
    let text = bytes.get(..length).and_then(|bytes| std::str::from_utf8(bytes).ok());
    text.and_then(|text| text.chars().next()).map_or((char::from(first), 1), |c| (c, length))
}
