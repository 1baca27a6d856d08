//! Signing of service account tokens for Secrets: joins the token controller with a key of the API server.

use kstore_access::token::{Bound, LegacyClaims, SigningKey, Tokens};
use kstore_controllers::{SecretToken, TokenSigner};
use std::sync::Arc;

/// A signer for [`kstore_controllers::Config::token_signer`] with the key of an API server in this process.
pub fn token_signer(tokens: Arc<Tokens>) -> TokenSigner {
    TokenSigner::new(move |token| tokens.sign_legacy(&claims(token)).map_err(|error| error.to_string()))
}

/// A signer for [`kstore_controllers::Config::token_signer`] with the key of an API server elsewhere.
pub fn token_signer_of_key(key: SigningKey) -> TokenSigner {
    TokenSigner::new(move |token| key.sign_legacy(&claims(token)).map_err(|error| error.to_string()))
}

fn claims(token: &SecretToken) -> LegacyClaims {
    let account = Bound { name: token.account.clone(), uid: token.account_uid.clone() };
    LegacyClaims::new(&token.namespace, &token.secret, &account)
}
