//! HTTP responses of webhooks: success and failure with the messages of Kubernetes' HTTP client.

use serde_json::Value;

/// Bytes of a body that an error message repeats.
const SHOWN_BYTES: usize = 2048;

/// Status, content type and body of an HTTP response.
#[derive(Clone, Copy, Debug)]
pub struct HttpAnswer<'a> {
    /// Status code.
    pub status: u16,
    /// `Content-Type`; empty if there is none.
    pub content_type: &'a str,
    /// The complete body.
    pub body: &'a [u8],
}

impl HttpAnswer<'_> {
    fn media_type(&self) -> String {
        self.content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
    }

    /// Whether the status code means success.
    #[must_use]
    pub fn is_success(&self) -> bool {
        (200..=206).contains(&self.status)
    }

    /// The body of a successful response.
    ///
    /// # Errors
    /// Kubernetes' message: the status code is not a success, or the body is empty.
    pub fn success(&self) -> Result<&[u8], String> {
        if !self.is_success() {
            return Err(self.failure());
        }
        if self.body.is_empty() {
            let content_type =
                if self.content_type.is_empty() { "application/json" } else { self.content_type };
            return Err(format!(
                "0-length response with status code: {} and content type: {content_type}",
                self.status
            ));
        }
        Ok(self.body)
    }

    /// Message of a failure: from a `Status` in the body, or else from the status code.
    fn failure(&self) -> String {
        let is_text = self.content_type.is_empty() || self.media_type().starts_with("text/");
        if let Some(message) = self.status_message() {
            return message;
        }
        let shown = &self.body[..self.body.len().min(SHOWN_BYTES)];
        let said =
            if is_text { String::from_utf8_lossy(shown).trim().to_owned() } else { "unknown".to_owned() };
        match self.status {
            409 => "the server reported a conflict".to_owned(),
            404 => "the server could not find the requested resource".to_owned(),
            400 => "the server rejected our request for an unknown reason".to_owned(),
            401 => "the server has asked for the client to provide credentials".to_owned(),
            403 => said,
            406 if said.is_empty() || said == "unknown" => {
                "the server was unable to respond with a content type that the client supports".to_owned()
            }
            415 if said.is_empty() || said == "unknown" => {
                "the body of the request was in an unknown format".to_owned()
            }
            406 | 415 => said,
            405 => "the server does not allow this method on the requested resource".to_owned(),
            422 => "the server rejected our request due to an error in our request".to_owned(),
            503 => "the server is currently unable to handle the request".to_owned(),
            504 => "the server was unable to return a response in the time allotted, but may still be \
                    processing the request"
                .to_owned(),
            429 => "the server has received too many requests and has asked us to try again later".to_owned(),
            500.. => {
                let said = Value::from(said);
                format!("an error on the server ({said}) has prevented the request from succeeding")
            }
            code => {
                format!(
                    "the server responded with the status code {code} but did not return more information"
                )
            }
        }
    }

    fn status_message(&self) -> Option<String> {
        let value: Value = serde_json::from_slice(self.body).ok()?;
        let is_v1 = value["apiVersion"].as_str().is_none_or(|version| version == "v1");
        let is_failure = is_v1 && value["kind"] == "Status" && value["status"] == "Failure";
        value["message"].as_str().filter(|_| is_failure).map(str::to_owned)
    }
}
