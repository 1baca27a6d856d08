//! Signing of service account tokens for Secrets: joins the token controller with the key of the API server.

use kstore_access::token::{Bound, LegacyClaims, SigningKey, Tokens};
use kstore_controllers::{SecretToken, TokenSigner};
use std::sync::Arc;

/// Signs with the key of the API server in this process.
pub(crate) fn of_server(tokens: Arc<Tokens>) -> TokenSigner {
    TokenSigner::new(move |token| tokens.sign_legacy(&claims(token)).map_err(|error| error.to_string()))
}

/// Signs with the key of an API server elsewhere.
pub(crate) fn of_key(key: SigningKey) -> TokenSigner {
    TokenSigner::new(move |token| key.sign_legacy(&claims(token)).map_err(|error| error.to_string()))
}

fn claims(token: &SecretToken) -> LegacyClaims {
    let account = Bound { name: token.account.clone(), uid: token.account_uid.clone() };
    LegacyClaims::new(&token.namespace, &token.secret, &account)
}
