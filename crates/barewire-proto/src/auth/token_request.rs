//! A grant -> a token: the part of [`SignIn`] that posts to the token endpoint, and decides about its response.

use super::client::{SigningKey, choose_auth_method};
use super::credentials::{ClientRegistration, CredentialParts, Credentials, RegistrationKind, TokenType};
use super::dpop::{DpopDecision, is_token_type_accepted};
use super::endpoint_error::{EndpointError, shortened};
use super::grant::{Post, TokenGrant};
use super::sign_in::{DevicePolls, SignIn, SignInEffect, State, Step, TokenRequest, World};
use super::stop::StopReason;
use super::token::{IssuedToken, TokenError, longer_interval, read_exchange};
use super::url::Url;

/// The seconds that `slow_down` adds to the time between two polls: RFC 8628, section 3.5.
const SLOW_DOWN_SECONDS: u64 = 5;

impl SignIn {
    /// Renews the token at the endpoint that the metadata names; without metadata, at the one that issued it.
    pub(super) fn refresh(&mut self) -> Step {
        let Some(stored) = &self.credentials else { return Err(StopReason::NoClient) };
        let Some(refresh_token) = stored.refresh_token.clone() else { return Err(StopReason::NoClient) };
        self.flow.client = Some(stored.client.clone());
        self.flow.scopes = stored.requested_scopes.clone();
        // The renewed token is of the same type as the one that it replaces.
        self.flow.dpop = match stored.dpop_key {
            Some(_) => DpopDecision::MustBeBound,
            None => DpopDecision::Unbound,
        };
        self.request_token(TokenGrant::Refresh { refresh_token }, None)
    }

    /// Posts the exchange of an identity assertion to the identity provider.
    pub(super) fn exchange_at_provider(&mut self, endpoint: Url, supported: Option<Vec<String>>) -> Step {
        let check = self.provider_policy().check_url(&endpoint);
        let (Some(provider), Some(server)) = (self.provider(), &self.flow.server) else {
            return Err(StopReason::NoClient);
        };
        check.map_err(|why| StopReason::EndpointRefused { name: "token_endpoint", url: endpoint.clone(), why })?;
        let mut client = ClientRegistration::new(RegistrationKind::Configured, &provider.client.id);
        client.secret = provider.client.secret.clone();
        client.key = provider.client.key.clone();
        client.auth_method = provider.client.auth_method;
        let grant = TokenGrant::Exchange {
            subject_token: provider.subject_token.clone(),
            subject_token_type: provider.subject_token_type.clone(),
            audience: server.issuer.clone(),
        };
        let (has_secret, has_key) = (client.secret.is_some(), client.key.is_some());
        let method = choose_auth_method(client.auth_method, supported.as_deref(), has_secret, has_key);
        let method = method.ok_or_else(|| StopReason::NoAuthMethod(supported.unwrap_or_default()))?;
        let scope = self.flow.scopes.to_string();
        let parameters = self.token_parameters(&grant, &scope);
        let post = Post::form(endpoint, parameters, &client, method, &provider.issuer);
        let dpop = DpopDecision::Unbound;
        self.send(TokenRequest { grant, post, nonce_retries: 0, device: None, dpop })
    }

    /// Posts a grant to the token endpoint.
    pub(super) fn request_token(&mut self, grant: TokenGrant, device: Option<DevicePolls>) -> Step {
        let (url, issuer) = self.token_endpoint()?;
        let method = self.token_auth_method()?;
        let Some(client) = &self.flow.client else { return Err(StopReason::NoClient) };
        let scope = self.flow.scopes.to_string();
        let parameters = self.token_parameters(&grant, &scope);
        let mut post = Post::form(url, parameters, client, method, &issuer);
        let dpop = self.flow.dpop;
        if let Some(key) = self.token_key(&grant) {
            post.proof = Some(self.proof_request("POST", &post.url, key));
        }
        self.send(TokenRequest { grant, post, nonce_retries: 0, device, dpop })
    }

    fn send(&mut self, request: TokenRequest) -> Step {
        let post = request.post.clone();
        self.state = State::Requesting(Box::new(request));
        Ok(SignInEffect::Post(Box::new(post)))
    }

    /// Returns the token endpoint and the issuer it belongs to.
    fn token_endpoint(&self) -> Result<(Url, String), StopReason> {
        if let Some(server) = &self.flow.server {
            let url = self.endpoint("token_endpoint", |server| server.token_endpoint.as_ref())?;
            return Ok((url, server.issuer.clone()));
        }
        let stored = self.credentials.as_ref().ok_or(StopReason::NoEndpoint("token_endpoint"))?;
        let url = Url::parse(&stored.token_endpoint).map_err(|_| StopReason::NoEndpoint("token_endpoint"))?;
        self.check_endpoint("token_endpoint", &url)?;
        Ok((url, stored.issuer.clone()))
    }

    /// Returns the key that a token request is proved with.
    fn token_key(&self, grant: &TokenGrant) -> Option<SigningKey> {
        match (grant, self.flow.dpop) {
            (TokenGrant::Refresh { .. }, _) => self.credentials.as_ref()?.dpop_key.clone(),
            (_, DpopDecision::Bound | DpopDecision::MustBeBound) => self.dpop_key().cloned(),
            (_, DpopDecision::Unbound | DpopDecision::Impossible) => None,
        }
    }

    /// Returns the key that new tokens are bound to: the configured one, else that of the record.
    pub(super) fn dpop_key(&self) -> Option<&SigningKey> {
        let stored = self.credentials.as_ref().and_then(|stored| stored.dpop_key.as_ref());
        self.settings.dpop_key.as_ref().or(stored)
    }

    fn token_parameters<'a>(&'a self, grant: &'a TokenGrant, scope: &'a str) -> Vec<(&'static str, &'a str)> {
        let mut parameters = grant.parameters();
        parameters.extend(self.resource().map(|resource| ("resource", resource)));
        if grant.has_scope(self.settings.overrides.scope_on_refresh) && !scope.is_empty() {
            parameters.push(("scope", scope));
        }
        parameters
    }

    pub(super) fn token_failed(&mut self, request: TokenRequest, why: &str) -> Step {
        match request.device {
            // RFC 8628, section 3.5: after a timeout the client polls less often.
            Some(polls) => self.wait_longer(polls),
            None => Err(StopReason::Unreachable { url: request.post.url, why: shortened(why) }),
        }
    }

    fn wait_longer(&mut self, polls: DevicePolls) -> Step {
        let interval = longer_interval(polls.interval, polls.interval);
        self.wait(DevicePolls { interval, ..polls })
    }

    pub(super) fn token_posted(
        &mut self,
        request: TokenRequest,
        nonce: Option<&str>,
        (status, body): (u16, &[u8]),
        world: &mut World<'_>,
    ) -> Step {
        if let Some(nonce) = nonce {
            self.nonces.set(&request.post.url, nonce);
        }
        if matches!(request.grant, TokenGrant::Exchange { .. }) {
            let assertion = read_exchange(status, body);
            let assertion = assertion.map_err(|error| error.without(status, body, &request.post.secrets));
            let assertion = assertion.map_err(|error| stop_of_token_error(request.post.url, error))?;
            return self.request_token(TokenGrant::Assertion { assertion }, None);
        }
        let token = IssuedToken::read(status, body);
        match token.map_err(|error| error.without(status, body, &request.post.secrets)) {
            Ok(token) => self.issued(&request, token, world.now),
            Err(TokenError::Refused(error)) => self.token_refused(request, error, nonce.is_some(), world),
            Err(error) => Err(stop_of_token_error(request.post.url, error)),
        }
    }

    /// Decides what the refusal of a token request leads to.
    fn token_refused(
        &mut self,
        request: TokenRequest,
        error: EndpointError,
        has_nonce: bool,
        world: &mut World<'_>,
    ) -> Step {
        if error.is("use_dpop_nonce") && has_nonce && request.nonce_retries == 0 {
            return self.send_with_nonce(request);
        }
        let url = request.post.url;
        match (request.device, &request.grant, error.code.as_deref()) {
            (Some(polls), _, Some("authorization_pending")) => self.wait(polls),
            (Some(polls), _, Some("slow_down")) => {
                let interval = longer_interval(polls.interval, SLOW_DOWN_SECONDS);
                self.wait(DevicePolls { interval, ..polls })
            }
            (Some(_), _, Some("expired_token")) => Err(StopReason::DeviceCodeExpired),
            (Some(_), _, Some("access_denied")) => Err(StopReason::Denied(error)),
            (Some(polls), ..) if error.is_temporary() => self.wait_longer(polls),
            _ if error.is_temporary() => Err(StopReason::Unavailable { url: Box::new(url), error }),
            (None, TokenGrant::Refresh { .. }, Some("invalid_client")) => self.register_again(url, error, world),
            (None, TokenGrant::Refresh { .. }, code) => {
                let Some(is_lost) = refresh_refusal(code) else {
                    return Err(StopReason::TokenRefused { url: Box::new(url), error });
                };
                self.has_lost_refresh_token = is_lost;
                if let Some(stored) = &mut self.credentials {
                    stored.refresh_token = None;
                }
                self.continue_without_refresh(world)
            }
            (None, TokenGrant::Code { .. }, Some("invalid_client")) => self.register_again(url, error, world),
            _ => Err(StopReason::TokenRefused { url: Box::new(url), error }),
        }
    }

    fn send_with_nonce(&mut self, mut request: TokenRequest) -> Step {
        request.nonce_retries += 1;
        let nonce = self.nonces.get(&request.post.url).map(str::to_owned);
        match &mut request.post.proof {
            Some(proof) => proof.nonce = nonce,
            None => return Err(StopReason::NoDpop),
        }
        self.send(request)
    }

    /// Registers anew, once, if the server does not know the client that was registered dynamically before.
    pub(super) fn register_again(&mut self, url: Url, error: EndpointError, world: &mut World<'_>) -> Step {
        let is_stored = |stored: &Credentials| {
            stored.client.kind == RegistrationKind::Dynamic
                && self.flow.client.as_ref().is_some_and(|client| client.id == stored.client.id)
        };
        if self.flow.has_reregistered || !self.credentials.as_ref().is_some_and(is_stored) {
            return Err(StopReason::TokenRefused { url: Box::new(url), error });
        }
        self.credentials = None;
        self.flow.has_reregistered = true;
        self.continue_without_refresh(world)
    }

    fn continue_without_refresh(&mut self, world: &mut World<'_>) -> Step {
        match self.flow.server.take() {
            Some(server) => self.found_server(server, world),
            None => self.begin(self.flow.challenge.clone(), world),
        }
    }

    /// Checks a token, and makes the record of it.
    fn issued(&mut self, request: &TokenRequest, token: IssuedToken, now: u64) -> Step {
        if !is_token_type_accepted(request.dpop, token.token_type) {
            return Err(StopReason::TokenType { url: Box::new(request.post.url.clone()) });
        }
        let (token_endpoint, issuer) = self.token_endpoint()?;
        // The way to authenticate is kept too: a refresh without discovery does not know what the server accepts.
        let method = self.token_auth_method()?;
        let mut client = self.flow.client.clone().ok_or(StopReason::NoClient)?;
        client.auth_method = Some(method);
        let is_refresh = matches!(request.grant, TokenGrant::Refresh { .. });
        let resource = self.resource().map(str::to_owned);
        let key = self.token_key(&request.grant).filter(|_| token.token_type == TokenType::Dpop);
        let previous = self.credentials.take().filter(|_| is_refresh);
        let expires_at = token.expires_at(now);
        let mut credentials = Credentials::new(CredentialParts {
            server: self.settings.server.to_string(),
            issuer,
            token_endpoint: token_endpoint.to_string(),
            client,
            token_type: token.token_type,
            access_token: token.access_token,
        });
        credentials.expires_at = expires_at;
        credentials.revocation_endpoint = match &self.flow.server {
            Some(server) => {
                let is_allowed = |url: &&Url| self.settings.network.check_url(url).is_ok();
                server.revocation_endpoint.as_ref().filter(is_allowed).map(Url::to_string)
            }
            None => previous.as_ref().and_then(|previous| previous.revocation_endpoint.clone()),
        };
        credentials.resource = resource;
        credentials.dpop_key = key;
        // RFC 6749, section 5.1: scopes that are not named are those that were asked for; section 6: a refresh token
        // that is not replaced stays valid.
        let unnamed = previous.as_ref().map_or(&self.flow.scopes, |previous| &previous.scopes).clone();
        credentials.scopes = token.scopes.unwrap_or(unnamed);
        credentials.requested_scopes = self.flow.scopes.clone();
        credentials.refresh_token = token.refresh_token.or(previous.and_then(|previous| previous.refresh_token));
        self.is_refreshed = is_refresh;
        self.has_lost_refresh_token = false;
        self.sign_ins += 1;
        (self.issued_at, self.is_accepted) = (now, false);
        self.credentials = Some(credentials.clone());
        Ok(SignInEffect::Token(Box::new(credentials)))
    }
}

/// Returns whether a refresh token is lost after a refusal with this code; `None` if the refusal is about the request, and
/// says nothing about the token. Otherwise the user signs in.
fn refresh_refusal(code: Option<&str>) -> Option<bool> {
    match code {
        // RFC 6749, section 5.2: the token is no longer valid, or this client can never use it.
        Some("invalid_grant" | "unauthorized_client" | "unsupported_grant_type") => Some(true),
        // A parameter is missing or wrong (section 5.2; RFC 8707, section 2), or the proof is: RFC 9449, section 5.
        Some("invalid_request" | "invalid_scope" | "invalid_target" | "invalid_dpop_proof" | "use_dpop_nonce") => None,
        // A code that no specification defines; without a code, the refusal is that of a proxy. The store keeps the token.
        Some(_) | None => Some(false),
    }
}

pub(super) fn stop_of_token_error(url: Url, error: TokenError) -> StopReason {
    match error {
        TokenError::Refused(error) if error.is_temporary() => StopReason::Unavailable { url: Box::new(url), error },
        TokenError::Refused(error) => StopReason::TokenRefused { url: Box::new(url), error },
        TokenError::Response(member) => StopReason::BadTokenResponse { url: Box::new(url), member },
    }
}
