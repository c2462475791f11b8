//! The sign-in of one endpoint: requests and refusals -> access tokens, shared with other tasks and processes.
//!
//! ```text
//! grant ──────┐
//! challenged ─┴─ turn ─ lock of the store ─ machine ⇄ flow ─ store
//! ```
//!
//! One task at a time signs in or renews. It holds the store's lock, so that other processes wait and then read its
//! result. It runs as a task of its own: a refresh token that was sent is spent, so its answer must be stored even if the
//! request that needed it has been cancelled.

use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use barewire_proto::auth::{
    self, AddressKind, AuthChallenge, Credentials, DPOP, DPOP_NONCE, DpopUse, NetworkPolicy, SecretText, SignInEffect,
    SignInEvent, SignInGrant, SignInSettings, StopReason, Url, server_network,
};
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};

use super::SignInError;
use super::account::{Account, Exceptions};
use super::clock::now;
use super::crypto::{PrivateKey, SystemCrypto};
use super::flow::{Flow, signed_proof};
use super::redirect_listener::RedirectListener;
use super::sign_in::{SignIn, SignInMethod, server_url};
use crate::client::http::fetch::{HttpUrl, PlainFetch};
use crate::client::http::{AccessGrant, Authorizer, FetchError, GrantFuture, RefusedRequest, SignOut, SignOutFuture};
use crate::headers::HeaderMapView;
use crate::log::Log;

/// The sign-in of one endpoint.
pub(super) struct SignInSession(Arc<SessionState>);

/// The state that the tasks of a session share.
pub(super) struct SessionState {
    pub(super) settings: SignIn,
    pub(super) server: Url,
    pub(super) fetch: PlainFetch,
    /// Held by the task that signs in or renews.
    turn: tokio::sync::Mutex<()>,
    machine: Mutex<Machine>,
    log: Log,
}

/// The decisions, and what they were set up with. The lock is never held while something is awaited.
struct Machine {
    decisions: auth::SignIn,
    setup: MachineSetup,
    /// Whether the machine has its settings for a sign-in.
    is_set_up: bool,
    /// Whether the stored account was read.
    is_loaded: bool,
    /// The key that the current token is bound to.
    key: Option<Arc<PrivateKey>>,
    /// Whether the stored account is not used, because the user wants another one.
    is_again: bool,
    /// The exceptions of the settings and of the account.
    exceptions: Exceptions,
}

/// The settings that can change from one sign-in to the next.
#[derive(Clone, PartialEq, Eq)]
struct MachineSetup {
    redirect_uri: String,
    /// The network of the server.
    network: AddressKind,
    exceptions: Exceptions,
}

impl SignInSession {
    pub(super) fn new(settings: SignIn, url: &HttpUrl, fetch: PlainFetch) -> Result<Self, SignInError> {
        let server = server_url(&url.uri().to_string())?;
        let redirect_uri = NO_LISTENER.to_owned();
        let setup = MachineSetup { redirect_uri, network: AddressKind::Public, exceptions: settings.exceptions() };
        let decisions = auth::SignIn::new(machine_settings(&settings, &server, &setup, None), None);
        let (is_again, exceptions) = (settings.is_again, settings.exceptions());
        let machine = Machine { decisions, setup, is_set_up: false, is_loaded: false, key: None, is_again, exceptions };
        Ok(Self(Arc::new(SessionState {
            settings,
            server,
            fetch,
            turn: tokio::sync::Mutex::default(),
            machine: Mutex::new(machine),
            log: Log::default(),
        })))
    }
}

impl Authorizer for SignInSession {
    fn grant(&self) -> GrantFuture<'_> {
        Box::pin(async {
            match self.0.lookup() {
                Lookup::Found(grant) => return Ok(Some(grant)),
                Lookup::NotSignedIn => return Ok(None),
                Lookup::Renew => {}
            }
            let state = Arc::clone(&self.0);
            run(async move { state.renew().await }).await?;
            Ok(self.0.current())
        })
    }

    fn challenged<'a>(&'a self, refusal: RefusedRequest<'a>) -> GrantFuture<'a> {
        let sent = refusal.token.and_then(|_| self.0.machine().decisions.credentials().map(|it| it.token_type));
        let challenge = AuthChallenge::read_for(sent, refusal.status.as_u16(), &HeaderMapView(refusal.headers));
        let refused = refusal.token.map(SecretText::new);
        let (state, address) = (Arc::clone(&self.0), refusal.address);
        Box::pin(async move {
            let has_grant = run(async move { state.sign_in(challenge, refused, address).await }).await?;
            Ok(if has_grant { self.0.current() } else { None })
        })
    }

    fn has_other<'a>(&'a self, token: &'a str) -> Pin<Box<dyn Future<Output = bool> + Send + 'a>> {
        Box::pin(async move {
            let is_other = |credentials: &Credentials| !credentials.access_token.is_same(token);
            if self.0.machine().decisions.credentials().is_some_and(is_other) {
                return true;
            }
            let stored = self.0.settings.store.load(self.0.server.as_str()).await;
            matches!(stored, Ok(Some(account)) if is_other(&account.credentials))
        })
    }

    fn allows_private_networks(&self) -> bool {
        self.0.machine().exceptions.private_networks
    }

    fn sign_out(&self) -> SignOutFuture<'_> {
        let state = Arc::clone(&self.0);
        Box::pin(run(async move { state.sign_out().await }))
    }

    fn responded(&self, status: StatusCode, headers: &HeaderMap) {
        let mut machine = self.0.machine();
        if let Some(nonce) = headers.get(DPOP_NONCE).and_then(|nonce| nonce.to_str().ok()) {
            machine.decisions.set_nonce(&self.0.server, nonce);
        }
        if !matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)
            && machine.decisions.credentials().is_some()
        {
            machine.decisions.step(SignInEvent::Accepted, now(), &mut SystemCrypto::default());
        }
    }
}

/// Runs a sign-in as a task of its own, and waits for it.
async fn run<T: Send + 'static>(
    work: impl Future<Output = Result<T, SignInError>> + Send + 'static,
) -> Result<T, FetchError> {
    Ok(tokio::spawn(work).await.unwrap_or(Err(SignInError::Aborted))?)
}

/// The result of a look at the credentials in memory.
enum Lookup {
    /// They can be used.
    Found(Arc<dyn AccessGrant>),
    /// There are none. If another process signs in, the store is read again after the next refusal.
    NotSignedIn,
    /// They were not read yet, or have expired.
    Renew,
}

impl SessionState {
    fn machine(&self) -> MutexGuard<'_, Machine> {
        self.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lookup(self: &Arc<Self>) -> Lookup {
        let machine = self.machine();
        match machine.decisions.credentials() {
            _ if machine.is_loaded && machine.is_again => Lookup::NotSignedIn,
            None if machine.is_loaded => Lookup::NotSignedIn,
            Some(credentials) if !credentials.is_expired(now()) => Lookup::Found(self.grant_of(credentials)),
            _ => Lookup::Renew,
        }
    }

    /// Returns the grant with the current token, even if it has expired.
    fn current(self: &Arc<Self>) -> Option<Arc<dyn AccessGrant>> {
        let machine = self.machine();
        machine.decisions.credentials().filter(|_| !machine.is_again).map(|credentials| self.grant_of(credentials))
    }

    fn grant_of(self: &Arc<Self>, credentials: &Credentials) -> Arc<dyn AccessGrant> {
        Arc::new(Grant { state: Arc::clone(self), token: credentials.access_token.clone() })
    }

    /// Handles an event, and returns the next effect.
    pub(super) fn step(&self, event: SignInEvent<'_>) -> Result<SignInEffect, SignInError> {
        let mut crypto = SystemCrypto::default();
        let effect = self.machine().decisions.step(event, now(), &mut crypto);
        crypto.check().map(|()| effect)
    }

    /// Uses the account that a store has.
    fn adopt(&self, account: Option<Account>) -> Result<(), SignInError> {
        let mut machine = self.machine();
        machine.is_loaded = true;
        machine.exceptions =
            account.as_ref().map(|it| it.exceptions).unwrap_or_default().with(self.settings.exceptions());
        let key = account.as_ref().and_then(|account| account.credentials.dpop_key.as_ref());
        machine.key = key.map(PrivateKey::from_record).transpose()?.map(Arc::new);
        machine.decisions.set_credentials(account.map(|account| account.credentials));
        Ok(())
    }

    /// Returns the scopes of a sign-in for more scopes, separated by spaces.
    pub(super) fn step_up_scopes(&self) -> Option<String> {
        self.machine().decisions.step_up_scopes().map(ToString::to_string)
    }

    /// Reads the stored account. One that the user replaces need not be readable.
    async fn load(&self) -> Result<Option<Account>, SignInError> {
        match self.settings.store.load(self.server.as_str()).await {
            Err(SignInError::Unreadable { .. }) if self.machine().is_again => Ok(None),
            loaded => loaded,
        }
    }

    /// Reads the stored account, and renews its token if it has expired.
    async fn renew(self: Arc<Self>) -> Result<(), SignInError> {
        let _turn = self.turn.lock().await;
        if let Lookup::Found(_) = self.lookup() {
            return Ok(());
        }
        let account = self.load().await?;
        self.adopt(account)?;
        if self.machine().is_again {
            return Ok(());
        }
        let can_renew = match self.machine().decisions.credentials() {
            // The server has to say what it requires.
            None => return Ok(()),
            Some(credentials) if !credentials.is_expired(now()) => return Ok(()),
            Some(credentials) => credentials.refresh_token.is_some() || !self.settings.is_interactive(),
        };
        if !can_renew {
            return Ok(());
        }
        let _lock = self.settings.store.lock(self.server.as_str()).await?;
        // Another process may have renewed the token while this one waited.
        let account = self.load().await?;
        let found = account.as_ref().map(|account| (account.network, account.exceptions));
        let (network, exceptions) = found.unwrap_or((AddressKind::Public, Exceptions::default()));
        self.adopt(account)?;
        if let Lookup::Found(_) = self.lookup() {
            return Ok(());
        }
        self.obtain(SignInEvent::Expired, network, exceptions).await
    }

    /// Obtains a token that satisfies a challenge. Returns whether the request can be sent again.
    async fn sign_in(
        self: Arc<Self>,
        challenge: AuthChallenge,
        refused: Option<SecretText>,
        address: Option<IpAddr>,
    ) -> Result<bool, SignInError> {
        let _turn = self.turn.lock().await;
        let is_again = self.machine().is_again;
        let refused = match is_again {
            // The account that the user wants to replace counts as refused. Any other one is the result of another process.
            true => self.machine().decisions.credentials().map(|credentials| credentials.access_token.clone()),
            false => refused,
        };
        let is_new = |credentials: &Credentials| {
            refused.as_ref().is_none_or(|refused| !credentials.access_token.is_same(refused.expose()))
        };
        if self.machine().decisions.credentials().is_some_and(is_new) {
            return Ok(true);
        }
        if let Some(nonce) = challenge.dpop_nonce.as_deref().filter(|_| challenge.wants_nonce()) {
            // Many requests can learn a new nonce at the same time, so it does not count how many were refused for it. The
            // number of attempts of each request is limited.
            self.machine().decisions.set_nonce(&self.server, nonce);
            return Ok(true);
        }
        let _lock = self.settings.store.lock(self.server.as_str()).await?;
        let account = self.load().await?;
        let is_newer = |account: &Account| is_new(&account.credentials) && !account.credentials.is_expired(now());
        let is_usable = account.as_ref().is_some_and(is_newer);
        let is_empty = account.is_none();
        let exceptions = account.as_ref().map(|account| account.exceptions).unwrap_or_default();
        self.adopt(account)?;
        if is_usable {
            self.machine().is_again = false;
            return Ok(true);
        }
        if is_again {
            self.machine().ask_the_user();
        }
        // Without credentials and without a user, the refusal of the server says more than an error could.
        if is_empty && self.settings.is_interactive() && self.settings.user.is_none() {
            return Ok(false);
        }
        // The address that has answered, and not one of a new lookup, which could have another result.
        let network = address.map_or(NetworkPolicy::for_server(&self.server).nearest, server_network);
        match self.obtain(SignInEvent::Challenge(challenge), network, exceptions).await {
            Ok(()) => Ok(true),
            // The response of the server is the answer.
            Err(SignInError::Stopped(reason)) if is_final(&reason) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Forgets the account, and tells the authorization server that its tokens are no longer used.
    async fn sign_out(self: Arc<Self>) -> Result<SignOut, SignInError> {
        let _turn = self.turn.lock().await;
        let _lock = self.settings.store.lock(self.server.as_str()).await?;
        let account = match self.settings.store.load(self.server.as_str()).await {
            // There is a file, but no token to revoke.
            Err(SignInError::Unreadable { .. }) => None,
            Ok(None) => return Ok(SignOut::NotSignedIn),
            loaded => loaded?,
        };
        // The account is removed first: it must be gone even if the authorization server does not answer.
        self.settings.store.remove(self.server.as_str()).await?;
        self.adopt(None)?;
        let Some(account) = account else { return Ok(SignOut::Forgotten) };
        let Some(post) = account.credentials.revocation() else { return Ok(SignOut::Forgotten) };
        let policy = policy(&self.server, account.network, account.exceptions.with(self.settings.exceptions()));
        let answer = Flow { state: &self, listener: Err(SignInError::Aborted), policy }.send(&post).await?;
        Ok(match answer {
            Ok(response) if response.status.is_success() => SignOut::Revoked,
            _ => SignOut::Forgotten,
        })
    }

    /// Performs a sign-in or a renewal, and stores the result. `stored` are the exceptions of the last sign-in.
    async fn obtain(
        self: &Arc<Self>,
        event: SignInEvent<'_>,
        network: AddressKind,
        stored: Exceptions,
    ) -> Result<(), SignInError> {
        let exceptions = stored.with(self.settings.exceptions());
        let listener = self.listen().await;
        let redirect_uri = match &listener {
            Ok(listener) => Some(listener.redirect_uri()),
            Err(SignInError::Listen { port: fixed @ 1.., .. }) => Some(RedirectListener::redirect_uri_at(*fixed)),
            // No page is opened, but a stored registration is looked up by its redirect URI.
            Err(_) => self.machine().decisions.credentials().and_then(|stored| stored.client.redirect_uri.clone()),
        };
        let redirect_uri = redirect_uri.unwrap_or_else(|| NO_LISTENER.to_owned());
        let policy = self.set_up(MachineSetup { redirect_uri, network, exceptions })?;
        let effect = self.step(event)?;
        let (account, renewal) = match (Flow { state: self, listener, policy }).run(effect).await {
            Ok((credentials, renewal)) => (Account { credentials, network, exceptions }, renewal),
            Err(error) => {
                if let SignInError::TimedOut { .. } = error {
                    self.forget_registration().await;
                }
                self.give_up(network, exceptions).await;
                return Err(error);
            }
        };
        // The token is used even if it cannot be stored: the old refresh token may be spent.
        self.save(&account).await;
        drop(renewal);
        self.adopt(Some(account))?;
        self.machine().is_again = false;
        Ok(())
    }

    /// Registers anew at the next sign-in, after a page that the user did not finish. An authorization server that has
    /// forgotten the registration shows an error on its page, and nobody tells this client. The tokens of the account stay.
    async fn forget_registration(&self) {
        let Some(id) = self.machine().decisions.forget_registration() else { return };
        // The record in memory can lack the refresh token.
        if let Ok(Some(mut account)) = self.settings.store.load(self.server.as_str()).await
            && account.credentials.client.id == id
        {
            account.credentials.client.redirect_uri = None;
            self.save(&account).await;
        }
    }

    async fn save(&self, account: &Account) {
        if let Err(error) = self.settings.store.save(account).await {
            self.log.report(format_args!("the sign-in to {} is not stored: {error}", self.server.origin()));
        }
    }

    /// Leaves a sign-in that has failed, so that the next one can begin. A refresh token that was refused is removed from
    /// the store: it would be sent again and again.
    async fn give_up(&self, network: AddressKind, exceptions: Exceptions) {
        let credentials = {
            let mut machine = self.machine();
            machine.decisions.step(SignInEvent::Cancelled, now(), &mut SystemCrypto::default());
            let has_lost = machine.decisions.has_lost_refresh_token();
            machine.decisions.credentials().filter(|_| has_lost).cloned()
        };
        if let Some(credentials) = credentials {
            self.save(&Account { credentials, network, exceptions }).await;
        }
    }

    /// Listens for the redirect of the browser, if one can come.
    async fn listen(&self) -> Result<RedirectListener, SignInError> {
        if !matches!(self.settings.method, SignInMethod::Browser) || self.settings.user.is_none() {
            return Err(SignInError::Aborted);
        }
        let fixed = self.settings.redirect_port;
        if fixed == 0 {
            // The authorization server knows the redirect URI of the last sign-in, with its port.
            let known =
                self.machine().decisions.credentials().and_then(|it| port_of(it.client.redirect_uri.as_deref()?));
            if let Some(port) = known
                && let Ok(listener) = RedirectListener::bind(port).await
            {
                return Ok(listener);
            }
        }
        let failed = |why| SignInError::Listen { port: fixed, why: Arc::new(why) };
        RedirectListener::bind(fixed).await.map_err(failed)
    }

    /// Sets the machine up for a sign-in. Returns the networks that it may contact.
    fn set_up(&self, setup: MachineSetup) -> Result<NetworkPolicy, SignInError> {
        let policy = policy(&self.server, setup.network, setup.exceptions);
        let mut machine = self.machine();
        let stored = machine.decisions.credentials().cloned();
        // The same machine counts the attempts of one request.
        let has_fresh_assertion = matches!(self.settings.method, SignInMethod::WorkloadIdentity(_));
        if setup == machine.setup && machine.is_set_up && !has_fresh_assertion {
            return Ok(policy);
        }
        let key = match (self.settings.dpop, stored.as_ref().and_then(|stored| stored.dpop_key.clone())) {
            (DpopUse::Off, _) => None,
            (_, Some(key)) => Some(key),
            (_, None) => Some(PrivateKey::generate()?.to_record()),
        };
        machine.decisions = auth::SignIn::new(machine_settings(&self.settings, &self.server, &setup, key), stored);
        (machine.setup, machine.is_set_up) = (setup, true);
        Ok(policy)
    }
}

impl Machine {
    /// Forgets the refresh token, so that the user is asked.
    fn ask_the_user(&mut self) {
        let mut credentials = self.decisions.credentials().cloned();
        if let Some(credentials) = &mut credentials {
            credentials.refresh_token = None;
        }
        self.decisions.set_credentials(credentials);
    }
}

/// Whether the refusal of the server is the final answer to the request.
fn is_final(reason: &StopReason) -> bool {
    matches!(reason, StopReason::Forbidden | StopReason::NotAChallenge(_))
}

/// Returns the networks that a server in `network` may name URLs of.
fn policy(server: &Url, network: AddressKind, exceptions: Exceptions) -> NetworkPolicy {
    let nearest = match exceptions.private_networks {
        true => network.max(AddressKind::Private),
        false => network,
    };
    NetworkPolicy::for_server(server).nearest(nearest)
}

fn machine_settings(
    settings: &SignIn,
    server: &Url,
    setup: &MachineSetup,
    dpop_key: Option<auth::SigningKey>,
) -> SignInSettings {
    let grant = match &settings.method {
        SignInMethod::Browser => SignInGrant::AuthorizationCode { redirect_uri: setup.redirect_uri.clone() },
        SignInMethod::Device => SignInGrant::DeviceCode,
        SignInMethod::ClientCredentials => SignInGrant::ClientCredentials,
        SignInMethod::EnterpriseManaged(provider) => SignInGrant::EnterpriseManaged(provider.clone()),
        SignInMethod::WorkloadIdentity(assertion) => {
            SignInGrant::WorkloadIdentity { assertion: SecretText::new(assertion().expose()) }
        }
    };
    let mut all = SignInSettings::new(server.clone(), grant, settings.client.clone());
    all.scopes = settings.scopes.clone();
    all.dpop = settings.dpop;
    all.dpop_key = dpop_key;
    all.overrides = setup.exceptions.overrides;
    all.network = policy(server, setup.network, setup.exceptions);
    all
}

fn port_of(redirect_uri: &str) -> Option<u16> {
    Url::parse(redirect_uri).ok().map(|url| url.port())
}

/// An access token, and the key that it is bound to.
struct Grant {
    state: Arc<SessionState>,
    token: SecretText,
}

impl AccessGrant for Grant {
    fn access_token(&self) -> &str {
        self.token.expose()
    }

    fn headers(&self, method: &Method, url: &HttpUrl) -> Result<Vec<(HeaderName, HeaderValue)>, FetchError> {
        self.signed(method, url, None)
    }

    fn headers_with(
        &self,
        method: &Method,
        url: &HttpUrl,
        token: &str,
    ) -> Result<Vec<(HeaderName, HeaderValue)>, FetchError> {
        self.signed(method, url, Some(token))
    }
}

impl Grant {
    /// Returns the headers with this token, or with the token of the sign-in.
    fn signed(
        &self,
        method: &Method,
        url: &HttpUrl,
        token: Option<&str>,
    ) -> Result<Vec<(HeaderName, HeaderValue)>, FetchError> {
        // Another URL than that of the server gets no token.
        let Ok(url) = Url::parse(&url.uri().to_string()) else { return Ok(Vec::new()) };
        let (authorization, proof, key) = {
            let machine = self.state.machine();
            (machine.decisions.authorization(&url), machine.decisions.proof(method.as_str(), &url), machine.key.clone())
        };
        let mut headers = Vec::new();
        if let Some(authorization) = authorization {
            let scheme = authorization.expose().split(' ').next().unwrap_or_default();
            let other = token.map(|token| format!("{scheme} {token}"));
            headers.push((AUTHORIZATION, sensitive(other.as_deref().unwrap_or(authorization.expose()))?));
        }
        if let Some(mut proof) = proof {
            if let Some(token) = token {
                proof.access_token = Some(SecretText::new(token));
            }
            let key = key.ok_or(SignInError::Key("the key of the token is missing; sign in again"))?;
            headers.push((HeaderName::from_static(DPOP), sensitive(&signed_proof(&proof, &key)?)?));
        }
        Ok(headers)
    }
}

/// Returns a header value that is not shown.
pub(super) fn sensitive(text: &str) -> Result<HeaderValue, SignInError> {
    let mut value = HeaderValue::from_str(text).map_err(|_| SignInError::Key("a credential cannot be sent"))?;
    value.set_sensitive(true);
    Ok(value)
}

/// The redirect URI of a session that has not opened a page yet.
const NO_LISTENER: &str = "http://127.0.0.1/callback";
