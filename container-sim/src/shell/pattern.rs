//! File name patterns: `*`, `?`, `[…]` and the extended ones of bash, in linear memory and with a count of steps. A backslash quotes the
//! next character.

use super::work::WorkMeter;

/// A parsed pattern.
#[derive(Debug)]
pub(super) struct Pattern(Vec<Piece>);

#[derive(Debug)]
enum Piece {
    Char(char),
    Any,
    Star,
    /// A set; the flag says that it is negated.
    Set(Vec<SetItem>, bool),
    /// `?(…)`, `*(…)`, `+(…)`, `@(…)` and `!(…)`.
    Group(char, Vec<Pattern>),
}

#[derive(Debug)]
enum SetItem {
    Range(char, char),
    Class(Class),
}

/// A named class of characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    Alpha,
    Digit,
    Alnum,
    Upper,
    Lower,
    Space,
    Blank,
    Punct,
    Print,
    Graph,
    Cntrl,
    XDigit,
}

impl Class {
    /// The class of this name.
    pub(super) fn of(name: &str) -> Option<Self> {
        Some(match name {
            "alpha" => Self::Alpha,
            "digit" => Self::Digit,
            "alnum" => Self::Alnum,
            "upper" => Self::Upper,
            "lower" => Self::Lower,
            "space" => Self::Space,
            "blank" => Self::Blank,
            "punct" => Self::Punct,
            "print" => Self::Print,
            "graph" => Self::Graph,
            "cntrl" => Self::Cntrl,
            "xdigit" => Self::XDigit,
            _ => return None,
        })
    }

    /// Whether a character is in the class.
    pub(super) fn has(self, c: char) -> bool {
        match self {
            Self::Alpha => c.is_alphabetic(),
            Self::Digit => c.is_ascii_digit(),
            Self::Alnum => c.is_alphanumeric(),
            Self::Upper => c.is_uppercase(),
            Self::Lower => c.is_lowercase(),
            Self::Space => c.is_ascii_whitespace() || c == '\x0b',
            Self::Blank => matches!(c, ' ' | '\t'),
            Self::Punct => c.is_ascii_punctuation(),
            Self::Print => !c.is_control(),
            Self::Graph => !c.is_control() && c != ' ',
            Self::Cntrl => c.is_control(),
            Self::XDigit => c.is_ascii_hexdigit(),
        }
    }
}

/// Groups inside of groups.
const GROUPS: usize = 4;

impl Pattern {
    /// Parses a pattern; `extended` allows the groups of bash.
    pub(super) fn parse(text: &str, extended: bool) -> Self {
        let chars: Vec<char> = text.chars().collect();
        Self::parse_at(&chars, extended, 0)
    }

    fn parse_at(chars: &[char], extended: bool, depth: usize) -> Self {
        let (mut pieces, mut at) = (Vec::new(), 0);
        while let Some(&c) = chars.get(at) {
            at += 1;
            let group = (extended && depth < GROUPS && "?*+@!".contains(c) && chars.get(at) == Some(&'('))
                .then(|| alternatives(chars, at + 1))
                .flatten();
            if let Some((parts, end)) = group {
                let parts = parts.into_iter().map(|part| Self::parse_at(part, extended, depth + 1));
                pieces.push(Piece::Group(c, parts.collect()));
                at = end;
                continue;
            }
            match c {
                '\\' => {
                    pieces.push(Piece::Char(chars.get(at).copied().unwrap_or('\\')));
                    at += 1;
                }
                '*' => {
                    if !matches!(pieces.last(), Some(Piece::Star)) {
                        pieces.push(Piece::Star);
                    }
                }
                '?' => pieces.push(Piece::Any),
                '[' => match set(chars, at) {
                    Some((items, negated, end)) => {
                        pieces.push(Piece::Set(items, negated));
                        at = end;
                    }
                    None => pieces.push(Piece::Char('[')),
                },
                c => pieces.push(Piece::Char(c)),
            }
        }
        Self(pieces)
    }

    /// Whether the whole text matches.
    pub(super) fn matches(&self, text: &[char], work: &WorkMeter) -> bool {
        self.ends(text, 0, work, 0).last() == Some(&text.len())
    }

    /// Where matches that begin at `start` end, ascending.
    pub(super) fn ends(&self, text: &[char], start: usize, work: &WorkMeter, depth: usize) -> Vec<usize> {
        // The places at which the pieces so far can end: one flag for each.
        let mut places = vec![start];
        for piece in &self.0 {
            if places.is_empty() || !work.spend(16 * places.len() + 64) {
                return Vec::new();
            }
            places = match piece {
                Piece::Star => (places[0]..=text.len()).collect(),
                Piece::Group(kind, parts) => group_ends(*kind, parts, text, &places, work, depth),
                piece => places
                    .into_iter()
                    .filter(|place| text.get(*place).is_some_and(|c| piece.has(*c)))
                    .map(|place| place + 1)
                    .collect(),
            };
            work.spend(places.len());
        }
        places
    }
}

impl Piece {
    fn has(&self, c: char) -> bool {
        match self {
            Self::Char(own) => *own == c,
            Self::Any => true,
            Self::Set(items, negated) => {
                let has = |item: &SetItem| match item {
                    SetItem::Range(first, last) => (*first..=*last).contains(&c),
                    SetItem::Class(class) => class.has(c),
                };
                items.iter().any(has) != *negated
            }
            Self::Star | Self::Group(..) => false,
        }
    }
}

fn group_ends(
    kind: char,
    parts: &[Pattern],
    text: &[char],
    places: &[usize],
    work: &WorkMeter,
    depth: usize,
) -> Vec<usize> {
    let mut found = std::collections::BTreeSet::new();
    for &place in places {
        let once = |from: usize| -> Vec<usize> {
            parts.iter().flat_map(|part| part.ends(text, from, work, depth + 1)).collect()
        };
        match kind {
            '!' => {
                let taken = once(place);
                found.extend((place..=text.len()).filter(|end| !taken.contains(end)));
            }
            '@' => found.extend(once(place)),
            '?' => {
                found.insert(place);
                found.extend(once(place));
            }
            _ => {
                let mut next = once(place);
                if kind == '*' {
                    found.insert(place);
                }
                while let Some(end) = next.pop() {
                    if found.insert(end) && end > place && work.spend(8) {
                        next.extend(once(end));
                    }
                }
            }
        }
        if !work.spend(text.len() + 64) {
            break;
        }
    }
    found.into_iter().collect()
}

/// The alternatives of a group that begins at `at`, and the place behind its parenthesis.
fn alternatives(chars: &[char], at: usize) -> Option<(Vec<&[char]>, usize)> {
    let (mut parts, mut start, mut open, mut here) = (Vec::new(), at, 0usize, at);
    while let Some(&c) = chars.get(here) {
        match c {
            '\\' => here += 1,
            '(' => open += 1,
            '|' if open == 0 => {
                parts.push(&chars[start..here]);
                start = here + 1;
            }
            ')' if open == 0 => {
                parts.push(&chars[start..here]);
                return Some((parts, here + 1));
            }
            ')' => open -= 1,
            _ => {}
        }
        here += 1;
    }
    None
}

/// The set that begins behind `[` at `at`: its items, whether it is negated, and the place behind `]`.
fn set(chars: &[char], mut at: usize) -> Option<(Vec<SetItem>, bool, usize)> {
    let negated = matches!(chars.get(at), Some('!' | '^'));
    at += usize::from(negated);
    let (mut items, first) = (Vec::new(), at);
    loop {
        let mut c = *chars.get(at)?;
        if c == ']' && at > first {
            return Some((items, negated, at + 1));
        }
        if c == '['
            && chars.get(at + 1) == Some(&':')
            && let Some(length) = chars[at + 2..].iter().position(|c| *c == ':')
            && chars.get(at + 3 + length) == Some(&']')
        {
            let name: String = chars[at + 2..at + 2 + length].iter().collect();
            items.push(SetItem::Class(Class::of(&name)?));
            at += length + 4;
            continue;
        }
        if c == '\\' {
            at += 1;
            c = *chars.get(at)?;
        }
        at += 1;
        let last = match (chars.get(at), chars.get(at + 1)) {
            (Some('-'), Some(last)) if *last != ']' => {
                at += 2;
                *last
            }
            _ => c,
        };
        items.push(SetItem::Range(c, last));
    }
}

/// A text in which all pattern characters are quoted.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        if "*?[]\\!-^()|+@".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, text: &str) -> bool {
        let text: Vec<char> = text.chars().collect();
        Pattern::parse(pattern, true).matches(&text, &WorkMeter::default())
    }

    #[test]
    fn patterns_match_as_in_a_shell() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("a*c", "abc", true),
            ("a*c", "abcd", false),
            ("a?c", "abc", true),
            ("[a-c]x", "bx", true),
            ("[!a-c]x", "bx", false),
            ("[[:digit:]]*", "7a", true),
            ("[]]", "]", true),
            ("[a", "[a", true),
            ("\\*", "*", true),
            ("\\*", "a", false),
            ("@(a|bc)d", "bcd", true),
            ("!(a)", "a", false),
            ("!(a)", "b", true),
            ("+(ab)", "ababab", true),
            ("+(ab)", "", false),
            ("*(ab)c", "c", true),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn hostile_patterns_take_polynomial_work() {
        let work = WorkMeter::default();
        let text = vec!['a'; 500];
        let pattern = Pattern::parse(&format!("{}b", "*a".repeat(200)), true);
        assert!(!pattern.matches(&text, &work));
        assert!(work.total() < 20_000_000, "{}", work.total());
        let nested = "+(".repeat(GROUPS) + "a" + &")".repeat(GROUPS) + "b";
        assert!(!Pattern::parse(&nested, true).matches(&text[..24], &work));
    }
}
