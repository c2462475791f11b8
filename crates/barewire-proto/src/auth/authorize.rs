//! An authorization server -> a grant: the part of [`SignIn`] that chooses scopes, registers the client, and asks the
//! user.

use super::authorization_request::{AuthorizationRequest, PendingAuthorization, Pkce};
use super::callback::{CallbackError, read_callback};
use super::client::{ClientAuthMethod, RegistrationChoice, SigningKey, choose_auth_method};
use super::credentials::RegistrationKind;
use super::dpop::{DpopDecision, ResourceDpop, thumbprint_input};
use super::endpoint_error::shortened;
use super::grant::{Post, TokenGrant};
use super::network::NetworkPolicy;
use super::registration::{RegistrationError, RegistrationProperties, read_registration, registration_body};
use super::scope::{MAX_SCOPE_BYTES, OFFLINE_ACCESS, ScopeSources, Scopes};
use super::server_metadata::ServerMetadata;
use super::settings::SignInGrant;
use super::sign_in::{DevicePolls, SignIn, SignInEffect, State, Step, World};
use super::stop::StopReason;
use super::token::{DeviceResponse, TokenError};
use super::token_request::stop_of_token_error;
use super::url::Url;
use crate::http::base64;

impl SignIn {
    /// Continues with the checked metadata of the authorization server.
    pub(super) fn found_server(&mut self, server: ServerMetadata, world: &mut World<'_>) -> Step {
        self.leave_other_issuer(&server.issuer)?;
        let (challenge, metadata) = (&self.flow.challenge, self.flow.resource.as_ref());
        let resource = if challenge.dpop_only || metadata.is_some_and(|metadata| metadata.dpop_required) {
            ResourceDpop::Required
        } else if challenge.names_dpop || metadata.is_some_and(|metadata| metadata.has_dpop) {
            ResourceDpop::Accepted
        } else {
            ResourceDpop::Unknown
        };
        self.flow.dpop = self.settings.dpop.decide(self.dpop_key(), &server, resource);
        if self.flow.dpop == DpopDecision::Impossible {
            return Err(StopReason::NoDpop);
        }
        let lists_offline_access = server.scopes.as_ref().is_some_and(|scopes| scopes.has(OFFLINE_ACCESS));
        let wants_offline_access = self.settings.wants_refresh_token && self.settings.is_interactive();
        // What was granted is kept too: a server may grant more than was asked for.
        let previous = self.credentials.as_ref().map(|stored| {
            let mut previous = stored.requested_scopes.clone();
            previous.add(&stored.scopes);
            previous
        });
        let sources = ScopeSources {
            configured: self.settings.scopes.as_ref(),
            challenge: self.flow.challenge.scopes.as_ref(),
            resource: self.flow.resource.as_ref().and_then(|resource| resource.scopes.as_ref()),
            previous: previous.as_ref(),
            offline_access: self.rules.offline_access && wants_offline_access && lists_offline_access,
        };
        self.flow.scopes = sources.select();
        self.flow.server = Some(server);
        if self.flow.scopes.to_string().len() > MAX_SCOPE_BYTES {
            return Err(StopReason::TooManyScopes);
        }
        match self.can_refresh() {
            true => self.refresh(),
            false => self.obtain(world),
        }
    }

    /// Drops the record if it is of another issuer: nothing of it may be sent to this one. MCP 2026-07-28,
    /// basic/authorization/client-registration, "Authorization Server Binding".
    fn leave_other_issuer(&mut self, issuer: &str) -> Result<(), StopReason> {
        let Some(stored) = self.credentials.take_if(|stored| stored.issuer != issuer) else { return Ok(()) };
        let is_same_client =
            |id: &String| stored.client.kind == RegistrationKind::Configured && stored.client.id == *id;
        match self.settings.client.configured.as_ref().map(|client| &client.id).is_some_and(is_same_client) {
            true => {
                let (registered, found) = (shortened(&stored.issuer), shortened(issuer));
                self.credentials = Some(stored);
                Err(StopReason::ClientOfOtherIssuer { registered, found })
            }
            false => Ok(()),
        }
    }

    /// Whether a refresh can satisfy the challenge: it gives no further scopes, and is not tried twice in a row.
    fn can_refresh(&self) -> bool {
        self.credentials.as_ref().is_some_and(|stored| {
            let needed = self.flow.challenge.scopes.as_ref();
            stored.refresh_token.is_some()
                && !self.is_refreshed
                && self.flow.challenge.status == 401
                && needed.is_none_or(|needed| stored.scopes.has_all(needed))
        })
    }

    /// Obtains a token by the configured grant.
    fn obtain(&mut self, world: &mut World<'_>) -> Step {
        match &self.settings.grant {
            SignInGrant::AuthorizationCode { redirect_uri } => {
                let is_usable = |uri: &Url| NetworkPolicy::for_server(uri).check_url(uri).is_ok();
                if !Url::parse(redirect_uri).is_ok_and(|uri| is_usable(&uri)) {
                    return Err(StopReason::BadRedirectUri(redirect_uri.clone()));
                }
                self.endpoint("authorization_endpoint", |server| server.authorization_endpoint.as_ref())?;
                let must_be_advertised =
                    self.rules.pkce_must_be_advertised && !self.settings.overrides.pkce_unannounced;
                if !self.flow.server.as_ref().is_some_and(|server| server.has_pkce(must_be_advertised)) {
                    return Err(StopReason::NoPkce);
                }
            }
            SignInGrant::DeviceCode => {
                self.endpoint("device_authorization_endpoint", |server| server.device_authorization_endpoint.as_ref())?;
            }
            _ => {}
        }
        self.endpoint("token_endpoint", |server| server.token_endpoint.as_ref())?;
        self.identify(world)
    }

    /// Determines the client, or registers it.
    fn identify(&mut self, world: &mut World<'_>) -> Step {
        let Some(server) = &self.flow.server else { return Err(StopReason::NoEndpoint("token_endpoint")) };
        let stored = self.credentials.as_ref().map(|stored| &stored.client);
        let choice =
            self.settings.client.choose(server, stored, self.settings.redirect_uri(), &self.flow.scopes, world.now);
        match choice {
            RegistrationChoice::Known(client) => {
                self.flow.client = Some(*client);
                self.ask_for_grant(world)
            }
            RegistrationChoice::Dynamic(_) if self.settings.is_interactive() => {
                let url = self.endpoint("registration_endpoint", |server| server.registration_endpoint.as_ref())?;
                let body = registration_body(
                    server,
                    &RegistrationProperties {
                        identity: &self.settings.client,
                        redirect_uri: self.settings.redirect_uri(),
                        scopes: &self.scopes_to_register(),
                        wants_refresh_token: self.settings.wants_refresh_token,
                        dpop_required: self.flow.dpop == DpopDecision::MustBeBound,
                    },
                );
                self.state = State::Registering(url.clone());
                Ok(SignInEffect::Post(Box::new(Post::json(url, body))))
            }
            RegistrationChoice::OtherIssuer { registered } => {
                let found = shortened(&server.issuer);
                Err(StopReason::ClientOfOtherIssuer { registered: shortened(&registered), found })
            }
            // A client that acts without a user is registered by those who run the server.
            RegistrationChoice::Dynamic(_) | RegistrationChoice::Unavailable => Err(StopReason::NoClient),
        }
    }

    pub(super) fn registered(&mut self, url: Url, (status, body): (u16, &[u8]), world: &mut World<'_>) -> Step {
        let redirect_uri = self.settings.redirect_uri();
        let mut client = read_registration(status, body, redirect_uri).map_err(|why| match why {
            RegistrationError::Refused(error) if error.is_temporary() => {
                StopReason::Unavailable { url: Box::new(url), error }
            }
            why => StopReason::Registration { url: Box::new(url), why },
        })?;
        client.scopes = self.scopes_to_register();
        self.flow.client = Some(client);
        self.ask_for_grant(world)
    }

    /// Returns the scopes of a registration: those that are asked for now, and those that the resource lists, which a
    /// later challenge may ask for.
    fn scopes_to_register(&self) -> Scopes {
        let mut scopes = self.flow.scopes.clone();
        if let Some(listed) = self.flow.resource.as_ref().and_then(|resource| resource.scopes.as_ref())
            && !scopes.is_empty()
        {
            scopes.add(listed);
        }
        scopes
    }

    /// Asks for the grant: the user, or with what the client already has the token endpoint.
    fn ask_for_grant(&mut self, world: &mut World<'_>) -> Step {
        let method = self.token_auth_method()?;
        match self.settings.grant.clone() {
            SignInGrant::AuthorizationCode { redirect_uri } => self.open_page(redirect_uri, world),
            SignInGrant::DeviceCode => self.start_device(method),
            SignInGrant::ClientCredentials if method == ClientAuthMethod::Public => Err(StopReason::NoClientSecret),
            SignInGrant::ClientCredentials => self.request_token(TokenGrant::Client, None),
            SignInGrant::EnterpriseManaged(_) => self.find_provider(),
            SignInGrant::WorkloadIdentity { assertion } => {
                self.request_token(TokenGrant::Assertion { assertion }, None)
            }
        }
    }

    fn open_page(&mut self, redirect_uri: String, world: &mut World<'_>) -> Step {
        let endpoint = self.endpoint("authorization_endpoint", |server| server.authorization_endpoint.as_ref())?;
        let (Some(server), Some(client)) = (&self.flow.server, &self.flow.client) else {
            return Err(StopReason::NoClient);
        };
        let pending = PendingAuthorization {
            state: base64::encode_url(&world.crypto.random()).into(),
            pkce: Pkce::new(world.crypto),
            issuer: server.issuer.clone(),
            has_iss: server.has_iss,
            redirect_uri: redirect_uri.clone(),
        };
        let key = self.dpop_key().filter(|_| self.flow.dpop != DpopDecision::Unbound);
        let jwk = key.and_then(|key| thumbprint_input(key.public_jwk.as_deref()?));
        let thumbprint = jwk.map(|jwk| base64::encode_url(&world.crypto.sha256(jwk.as_bytes())));
        let request = AuthorizationRequest {
            endpoint: &endpoint,
            client_id: &client.id,
            scopes: &self.flow.scopes,
            resource: self.resource(),
            dpop_thumbprint: thumbprint.as_deref(),
            pending: &pending,
        };
        let url = request.url().map_err(|_| StopReason::TooManyScopes)?;
        self.state = State::Authorizing(Box::new(pending));
        Ok(SignInEffect::OpenPage { url, redirect_uri })
    }

    pub(super) fn called_back(&mut self, pending: PendingAuthorization, query: &str) -> Step {
        match read_callback(query, &pending) {
            Ok(code) => {
                let PendingAuthorization { pkce, redirect_uri, .. } = pending;
                self.request_token(TokenGrant::Code { code, verifier: pkce.verifier, redirect_uri }, None)
            }
            Err(CallbackError::NotOurs) => {
                self.state = State::Authorizing(Box::new(pending));
                Ok(SignInEffect::IgnoreCallback)
            }
            Err(CallbackError::Issuer) => Err(StopReason::CallbackIssuer),
            Err(CallbackError::Refused(error)) => Err(StopReason::Denied(error)),
            Err(CallbackError::NoCode) => Err(StopReason::CallbackWithoutCode),
        }
    }

    fn start_device(&mut self, method: ClientAuthMethod) -> Step {
        let url =
            self.endpoint("device_authorization_endpoint", |server| server.device_authorization_endpoint.as_ref())?;
        let scope = self.flow.scopes.to_string();
        let resource = self.resource().map(|resource| ("resource", resource));
        let scope = Some(("scope", &*scope)).filter(|(_, scope)| !scope.is_empty());
        let parameters = resource.into_iter().chain(scope).collect();
        let (Some(server), Some(client)) = (&self.flow.server, &self.flow.client) else {
            return Err(StopReason::NoClient);
        };
        let post = Post::form(url.clone(), parameters, client, method, &server.issuer);
        self.state = State::StartingDevice(url);
        Ok(SignInEffect::Post(Box::new(post)))
    }

    pub(super) fn device_started(&mut self, url: Url, (status, body): (u16, &[u8]), world: &mut World<'_>) -> Step {
        let secrets: Vec<_> = self.flow.client.iter().filter_map(|client| client.secret.clone()).collect();
        let device = DeviceResponse::read(status, body).map_err(|error| error.without(status, body, &secrets));
        let device = match device {
            Ok(device) => device,
            Err(TokenError::Refused(error)) if error.is("invalid_client") => {
                return self.register_again(url, error, world);
            }
            Err(error) => return Err(stop_of_token_error(url, error)),
        };
        for url in [Some(&device.verification_uri), device.verification_uri_complete.as_ref()].into_iter().flatten() {
            self.check_endpoint("verification_uri", url)?;
        }
        let expires_at = world.now.saturating_add(device.expires_in);
        let (device_code, interval) = (device.device_code, device.interval);
        self.state = State::Device(DevicePolls { device_code, interval, expires_at });
        Ok(SignInEffect::ShowDeviceCode {
            user_code: device.user_code,
            page: device.verification_uri,
            page_with_code: device.verification_uri_complete,
            expires_at,
            poll_after: interval,
        })
    }

    pub(super) fn poll_device(&mut self, polls: DevicePolls, now: u64) -> Step {
        match now < polls.expires_at {
            true => {
                let device_code = polls.device_code.clone();
                self.request_token(TokenGrant::Device { device_code }, Some(polls))
            }
            false => Err(StopReason::DeviceCodeExpired),
        }
    }

    pub(super) fn wait(&mut self, polls: DevicePolls) -> Step {
        let seconds = polls.interval;
        self.state = State::Device(polls);
        Ok(SignInEffect::Wait { seconds })
    }

    /// Returns the `resource` of authorization and token requests, exactly as the metadata has it. MCP 2026-07-28,
    /// basic/authorization, "Resource Parameter Implementation". A server without metadata of the resource follows
    /// 2025-03-26, which does not have the parameter.
    pub(super) fn resource(&self) -> Option<&str> {
        if self.settings.overrides.no_resource {
            return None;
        }
        match (&self.flow.resource, &self.flow.server) {
            (Some(resource), _) => Some(&resource.resource),
            (None, Some(_)) => None,
            // A refresh without discovery.
            (None, None) => self.credentials.as_ref()?.resource.as_deref(),
        }
    }

    /// Returns the way in which the client authenticates. A key counts only if the server accepts its algorithm.
    pub(super) fn token_auth_method(&self) -> Result<ClientAuthMethod, StopReason> {
        let client = self.flow.client.as_ref().ok_or(StopReason::NoClient)?;
        let server = self.flow.server.as_ref();
        let supported = server.and_then(|server| server.token_auth_methods.as_deref());
        let algorithms = server.and_then(|server| server.token_auth_algorithms.as_ref());
        let is_accepted = |key: &SigningKey| algorithms.is_none_or(|accepted| accepted.contains(&key.algorithm));
        let has_key = client.key.as_ref().is_some_and(is_accepted);
        if let Some(accepted) = algorithms.filter(|_| client.key.is_some() && !has_key && client.secret.is_none()) {
            return Err(StopReason::NoAuthMethod(accepted.clone()));
        }
        choose_auth_method(client.auth_method, supported, client.secret.is_some(), has_key)
            .ok_or_else(|| StopReason::NoAuthMethod(supported.map(<[String]>::to_vec).unwrap_or_default()))
    }

    /// Returns an endpoint of the authorization server, if it may be used.
    pub(super) fn endpoint(
        &self,
        name: &'static str,
        of: impl Fn(&ServerMetadata) -> Option<&Url>,
    ) -> Result<Url, StopReason> {
        let url = self.flow.server.as_ref().and_then(of).ok_or(StopReason::NoEndpoint(name))?;
        self.check_endpoint(name, url)?;
        Ok(url.clone())
    }

    pub(super) fn check_endpoint(&self, name: &'static str, url: &Url) -> Result<(), StopReason> {
        let refuse = |why| StopReason::EndpointRefused { name, url: url.clone(), why };
        self.settings.network.check_url(url).map_err(refuse)
    }
}
