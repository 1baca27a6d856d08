//! [`OpenError`]: why a stored value could not be decrypted, in kube-apiserver's words.

/// Why a stored value could not be decrypted. Clients receive the text in the message of a Status.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum OpenError {
    /// The value is too short for the cipher's nonce and tag.
    #[error("the stored data was shorter than the required size")]
    TooShort,
    /// The value cannot be the output of a block cipher.
    #[error("the stored data is not a multiple of the block size")]
    BlockSize,
    /// The decrypted last block has no padding length from 1 to 16.
    #[error("invalid PKCS7 data (empty or not padded)")]
    NoPadding,
    /// The padding bytes differ from the padding length.
    #[error("invalid padding on input")]
    Padding,
    /// AES-GCM: the tag does not authenticate the value under its key.
    #[error("cipher: message authentication failed")]
    Authentication,
    /// secretbox: the tag does not authenticate the value. The text is Kubernetes' own.
    #[error("output array was not large enough for encryption")]
    Secretbox,
    /// The value names a key that the provider does not have.
    #[error("no matching key was found for the provided {0} transformer")]
    NoKey(&'static str),
    /// No configured provider wrote values of this form.
    #[error("no matching prefix found")]
    NoPrefix,
    /// A value of a key management service cannot be decoded, or the service cannot decrypt its key.
    #[error("{0}")]
    Envelope(String),
    /// Several providers failed, each for another reason.
    #[error("[{}]", .0.join(", "))]
    Several(Vec<String>),
}

impl OpenError {
    /// The error of a value that every matching provider or key failed to decrypt; `otherwise` if none
    /// matched.
    pub(super) fn of_all(errors: Vec<Self>, otherwise: Self) -> Self {
        let mut texts: Vec<String> = Vec::new();
        for text in errors.iter().map(Self::to_string) {
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
        match texts.len() {
            0 => otherwise,
            1 => errors.into_iter().next().expect("one text comes from an error"),
            _ => Self::Several(texts),
        }
    }
}
