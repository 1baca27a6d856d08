//! [`NamePattern`]: names of a group's nodes. Pure.

use crate::image::hash;

/// Letters of `{random}`, without vowels, as in names that Kubernetes generates.
const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
/// Number of letters of `{random}`.
const RANDOM: u32 = 5;

/// A pattern such as `{group}-{index}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamePattern {
    text: String,
}

/// What stands for the placeholders of a node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placeholders<'a> {
    pub(crate) group: &'a str,
    pub(crate) index: u32,
    pub(crate) zone: &'a str,
    /// Seed of the group, and the number of instances that it made before.
    pub(crate) draw: (u64, u64),
}

impl NamePattern {
    /// A pattern whose names differ.
    ///
    /// # Errors
    /// Neither `{index}` nor `{random}` is in it, or another placeholder is.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if !text.contains("{index}") && !text.contains("{random}") {
            return Err(format!("spec.namePattern {text:?}: must contain {{index}} or {{random}}"));
        }
        let rest = ["{group}", "{index}", "{zone}", "{random}"]
            .iter()
            .fold(text.to_owned(), |rest, known| rest.replace(known, ""));
        if rest.contains(['{', '}']) {
            return Err(format!(
                "spec.namePattern {text:?}: only {{group}}, {{index}}, {{zone}} and {{random}} are known"
            ));
        }
        Ok(Self { text: text.to_owned() })
    }

    /// The name of a node.
    pub(crate) fn name(&self, of: &Placeholders<'_>) -> String {
        fill(&self.text, of)
    }
}

/// A text with its placeholders replaced.
pub(crate) fn fill(text: &str, of: &Placeholders<'_>) -> String {
    if !text.contains('{') {
        return text.to_owned();
    }
    let (seed, count) = of.draw;
    let mut drawn = hash(seed, &[of.group, &count.to_string()]);
    let random = (0..RANDOM).map(|_| {
        let letter = LETTERS[(drawn % LETTERS.len() as u64) as usize];
        drawn /= LETTERS.len() as u64;
        char::from(letter)
    });
    let random: String = random.collect();
    let text = text.replace("{group}", of.group).replace("{zone}", of.zone);
    text.replace("{index}", &of.index.to_string()).replace("{random}", &random)
}
