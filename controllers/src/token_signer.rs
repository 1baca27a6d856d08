//! [`TokenSigner`]: signs tokens of service accounts for Secrets. The key and the format of tokens belong to the
//! API server: the program that runs the controllers provides the function.

use std::fmt;
use std::sync::Arc;

/// The account of a token, and the Secret that will hold it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretToken {
    /// The namespace of account and Secret.
    pub namespace: String,
    /// The name of the Secret.
    pub secret: String,
    /// The name of the service account.
    pub account: String,
    /// The uid of the service account.
    pub account_uid: String,
}

type Sign = dyn Fn(&SecretToken) -> Result<String, String> + Send + Sync;

/// A function that signs a token without expiration, with a key that the API server accepts.
#[derive(Clone)]
pub struct TokenSigner(Arc<Sign>);

impl TokenSigner {
    /// A signer from a function that returns the token, or why it cannot be signed.
    pub fn new(sign: impl Fn(&SecretToken) -> Result<String, String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(sign))
    }

    pub(crate) fn sign(&self, token: &SecretToken) -> Result<String, String> {
        (self.0)(token)
    }
}

impl fmt::Debug for TokenSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenSigner")
    }
}
