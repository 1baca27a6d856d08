//! HTTP/1.1 as values: requests that are read piece by piece as Go's server reads them, responses as it writes them, and what clients of
//! simulated containers read. Pure; connections are the caller's.

mod reader;
mod request;
mod response;
#[cfg(test)]
mod tests;

pub use reader::{HttpRead, RequestReader};
pub use request::HttpRequest;
pub use response::{HttpResponse, ReceivedResponse, sniffed_type};

/// The lines of a head behind its first one: names and values.
///
/// # Errors
/// A line is no header, as Go's server judges it.
fn headers(lines: std::str::Split<'_, &str>) -> Result<Vec<(String, String)>, ()> {
    let mut all = Vec::new();
    for line in lines {
        let (name, value) = line.split_once(':').ok_or(())?;
        let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
        if name.is_empty() || !name.chars().all(is_token) || value.chars().any(|c| c < ' ' && c != '\t') {
            return Err(());
        }
        all.push((name.to_owned(), value.trim_matches([' ', '\t']).to_owned()));
    }
    Ok(all)
}

/// The value of the first header with this name.
fn header<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    headers.iter().find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
}
