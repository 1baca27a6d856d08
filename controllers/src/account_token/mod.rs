//! Service account token controller: fills Secrets of type `kubernetes.io/service-account-token` with a token
//! of the account that they name, and deletes them with the account. `plan` decides; this file reads the
//! caches, confirms absent objects with the API server, and executes the plan. Without a key in the
//! configuration it does not run, as kube-controller-manager without `--service-account-private-key-file`.
//!
//! Follows `syncServiceAccount` and `syncSecret`.

mod plan;
#[cfg(test)]
mod tests;

use crate::action::{Action, Propagation, Target};
use crate::apply::Executor;
use crate::caches::{Sources, Watched};
use crate::cluster::{Cluster, Reconcile, ReconcileError, work};
use crate::object::Object;
use crate::resource::resource_of;
use crate::token_signer::{SecretToken, TokenSigner};
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use kstore_client::{ApiError, Obj, WatchParams};
use kstore_informer::{Action as Next, Builder, Context, Index, Informer, Key};
pub(crate) use plan::{ACCOUNT_UID, account_name};
use std::sync::Arc;

const WORKERS: usize = 5;
const OF_TYPE: &str = "type=kubernetes.io/service-account-token";

/// Informer of the Secrets with tokens of service accounts.
#[derive(Clone)]
pub(crate) struct AccountTokens {
    pub informer: Informer<Obj<Secret>>,
    /// Index by the account that the annotation names.
    of_account: Index<Obj<Secret>, Key>,
}

impl Watched for AccountTokens {
    fn start(from: &Sources<'_>) -> Self {
        let of_account = Index::new(|secret: &Obj<Secret>, emit: &mut dyn FnMut(Key)| {
            emit(account_key(secret));
        });
        let source = from.multi.trimmed::<Secret>(WatchParams::default().fields(OF_TYPE));
        let builder = Builder::new(source).index(&of_account);
        let informer = from.start("account-tokens", Some(resource_of::<Secret>()), builder);
        Self { informer, of_account }
    }
}

/// The key of the account that a Secret names.
pub(crate) fn account_key(secret: &Secret) -> Key {
    Key::new(secret.metadata.namespace.as_deref().unwrap_or_default(), account_name(secret))
}

/// Runs the controller until the cluster stops.
pub(crate) fn run(cluster: Arc<Cluster>) -> impl Future<Output = ()> {
    let signer = cluster.config.token_signer.clone();
    if signer.is_none() {
        tracing::warn!(
            "serviceaccount-token-controller does not run: it has no key of service account tokens"
        );
    }
    let running = signer.map(|signer| {
        let (secrets, accounts): (AccountTokens, Informer<Obj<ServiceAccount>>) =
            (cluster.caches.get(), cluster.caches.get());
        let of_account = secrets.clone();
        let controller = cluster
            .controller("serviceaccount-token")
            .watch(&secrets.informer, |secret: &Obj<Secret>| [kstore_informer::Object::key(secret)])
            .watch(&accounts, move |account: &Obj<ServiceAccount>| {
                let secrets =
                    of_account.informer.by(&of_account.of_account, &kstore_informer::Object::key(account));
                secrets.iter().map(|secret| kstore_informer::Object::key(&**secret)).collect::<Vec<_>>()
            })
            .workers(WORKERS);
        let executor = cluster.executor("serviceaccount-token-controller");
        work(controller, cluster.stop.clone(), Tokens { cluster, secrets, accounts, executor, signer })
    });
    async {
        if let Some(running) = running {
            running.await;
        }
    }
}

struct Tokens {
    cluster: Arc<Cluster>,
    secrets: AccountTokens,
    accounts: Informer<Obj<ServiceAccount>>,
    executor: Executor,
    signer: TokenSigner,
}

impl Reconcile for Tokens {
    async fn reconcile(&self, cx: Context) -> Result<Next, ReconcileError> {
        let Some(secret) = self.secrets.informer.get(&cx.key) else {
            return self.remove_references(&cx).await;
        };
        if secret.metadata.deletion_timestamp.is_some() {
            return Ok(Next::Done);
        }
        let action = match self.account_of(&secret).await? {
            None => {
                let target = Target { resource_version: None, ..Target::of::<Secret>(&secret) };
                Action::Delete { target, propagation: Propagation::Default, force: false }
            }
            Some(account) => {
                let root_ca = &self.cluster.config.root_ca;
                let token = match plan::needs_token(&secret) {
                    true => Some(self.sign(&secret, &account)?),
                    false => None,
                };
                match plan::filled(&secret, &account, root_ca, token) {
                    None => return Ok(Next::Done),
                    Some(filled) => Action::Update(Object::of(&filled)),
                }
            }
        };
        match self.executor.execute(&cx, &[action]).await.result() {
            // The cache will show the newer state of the Secret.
            Err(error) if error.is_conflict() || error.is_not_found() => Ok(Next::Done),
            done => Ok(done.map(|()| Next::Done)?),
        }
    }
}

impl Tokens {
    fn sign(&self, secret: &Secret, account: &ServiceAccount) -> Result<String, ReconcileError> {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let token = SecretToken {
            namespace: text(&secret.metadata.namespace),
            secret: text(&secret.metadata.name),
            account: text(&account.metadata.name),
            account_uid: text(&account.metadata.uid),
        };
        self.signer
            .sign(&token)
            .map_err(|why| ReconcileError::Failed(format!("cannot sign a service account token: {why}")))
    }

    /// The account of a Secret. An account that the cache lacks is read from the API server: a Secret may be
    /// created right after its account.
    async fn account_of(&self, secret: &Secret) -> Result<Option<ServiceAccount>, ApiError> {
        let key = account_key(secret);
        if let Some(cached) = self.accounts.get(&key).filter(|account| plan::belongs_to(secret, account)) {
            return Ok(Some((**cached).clone()));
        }
        match self.executor.client.api::<ServiceAccount>().get(key.namespace(), key.name()).await {
            Ok(account) => Ok(Some(account).filter(|account| plan::belongs_to(secret, account))),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Removes a deleted Secret from the lists of the accounts in its namespace.
    async fn remove_references(&self, cx: &Context) -> Result<Next, ReconcileError> {
        let accounts = self.accounts.namespace(cx.key.namespace());
        let without = |account: &Arc<Obj<ServiceAccount>>| plan::without_reference(account, cx.key.name());
        let changed: Vec<ServiceAccount> = accounts.iter().filter_map(without).collect();
        if changed.is_empty() {
            return Ok(Next::Done);
        }
        // The name may belong to a Secret of another type by now.
        match self.executor.client.api::<Secret>().get(cx.key.namespace(), cx.key.name()).await {
            Ok(_) => return Ok(Next::Done),
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error.into()),
        }
        let updates = changed.iter().map(|account| Action::Update(Object::of(account))).collect();
        match self.executor.execute(cx, &[Action::Together(updates)]).await.result() {
            Err(error) if error.is_not_found() => Ok(Next::Done),
            done => Ok(done.map(|()| Next::Done)?),
        }
    }
}
