//! Refusals of the lab, as Kubernetes `Status` objects (§2.2).

use kstore_api::status::Status;

/// 400: the body, a field or a parameter is wrong. `pointer` is its JSON pointer or the parameter's name.
pub(crate) fn bad_request(pointer: &str, problem: impl std::fmt::Display) -> Status {
    Status::bad_request(format!("{pointer}: {problem}"))
}

/// 403: the caller is no administrator.
pub(crate) fn forbidden(user: &str) -> Status {
    let text = format!("the lab is for members of the group system:masters, and user {user:?} is not one");
    Status::foreign(403, "Forbidden".to_owned(), text)
}

/// 403: the start of the server does not allow this part of the API.
pub(crate) fn not_allowed(text: impl Into<String>) -> Status {
    Status::foreign(403, "Forbidden".to_owned(), text)
}

/// 404: there is no such cluster, image or client.
pub(crate) fn not_found(kind: &str, name: &str) -> Status {
    Status::foreign(404, "NotFound".to_owned(), format!("the lab has no {kind} {name:?}"))
}

/// 409: a name is taken, or another call is in the way.
pub(crate) fn conflict(text: impl Into<String>) -> Status {
    Status::foreign(409, "Conflict".to_owned(), text)
}

/// 410: it was there.
pub(crate) fn gone(text: impl Into<String>) -> Status {
    Status::foreign(410, "Gone".to_owned(), text)
}

/// 413: a body is too large.
pub(crate) fn too_large(bound: usize) -> Status {
    let text = format!("the body of a call of the lab has at most {bound} bytes");
    Status::foreign(413, "RequestEntityTooLarge".to_owned(), text)
}

/// 422: well-formed and impossible.
pub(crate) fn impossible(text: impl Into<String>) -> Status {
    Status::foreign(422, "Invalid".to_owned(), text)
}

/// 429: a bound is reached; a cause has its name.
pub(crate) fn too_many(bound: &str, most: usize, text: impl std::fmt::Display) -> Status {
    let message = format!("{text}: the lab allows {most}; delete something first");
    Status::foreign(429, "TooManyRequests".to_owned(), message).cause("Bound", bound)
}

/// 501: a part of the API that this version has not.
pub(crate) fn not_there_yet(what: &str) -> Status {
    Status::foreign(
        501,
        "NotImplemented".to_owned(),
        format!("{what} is not part of this version of the lab"),
    )
}

/// 504: a limit ran out; the causes list what is busy.
pub(crate) fn timeout(text: impl Into<String>, busy: impl IntoIterator<Item = String>) -> Status {
    let status = Status::foreign(504, "Timeout".to_owned(), text);
    busy.into_iter().fold(status, |status, reason| status.cause("Busy", reason))
}

/// The cluster has ended, or ends.
pub(crate) fn ended() -> Status {
    gone("the cluster has ended")
}
