//! Events of a sign-in -> effects: fetch this, post that, open this page, here is a token, stop for this reason.
//!
//! [`SignIn::step`] is the only function that changes a [`SignIn`]. This file has the states, and decides what a
//! challenge leads to; `discovery` finds the authorization server, `authorize` asks for the grant, and `token_request`
//! for the token.

use std::fmt;

use super::auth_challenge::AuthChallenge;
use super::authorization_request::{Crypto, PendingAuthorization};
use super::credentials::{ClientRegistration, Credentials, RegistrationKind, TokenType};
use super::dpop::{DpopDecision, DpopNonces, ProofRequest};
use super::endpoint_error::shortened;
use super::grant::{Post, TokenGrant};
use super::network::NetworkRefusal;
use super::resource_metadata::ResourceMetadata;
use super::rules::RevisionRules;
use super::scope::Scopes;
use super::search::Search;
use super::secret::SecretText;
use super::server_metadata::ServerMetadata;
use super::settings::SignInSettings;
use super::stop::StopReason;
use super::url::Url;

/// The maximum number of new tokens in a row without a request that the server accepts. MCP 2026-07-28,
/// basic/authorization, "Step-Up Authorization Flow": "no more than a few times". A sign-in without a token, because the
/// user was away or the authorization server was, does not count: the server has refused nothing then.
///
/// A request that the server accepts ends the row only if the server does not refuse the same token some seconds later.
/// A server that accepts each token once could have any number of them requested otherwise.
pub const MAX_SIGN_INS: u32 = 3;

/// The time in seconds after which a server may refuse a token that it has accepted, without a place in the row. The
/// shortest lifetime of tokens that authorization servers offer is longer.
const MIN_TOKEN_LIFETIME: u64 = 10;

/// The maximum number of proofs in a row that a server may refuse for their nonce. The first has none; the nonce of the
/// second can have ended in the meantime.
const MAX_NONCE_RETRIES: u32 = 2;

/// Something that has happened. The caller sends each effect's result as the next event. `Debug` shows neither the bodies
/// of responses nor callbacks: they contain tokens and codes.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SignInEvent<'a> {
    /// The user wants to sign in, without a challenge. A refresh token of the record is not used, because the user may
    /// want another account.
    Start,
    /// The server refused a request with 401 or 403.
    Challenge(AuthChallenge),
    /// The access token has ended, or is about to.
    Expired,
    /// The server accepted a request with the token. Without this event, [`MAX_SIGN_INS`] is reached some day.
    Accepted,
    /// The response to [`SignInEffect::Fetch`]: at most [`MAX_METADATA_BYTES`](super::MAX_METADATA_BYTES) of its body.
    Fetched {
        /// The HTTP status.
        status: u16,
        /// The body.
        body: &'a [u8],
    },
    /// A fetch or post got no response, for this reason.
    Failed {
        /// The reason, for people.
        why: &'a str,
    },
    /// The response to [`SignInEffect::Post`].
    Posted {
        /// The HTTP status.
        status: u16,
        /// The header `DPoP-Nonce`, if there is one.
        nonce: Option<&'a str>,
        /// The body.
        body: &'a [u8],
    },
    /// The query of a request to the redirect URI, or of a callback that the user has pasted.
    Callback {
        /// The text after the `?`.
        query: &'a str,
    },
    /// The time of [`SignInEffect::ShowDeviceCode`] or [`SignInEffect::Wait`] has passed.
    Waited,
    /// The user ended the sign-in.
    Cancelled,
}

impl fmt::Debug for SignInEvent<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start => f.write_str("Start"),
            Self::Challenge(challenge) => f.debug_tuple("Challenge").field(challenge).finish(),
            Self::Expired => f.write_str("Expired"),
            Self::Accepted => f.write_str("Accepted"),
            Self::Fetched { status, .. } => f.debug_struct("Fetched").field("status", status).finish_non_exhaustive(),
            Self::Failed { why } => f.debug_struct("Failed").field("why", why).finish(),
            Self::Posted { status, .. } => f.debug_struct("Posted").field("status", status).finish_non_exhaustive(),
            Self::Callback { .. } => f.debug_struct("Callback").finish_non_exhaustive(),
            Self::Waited => f.write_str("Waited"),
            Self::Cancelled => f.write_str("Cancelled"),
        }
    }
}

/// Something to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SignInEffect {
    /// Nothing: the event does not concern the current state.
    Nothing,
    /// Send the refused request again, with a new proof.
    SendAgain,
    /// Get this document. Redirects are followed as
    /// [`NetworkPolicy::check_redirect`](super::NetworkPolicy::check_redirect) allows. The request has no credentials.
    /// If the revision is known, it has the header `MCP-Protocol-Version` (MCP 2025-03-26, basic/authorization, "Server
    /// Metadata Discovery Headers").
    Fetch {
        /// The URL.
        url: Url,
    },
    /// Post this.
    Post(Box<Post>),
    /// Open this page in the user's browser, or show its URL, and wait for the callback.
    OpenPage {
        /// The URL of the page.
        url: Url,
        /// The URI that the browser returns to.
        redirect_uri: String,
    },
    /// The callback does not belong to this sign-in. Keep waiting for the right one.
    IgnoreCallback,
    /// Show this code to the user, and send [`SignInEvent::Waited`] after some seconds.
    ShowDeviceCode {
        /// The code that the user enters.
        user_code: String,
        /// The page on which the user enters it.
        page: Url,
        /// The page with the code already entered, if there is one.
        page_with_code: Option<Url>,
        /// The time at which the code ends, in seconds since 1970.
        expires_at: u64,
        /// The seconds after which to send [`SignInEvent::Waited`].
        poll_after: u64,
    },
    /// Send [`SignInEvent::Waited`] after some seconds.
    Wait {
        /// The number of seconds.
        seconds: u64,
    },
    /// Here is a token. Store the record, and send the request again.
    Token(Box<Credentials>),
    /// The sign-in has ended without a token.
    Stop(Box<StopReason>),
}

/// What is being waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum State {
    /// A challenge or another reason to begin.
    Idle,
    /// The metadata of the protected resource.
    Resource(Search),
    /// The metadata of the authorization server.
    Server { issuer: String, search: Search, is_base: bool },
    /// The metadata of the identity provider.
    Provider { search: Search },
    /// The response of the registration endpoint.
    Registering(Url),
    /// The callback.
    Authorizing(Box<PendingAuthorization>),
    /// The response of the device authorization endpoint.
    StartingDevice(Url),
    /// The time until the next poll.
    Device(DevicePolls),
    /// The response of the token endpoint.
    Requesting(Box<TokenRequest>),
}

/// The polls of a device grant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DevicePolls {
    pub(super) device_code: SecretText,
    pub(super) interval: u64,
    pub(super) expires_at: u64,
}

/// A request to a token endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TokenRequest {
    pub(super) grant: TokenGrant,
    pub(super) post: Post,
    pub(super) nonce_retries: u32,
    pub(super) device: Option<DevicePolls>,
    pub(super) dpop: DpopDecision,
}

/// The facts that one sign-in has found so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Flow {
    pub(super) challenge: AuthChallenge,
    pub(super) resource: Option<ResourceMetadata>,
    pub(super) server: Option<ServerMetadata>,
    pub(super) client: Option<ClientRegistration>,
    pub(super) scopes: Scopes,
    pub(super) dpop: DpopDecision,
    /// Whether a stored registration has turned out to be unknown to the server.
    pub(super) has_reregistered: bool,
}

impl Flow {
    fn new(challenge: AuthChallenge) -> Self {
        Self {
            challenge,
            resource: None,
            server: None,
            client: None,
            scopes: Scopes::new(),
            dpop: DpopDecision::Unbound,
            has_reregistered: false,
        }
    }
}

/// The sign-in to one server. It lives as long as the client uses the server, and takes every challenge of the server.
#[derive(Debug, Clone)]
pub struct SignIn {
    pub(super) settings: SignInSettings,
    pub(super) rules: RevisionRules,
    pub(super) credentials: Option<Credentials>,
    pub(super) nonces: DpopNonces,
    pub(super) flow: Flow,
    pub(super) state: State,
    /// The number of new tokens in a row that the server has refused, and the current one.
    pub(super) sign_ins: u32,
    /// The time at which the current token was issued.
    pub(super) issued_at: u64,
    /// Whether the server has accepted a request with the current token.
    pub(super) is_accepted: bool,
    /// The number of proofs refused for their nonce since the server accepted a request.
    nonce_retries: u32,
    /// Whether the current token is the result of a refresh, and the server has not accepted it yet.
    pub(super) is_refreshed: bool,
    /// Whether the authorization server has said that the refresh token of the record is no longer valid.
    pub(super) has_lost_refresh_token: bool,
}

/// The arguments of a step that come from the outside.
pub(super) struct World<'a> {
    /// The time in seconds since 1970.
    pub(super) now: u64,
    pub(super) crypto: &'a mut dyn Crypto,
}

/// The next effect, or the reason to stop.
pub(super) type Step = Result<SignInEffect, StopReason>;

impl SignIn {
    /// Creates a sign-in. `stored` is the record of an earlier one with the same server.
    pub fn new(settings: SignInSettings, stored: Option<Credentials>) -> Self {
        // A record of another server must not leave for this one.
        let stored = stored.filter(|stored| stored.server == settings.server.as_str());
        Self {
            rules: RevisionRules::of(settings.revision),
            settings,
            credentials: stored,
            nonces: DpopNonces::default(),
            flow: Flow::new(AuthChallenge::default()),
            state: State::Idle,
            sign_ins: 0,
            issued_at: 0,
            is_accepted: false,
            nonce_retries: 0,
            is_refreshed: false,
            has_lost_refresh_token: false,
        }
    }

    /// Returns the current record.
    pub fn credentials(&self) -> Option<&Credentials> {
        self.credentials.as_ref()
    }

    /// Replaces the record by one that another process has stored in the meantime.
    pub fn set_credentials(&mut self, stored: Option<Credentials>) {
        self.credentials = stored.filter(|stored| stored.server == self.settings.server.as_str());
        self.has_lost_refresh_token = false;
    }

    /// Whether the authorization server has refused the refresh token of the record, which is no longer part of it. The
    /// caller stores the record, so that the token is not sent again.
    pub fn has_lost_refresh_token(&self) -> bool {
        self.has_lost_refresh_token
    }

    /// Returns the scopes that the current sign-in asks for, if it is a step-up: the server asks for more than the token
    /// of the record has. A sign-in by another program has to ask for them too, but does not see this challenge.
    pub fn step_up_scopes(&self) -> Option<&Scopes> {
        let stored = self.credentials.as_ref();
        let has = |scope: &str| stored.is_some_and(|it| it.scopes.has(scope) || it.requested_scopes.has(scope));
        let is_more = stored.is_some() && !self.flow.scopes.iter().all(has);
        let is_step_up = is_more || self.flow.challenge.wants_scopes();
        Some(&self.flow.scopes).filter(|scopes| is_step_up && !scopes.is_empty())
    }

    /// Forgets the dynamic registration of the record, if the current sign-in has used it: the next sign-in registers the
    /// client anew. Returns the client ID. The tokens of the record can still be renewed.
    pub fn forget_registration(&mut self) -> Option<String> {
        let used = self.flow.client.as_ref().map(|client| &client.id);
        let stored = self.credentials.as_mut().map(|stored| &mut stored.client);
        let is_used =
            |stored: &&mut ClientRegistration| stored.kind == RegistrationKind::Dynamic && used == Some(&stored.id);
        stored.filter(is_used).map(|stored| {
            // A registration is used again only for its redirect URI.
            stored.redirect_uri = None;
            stored.id.clone()
        })
    }

    /// Whether a sign-in is under way.
    pub fn is_running(&self) -> bool {
        self.state != State::Idle
    }

    /// Returns the value of the `Authorization` header for a request to this URL. There is none for another origin than
    /// that of the server: a token is sent only to the server that it is for.
    pub fn authorization(&self, url: &Url) -> Option<SecretText> {
        let credentials = self.credentials.as_ref().filter(|_| url.is_same_origin(&self.settings.server))?;
        Some(credentials.authorization())
    }

    /// Returns the proof that a request with the token needs, if the token is bound to a key.
    pub fn proof(&self, method: &str, url: &Url) -> Option<ProofRequest> {
        let credentials = self.credentials.as_ref().filter(|_| url.is_same_origin(&self.settings.server))?;
        let key = credentials.dpop_key.clone().filter(|_| credentials.token_type == TokenType::Dpop)?;
        let mut proof = self.proof_request(method, url, key);
        proof.access_token = Some(credentials.access_token.clone());
        Some(proof)
    }

    /// Remembers the header `DPoP-Nonce` of a response: RFC 9449, section 8.2. Challenges and posts do so themselves.
    pub fn set_nonce(&mut self, url: &Url, nonce: &str) {
        self.nonces.set(url, nonce);
    }

    pub(super) fn proof_request(&self, method: &str, url: &Url, key: super::client::SigningKey) -> ProofRequest {
        ProofRequest {
            method: method.to_owned(),
            url: url.without_query().to_owned(),
            nonce: self.nonces.get(url).map(str::to_owned),
            access_token: None,
            key,
        }
    }

    /// Handles an event, and returns what to do next. `now` is the time in seconds since 1970.
    pub fn step(&mut self, event: SignInEvent<'_>, now: u64, crypto: &mut dyn Crypto) -> SignInEffect {
        let mut world = World { now, crypto };
        self.try_step(event, &mut world).unwrap_or_else(|reason| {
            self.state = State::Idle;
            SignInEffect::Stop(Box::new(reason))
        })
    }

    fn try_step(&mut self, event: SignInEvent<'_>, world: &mut World<'_>) -> Step {
        // The state is taken, so that every arm says what follows it.
        match (std::mem::replace(&mut self.state, State::Idle), event) {
            (state, SignInEvent::Accepted) => {
                (self.is_accepted, self.nonce_retries, self.is_refreshed) = (true, 0, false);
                self.flow.has_reregistered = false;
                self.stay(state)
            }
            (State::Idle, SignInEvent::Cancelled) => Ok(SignInEffect::Nothing),
            (_, SignInEvent::Cancelled) => Err(StopReason::Cancelled),
            (State::Idle, SignInEvent::Start) => {
                // The user has decided, so it does not count how often the server has refused.
                self.sign_ins = 0;
                self.begin(AuthChallenge::default(), world)
            }
            (State::Idle, SignInEvent::Challenge(challenge)) => {
                // A clock that was set back does not make the token young again.
                let has_lived = world.now.abs_diff(self.issued_at) >= MIN_TOKEN_LIFETIME;
                self.end_row(has_lived);
                self.challenged(challenge, world)
            }
            (State::Idle, SignInEvent::Expired) => {
                self.end_row(true);
                self.expired(world)
            }
            (State::Resource(search), SignInEvent::Fetched { status, body }) => {
                self.fetched_resource(search, (status, body), world)
            }
            (State::Resource(mut search), SignInEvent::Failed { why }) => {
                search.fail(why);
                self.next_resource_place(search, world)
            }
            (State::Server { issuer, search, is_base }, SignInEvent::Fetched { status, body }) => {
                self.fetched_server(issuer, search, is_base, (status, body), world)
            }
            (State::Server { issuer, mut search, is_base }, SignInEvent::Failed { why }) => {
                search.fail(why);
                self.next_server_place(issuer, search, is_base, world)
            }
            (State::Provider { search }, SignInEvent::Fetched { status, body }) => {
                self.fetched_provider(search, (status, body))
            }
            (State::Provider { mut search }, SignInEvent::Failed { why }) => {
                search.fail(why);
                self.next_provider_place(search)
            }
            (State::Registering(url), SignInEvent::Posted { status, body, .. }) => {
                self.registered(url, (status, body), world)
            }
            (State::Authorizing(pending), SignInEvent::Callback { query }) => self.called_back(*pending, query),
            (State::StartingDevice(url), SignInEvent::Posted { status, body, .. }) => {
                self.device_started(url, (status, body), world)
            }
            (State::Device(polls), SignInEvent::Waited) => self.poll_device(polls, world.now),
            (State::Requesting(request), SignInEvent::Posted { status, nonce, body }) => {
                self.token_posted(*request, nonce, (status, body), world)
            }
            (State::Requesting(request), SignInEvent::Failed { why }) => self.token_failed(*request, why),
            (State::Registering(url) | State::StartingDevice(url), SignInEvent::Failed { why }) => {
                Err(StopReason::Unreachable { url, why: shortened(why) })
            }
            // Events of another state, such as the challenge of a second request, or a page that is loaded again.
            (state, _) => self.stay(state),
        }
    }

    fn stay(&mut self, state: State) -> Step {
        self.state = state;
        Ok(SignInEffect::Nothing)
    }

    /// Forgets the tokens that the server has refused, if it has accepted the current one, which has lived as long as
    /// a token lives.
    fn end_row(&mut self, has_lived: bool) {
        if self.is_accepted && has_lived {
            self.sign_ins = 0;
        }
    }

    /// Decides what the refusal of a request leads to.
    fn challenged(&mut self, challenge: AuthChallenge, world: &mut World<'_>) -> Step {
        if let Some(nonce) = &challenge.dpop_nonce {
            self.nonces.set(&self.settings.server, nonce);
        }
        match challenge.status {
            401 if challenge.wants_nonce() => {
                self.nonce_retries += 1;
                match self.nonce_retries <= MAX_NONCE_RETRIES {
                    true => Ok(SignInEffect::SendAgain),
                    false => Err(StopReason::NonceRefused),
                }
            }
            401 => self.begin(challenge, world),
            403 if challenge.wants_scopes() => {
                let has_all = |needed: &&Scopes| self.credentials.as_ref().is_some_and(|it| it.scopes.has_all(needed));
                match challenge.scopes.as_ref().filter(has_all) {
                    // Another token with the same scopes would be refused too.
                    Some(scopes) => Err(StopReason::ScopesRefused(scopes.clone())),
                    None => self.begin(challenge, world),
                }
            }
            403 => Err(StopReason::Forbidden),
            status => Err(StopReason::NotAChallenge(status)),
        }
    }

    /// Begins a sign-in, unless the server has refused too many new tokens in a row.
    pub(super) fn begin(&mut self, challenge: AuthChallenge, world: &mut World<'_>) -> Step {
        if self.sign_ins >= MAX_SIGN_INS {
            return Err(StopReason::TooManyAttempts);
        }
        // RFC 6750, section 5.3: a token is not sent in the clear.
        if self.settings.network.check_url(&self.settings.server) == Err(NetworkRefusal::PlainHttp) {
            let (name, url, why) = ("server", self.settings.server.clone(), NetworkRefusal::PlainHttp);
            return Err(StopReason::EndpointRefused { name, url, why });
        }
        let has_reregistered = self.flow.has_reregistered;
        self.flow = Flow { has_reregistered, ..Flow::new(challenge) };
        self.find_resource(world)
    }

    /// Renews a token that has ended, at the endpoint that issued it; without a refresh token, signs in anew.
    fn expired(&mut self, world: &mut World<'_>) -> Step {
        self.flow = Flow::new(AuthChallenge { status: 401, ..AuthChallenge::default() });
        match self.credentials.as_ref().is_some_and(|it| it.refresh_token.is_some()) {
            true => self.refresh(),
            false => self.begin(self.flow.challenge.clone(), world),
        }
    }
}
