//! The settings of a sign-in, as an application gives them.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use barewire_proto::auth::{
    ClientIdentity, ConfiguredClient, DpopUse, IdentityProvider, Overrides, Scopes, StopReason, Url,
};

use super::SignInError;
use super::account::Exceptions;
use super::crypto::PrivateKey;
use super::session::SignInSession;
use super::store::{CredentialStore, FileStore};
use super::user::{Browser, SignInUser};
use crate::client::http::fetch::{Fetch, HttpUrl, PLAIN_TIMEOUT, PlainFetch};
use crate::client::http::{Authorizer, Endpoint, FetchError, Secret, SignOut};

/// A sign-in with OAuth, for [`Endpoint::sign_in`](crate::client::http::Endpoint::sign_in).
///
/// By default, a user signs in with the browser, the client registers itself with the authorization server, and the
/// result is stored in a private file. Other processes that use the same server share the result: one of them opens
/// the browser or renews the token, and the others wait for it.
///
/// ```no_run
/// use barewire::Client;
/// use barewire::client::http::Endpoint;
/// use barewire::client::oauth::SignIn;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let endpoint = Endpoint::new("https://mcp.example.com/mcp").sign_in(SignIn::new("My app")?);
/// let client = Client::http(endpoint).await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct SignIn {
    pub(super) store: Arc<dyn CredentialStore>,
    pub(super) client: ClientIdentity,
    pub(super) method: SignInMethod,
    pub(super) user: Option<Arc<dyn SignInUser>>,
    pub(super) scopes: Option<Scopes>,
    pub(super) dpop: DpopUse,
    pub(super) overrides: Overrides,
    pub(super) allows_private_networks: bool,
    pub(super) redirect_port: u16,
    pub(super) timeout: Duration,
    pub(super) request_timeout: Duration,
    pub(super) is_again: bool,
}

/// The way in which a token is obtained.
#[derive(Clone)]
pub(super) enum SignInMethod {
    Browser,
    Device,
    ClientCredentials,
    EnterpriseManaged(Box<IdentityProvider>),
    WorkloadIdentity(Arc<dyn Fn() -> Secret + Send + Sync>),
}

impl SignIn {
    /// Signs a user in with the browser, and stores the result in the default [`FileStore`]. The authorization server
    /// shows the name to the user.
    pub fn new(client_name: impl Into<String>) -> Result<Self, SignInError> {
        Ok(Self::with_store(client_name, FileStore::new()?))
    }

    /// Signs a user in with the browser, and stores the result in this store.
    pub fn with_store(client_name: impl Into<String>, store: impl CredentialStore + 'static) -> Self {
        Self {
            store: Arc::new(store),
            client: ClientIdentity::new(client_name),
            method: SignInMethod::Browser,
            user: Some(Arc::new(Browser)),
            scopes: None,
            dpop: DpopUse::default(),
            overrides: Overrides::default(),
            allows_private_networks: false,
            redirect_port: 0,
            timeout: USER_TIMEOUT,
            request_timeout: PLAIN_TIMEOUT,
            is_again: false,
        }
    }

    /// Uses only credentials that are stored, and renews them. If the user would have to sign in, the request fails
    /// with [`SignInError::NeedsUser`].
    pub fn stored_only(mut self) -> Self {
        self.user = None;
        self
    }

    /// Signs the user in even if there is an account in the store, for another user or more scopes. The account is used
    /// until the new one takes its place. If another process signs in at the same time, its result is used.
    pub fn again(mut self) -> Self {
        self.is_again = true;
        self
    }

    /// Shows pages and codes with this user interface instead of the default browser.
    pub fn user(mut self, user: impl SignInUser + 'static) -> Self {
        self.user = Some(Arc::new(user));
        self
    }

    /// Uses a client that was registered with the authorization server before.
    pub fn client(mut self, client: ConfiguredClient) -> Self {
        self.client.configured = Some(client);
        self
    }

    /// Uses this URL of a client ID metadata document as the client ID, if the authorization server supports that. The
    /// document lists the redirect URIs, so set the [`Self::redirect_port`] too.
    pub fn metadata_document(mut self, url: &str) -> Result<Self, SignInError> {
        self.client.metadata_document = Some(server_url(url)?);
        Ok(self)
    }

    /// Asks for these scopes, separated by spaces, instead of those that the server asks for.
    pub fn scopes(mut self, scopes: &str) -> Self {
        self.scopes = Some(Scopes::parse(scopes));
        self
    }

    /// Signs the user in on another device: the user enters a code there (RFC 8628).
    pub fn device(mut self) -> Self {
        self.method = SignInMethod::Device;
        self
    }

    /// Signs in as the client itself, without a user. Needs [`Self::client`] with a secret or a key.
    pub fn client_credentials(mut self) -> Self {
        self.method = SignInMethod::ClientCredentials;
        self
    }

    /// Signs in by the identity provider of an enterprise. Needs [`Self::client`].
    pub fn enterprise_managed(mut self, provider: IdentityProvider) -> Self {
        self.method = SignInMethod::EnterpriseManaged(Box::new(provider));
        self
    }

    /// Signs in by the identity of the workload: the closure returns the current token of the platform.
    pub fn workload_identity(mut self, assertion: impl Fn() -> Secret + Send + Sync + 'static) -> Self {
        self.method = SignInMethod::WorkloadIdentity(Arc::new(assertion));
        self
    }

    /// Sets whether tokens are bound to a key (DPoP). By default they are if the authorization server supports it.
    pub fn dpop(mut self, dpop: DpopUse) -> Self {
        self.dpop = dpop;
        self
    }

    /// Makes exceptions from the rules, for a server that is known to be wrong.
    pub fn overrides(mut self, overrides: Overrides) -> Self {
        self.overrides = overrides;
        self
    }

    /// Allows a server on the Internet to name an authorization server in a private network.
    pub fn allow_private_networks(mut self) -> Self {
        self.allows_private_networks = true;
        self
    }

    /// Listens on this port for the redirect of the browser; the default is any free port.
    pub fn redirect_port(mut self, port: u16) -> Self {
        self.redirect_port = port;
        self
    }

    /// Sets how long to wait for the user; the default is 5 minutes.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets how long each request to an authorization server and its response may take; the default is 30 seconds.
    pub fn request_timeout(mut self, timeout: Duration) -> Self {
        self.request_timeout = timeout;
        self
    }

    /// Returns the object that signs in to the server at `url`. `fetch` sends the requests to authorization servers.
    pub(crate) fn authorizer(&self, url: &HttpUrl, fetch: PlainFetch) -> Result<Arc<dyn Authorizer>, FetchError> {
        Ok(Arc::new(SignInSession::new(self.clone(), url, fetch)?))
    }

    pub(super) fn exceptions(&self) -> Exceptions {
        Exceptions { overrides: self.overrides, private_networks: self.allows_private_networks }
    }

    /// Whether the user takes part in the sign-in.
    pub(super) fn is_interactive(&self) -> bool {
        matches!(self.method, SignInMethod::Browser | SignInMethod::Device)
    }
}

/// Returns the name under which a store keeps the account for the server at this URL.
pub fn account_name(url: &str) -> Result<String, SignInError> {
    Ok(server_url(url)?.as_str().to_owned())
}

/// Forgets the sign-in to the endpoint's server, and asks the authorization server to revoke its tokens.
pub async fn sign_out(endpoint: &Endpoint) -> Result<SignOut, FetchError> {
    Fetch::new(endpoint)?.sign_out().await
}

pub(super) fn server_url(url: &str) -> Result<Url, SignInError> {
    Url::parse(url).map_err(|why| SignInError::Stopped(Box::new(StopReason::BadServerUrl(why))))
}

/// Returns a key for `private_key_jwt`, to set in [`ConfiguredClient::key`].
pub fn client_key(pem: &str, key_id: Option<String>) -> Result<barewire_proto::auth::SigningKey, SignInError> {
    let mut key = PrivateKey::from_pem(pem)?.to_record();
    key.id = key_id;
    Ok(key)
}

impl fmt::Debug for SignIn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SignIn").field("client", &self.client.name).finish_non_exhaustive()
    }
}

/// The default time to wait for the user: some users have to find a password and a second factor.
const USER_TIMEOUT: Duration = Duration::from_secs(5 * 60);
