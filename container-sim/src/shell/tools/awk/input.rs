//! Records and fields of awk: cut from the input, and split.

use super::run::{Run, Stop};
use super::value::Value;
use std::sync::Arc;

impl Run<'_> {
    /// Takes the next record from a text. `None` at its end.
    pub(super) fn cut(&mut self, bytes: &Arc<[u8]>, at: &mut usize) -> Result<Option<String>, Stop> {
        let separator = self.variable("RS");
        let separator = self.text(&separator);
        let is_paragraph = separator.is_empty();
        let mut rest = &bytes[(*at).min(bytes.len())..];
        if is_paragraph {
            let blank = rest.iter().take_while(|byte| **byte == b'\n').count();
            *at += blank;
            rest = &rest[blank..];
        }
        if rest.is_empty() {
            return Ok(None);
        }
        let found = match separator.as_bytes() {
            [] => rest.windows(2).position(|pair| pair == b"\n\n").map(|end| (end, end + 2)),
            [byte] => rest.iter().position(|own| own == byte).map(|end| (end, end + 1)),
            _ => {
                let regex = self.compiled(&separator)?;
                let work = &self.call.env.work;
                regex
                    .find(rest, 0, true, work)
                    .and_then(|groups| groups[0])
                    .filter(|(start, end)| end > start)
            }
        };
        let (end, next) = found.unwrap_or((rest.len(), rest.len()));
        *at += next;
        let mut text = String::from_utf8_lossy(&rest[..end]).into_owned();
        if is_paragraph {
            text.truncate(text.trim_end_matches('\n').len());
        }
        self.spend(end + 200)?;
        Ok(Some(text))
    }

    /// Reads the next record of the main input as text; opens files as they are needed.
    pub(super) fn read(&mut self) -> Result<Option<String>, Stop> {
        loop {
            let input = Arc::clone(&self.input);
            let mut at = self.at;
            let found = self.cut(&input, &mut at)?;
            self.at = at;
            if let Some(text) = found {
                for name in ["NR", "FNR"] {
                    let number = self.variable(name).number() + 1.0;
                    self.set(name, Value::Number(number))?;
                }
                return Ok(Some(text));
            }
            if !self.open_next()? {
                return Ok(None);
            }
        }
    }

    pub(super) fn open_next(&mut self) -> Result<bool, Stop> {
        let env = self.call.env;
        loop {
            let Some(file) = self.files.pop_front() else {
                if std::mem::replace(&mut self.has_input, true) {
                    return Ok(false);
                }
                self.grow(self.call.input.len())?;
                (self.input, self.at) = (Arc::from(self.call.input), 0);
                return Ok(true);
            };
            if file.split_once('=').is_some_and(|(name, _)| crate::shell::syntax::is_name(name)) {
                self.assign_word(&file)?;
                continue;
            }
            self.has_input = true;
            if file == "-" {
                self.files.push_front("/dev/stdin".to_owned());
                continue;
            }
            let bytes = match file.as_str() {
                "/dev/stdin" => Ok(Arc::from(self.call.input)),
                file => env.read(&env.path(file)),
            };
            match bytes {
                Ok(bytes) => {
                    self.set("FILENAME", Value::Input(file))?;
                    self.set("FNR", Value::Number(0.0))?;
                    (self.input, self.at) = (bytes, 0);
                    return Ok(true);
                }
                Err(why) => {
                    self.err.push_str(&format!("awk: {file}: {why}\n"));
                    self.code = 2;
                }
            }
        }
    }

    /// Splits a text at `separator`: a blank, one character, or an expression.
    pub(super) fn split(&mut self, text: &str, separator: &str) -> Result<Vec<String>, Stop> {
        self.spend(2 * text.len() + 64)?;
        if text.is_empty() {
            return Ok(Vec::new());
        }
        let paragraph = self.variable("RS");
        let extra = self.text(&paragraph).is_empty();
        Ok(match separator {
            " " => text.split([' ', '\t', '\n']).filter(|part| !part.is_empty()).map(str::to_owned).collect(),
            "" => text.chars().map(String::from).collect(),
            _ if separator.chars().count() == 1
                && separator != "\\"
                && !"^$.[|()*+?{".contains(separator)
                || separator == "|"
                || separator == "." =>
            {
                let c = separator.chars().next().unwrap_or(' ');
                text.split(|own| own == c || (extra && own == '\n')).map(str::to_owned).collect()
            }
            _ => {
                let regex = self.compiled(separator)?;
                let (mut parts, mut from, mut search) = (Vec::new(), 0, 0);
                while let Some((start, end)) = regex
                    .find(text.as_bytes(), search, true, &self.call.env.work)
                    .and_then(|groups| groups[0])
                {
                    if end == start {
                        search = end + 1;
                        if search > text.len() {
                            break;
                        }
                        continue;
                    }
                    parts.push(text[from..start].to_owned());
                    (from, search) = (end, end);
                }
                parts.push(text[from..].to_owned());
                parts
            }
        })
    }
}
