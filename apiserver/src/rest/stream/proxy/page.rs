//! Rewriting of links in HTML; the rest of the page is copied unchanged. The scanner knows tags, comments and
//! raw-text elements, but not what they mean. Pure.

/// Attributes that are links, by element.
const LINKS: [(&str, &[&str]); 26] = [
    ("a", &["href"]),
    ("applet", &["codebase"]),
    ("area", &["href"]),
    ("audio", &["src"]),
    ("base", &["href"]),
    ("blockquote", &["cite"]),
    ("body", &["background"]),
    ("button", &["formaction"]),
    ("command", &["icon"]),
    ("del", &["cite"]),
    ("embed", &["src"]),
    ("form", &["action"]),
    ("frame", &["longdesc", "src"]),
    ("head", &["profile"]),
    ("html", &["manifest"]),
    ("iframe", &["longdesc", "src"]),
    ("img", &["longdesc", "src", "usemap"]),
    ("input", &["src", "usemap", "formaction"]),
    ("ins", &["cite"]),
    ("link", &["href"]),
    ("object", &["classid", "codebase", "data", "usemap"]),
    ("q", &["cite"]),
    ("script", &["src"]),
    ("source", &["src"]),
    ("track", &["src"]),
    ("video", &["poster", "src"]),
];

/// Raw-text elements: their content has no markup.
const RAW: [&str; 8] = ["iframe", "noembed", "noframes", "script", "style", "textarea", "title", "xmp"];

/// Copies a page, with each link replaced by the result of `link`.
pub(super) fn rewrite(page: &str, link: impl Fn(&str) -> String) -> String {
    let mut out = String::with_capacity(page.len() + page.len() / 8);
    let mut rest = page;
    while let Some(at) = rest.find('<') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let length = match rest.as_bytes().get(1) {
            _ if rest.starts_with("<!--") => rest.find("-->").map_or(rest.len(), |end| end + 3),
            Some(c) if c.is_ascii_alphabetic() => tag(rest, &mut out, &link),
            Some(b'/' | b'!' | b'?') => rest.find('>').map_or(rest.len(), |end| end + 1),
            Some(_) | None => 1,
        };
        // `tag` has written the tag already.
        if !rest.as_bytes().get(1).is_some_and(u8::is_ascii_alphabetic) {
            out.push_str(&rest[..length]);
        }
        rest = &rest[length..];
    }
    out.push_str(rest);
    out
}

/// Copies the tag at the beginning of `text`, with its raw text; returns their length.
fn tag(text: &str, out: &mut String, link: &impl Fn(&str) -> String) -> usize {
    let blank = |c: char| c.is_ascii_whitespace() || c == '/';
    let end = text[1..].find(|c: char| blank(c) || c == '>').map_or(text.len(), |end| end + 1);
    let name = text[1..end].to_ascii_lowercase();
    let wanted = LINKS.iter().find(|(element, _)| *element == name).map_or(&[][..], |(_, links)| *links);
    let (mut at, mut written) = (end, 0);
    loop {
        at += text[at..].len() - text[at..].trim_start_matches(blank).len();
        let rest = &text[at..];
        if rest.is_empty() || rest.starts_with('>') {
            at = (at + 1).min(text.len());
            break;
        }
        let attribute = Attribute::read(rest);
        if wanted.contains(&attribute.name.to_ascii_lowercase().as_str()) {
            out.push_str(&text[written..at + attribute.value.start]);
            out.push_str(&link(&rest[attribute.value.clone()]));
            written = at + attribute.value.end;
        }
        at += attribute.length;
    }
    let at = if RAW.contains(&name.as_str()) { at + raw(&text[at..], &name) } else { at };
    out.push_str(&text[written..at]);
    at
}

/// The length of the raw text before the end tag of `name`.
fn raw(text: &str, name: &str) -> usize {
    let end = format!("</{name}");
    let ends =
        |at: &usize| text.get(*at..*at + end.len()).is_some_and(|found| found.eq_ignore_ascii_case(&end));
    text.match_indices("</").map(|(at, _)| at).find(ends).unwrap_or(text.len())
}

struct Attribute<'a> {
    name: &'a str,
    /// The range of the value, relative to the attribute; empty if it has none.
    value: std::ops::Range<usize>,
    length: usize,
}

impl<'a> Attribute<'a> {
    /// Parses the attribute at the beginning of `text`.
    fn read(text: &'a str) -> Self {
        // An equals sign as first character belongs to the name.
        let first = text.chars().next().map_or(0, char::len_utf8);
        let ends = |c: char| c.is_ascii_whitespace() || matches!(c, '/' | '>' | '=');
        let end = text[first..].find(ends).map_or(text.len(), |end| end + first);
        let name = &text[..end];
        let after = text[end..].trim_start();
        let Some(value) = after.strip_prefix('=') else { return Self { name, value: end..end, length: end } };
        let value = value.trim_start();
        let start = text.len() - value.len();
        let quote = value.chars().next().filter(|c| matches!(c, '"' | '\''));
        let (start, length) = match quote {
            Some(quote) => (start + 1, value[1..].find(quote)),
            None => (start, value.find(|c: char| c.is_ascii_whitespace() || c == '>')),
        };
        let end = length.map_or(text.len(), |length| start + length);
        let length = (end + usize::from(quote.is_some())).min(text.len());
        Self { name, value: start..end, length }
    }
}
