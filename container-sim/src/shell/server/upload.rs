//! `/upload` of `netexec`: stores the file of a form in the folder `/uploads`.

use super::agnhost::json;
use crate::http::{HttpRequest, HttpResponse};
use crate::shell::env::Env;

const FOLDER: &str = "/uploads";
/// The mode of a stored file, which a client may run next.
const MODE: u32 = 0o744;
/// Attempts to find a name that no file has.
const NAMES: u64 = 10_000;

/// The answer to a request: the path of the new file in `output`, or why there is none in `error`.
pub(super) fn respond(env: &Env, request: &HttpRequest) -> HttpResponse {
    let answer =
        |name: &str, text: &str| HttpResponse::sniffed(200, &format!("{{\"{name}\":{}}}", json(text)));
    let Some(bytes) = file(request) else { return answer("error", "Unable to upload file.") };
    match store(env, bytes) {
        Some(path) => answer("output", &path),
        None => answer("error", "Unable to open file for write"),
    }
}

fn store(env: &Env, bytes: &[u8]) -> Option<String> {
    env.make_folders(FOLDER).ok()?;
    let first = env.now.unsigned_abs();
    let mut paths = (0..NAMES).map(|number| format!("{FOLDER}/upload{}", first.wrapping_add(number)));
    let path = paths.find(|path| env.entry(path).is_none())?;
    env.write(&path, bytes).ok()?;
    env.set_mode(&path, MODE).ok()?;
    Some(path)
}

/// The content of the part `file` of a form.
fn file(request: &HttpRequest) -> Option<&[u8]> {
    let kind = request.header("content-type")?;
    let boundary = kind.split(';').find_map(|part| part.trim().strip_prefix("boundary="))?;
    let boundary = format!("--{}", boundary.trim_matches('"'));
    let mut rest = after(&request.body, boundary.as_bytes())?;
    loop {
        let content = after(rest, b"\r\n\r\n")?;
        let head = String::from_utf8_lossy(&rest[..rest.len() - content.len()]).to_ascii_lowercase();
        let end = format!("\r\n{boundary}");
        let next = after(content, end.as_bytes())?;
        if head.contains("content-disposition: form-data") && head.contains("name=\"file\"") {
            return Some(&content[..content.len() - next.len() - end.len()]);
        }
        rest = next;
    }
}

/// What follows the first occurrence of a text.
fn after<'a>(bytes: &'a [u8], text: &[u8]) -> Option<&'a [u8]> {
    let at = bytes.windows(text.len()).position(|window| window == text)?;
    Some(&bytes[at + text.len()..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::Environment;
    use std::sync::Arc;

    fn request(body: &str) -> HttpRequest {
        let kind = ("Content-Type".to_owned(), "multipart/form-data; boundary=\"x\"".to_owned());
        HttpRequest {
            headers: vec![kind],
            body: body.replace('\n', "\r\n").into_bytes(),
            ..HttpRequest::default()
        }
    }

    #[test]
    fn the_file_of_a_form_is_stored_under_a_new_name_each_time() {
        let env = Env::new(&Arc::new(Environment { now: 7, ..Environment::default() }));
        let form = "--x\nContent-Disposition: form-data; name=\"a\"\n\nb\n--x\n\
                    Content-Disposition: form-data; name=\"file\"; filename=\"f\"\n\n#!/bin/sh\necho 1\n\n--x--\n";
        for path in ["/uploads/upload7", "/uploads/upload8"] {
            let answered = respond(&env, &request(form));
            assert_eq!(String::from_utf8_lossy(&answered.body), format!("{{\"output\":\"{path}\"}}"));
            assert_eq!(&*env.read(path).unwrap(), b"#!/bin/sh\r\necho 1\r\n");
            assert_eq!(env.entry(path).unwrap().mode & 0o777, MODE);
        }
        for broken in ["", "--x\n", "--x\nContent-Disposition: form-data; name=\"file\"\n\nno end"] {
            let answered = respond(&env, &request(broken));
            assert!(String::from_utf8_lossy(&answered.body).starts_with("{\"error\""), "{broken}");
        }
    }
}
