//! The effects of a sign-in, performed: documents are fetched, forms posted, pages opened -> credentials.

use std::future::{Future, pending, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use barewire_proto::auth::{
    AssertionRequest, Credentials, DPOP, DPOP_NONCE, MAX_ENDPOINT_RESPONSE_BYTES, NetworkPolicy, Post, PostBody,
    ProofRequest, SignInEffect, SignInEvent, Url, pasted_query, with_signature,
};
use bytes::Bytes;
use http::Method;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use tokio::time::{Instant, timeout};

use super::SignInError;
use super::clock::now;
use super::crypto::{PrivateKey, SystemCrypto, sha256};
use super::redirect_listener::RedirectListener;
use super::renewals::Renewal;
use super::session::{SessionState, sensitive};
use super::sign_in::SignInMethod;
use super::user::{DeviceCode, SignInPage, SignInUser};
use crate::client::http::FetchError;
use crate::client::http::fetch::{HttpUrl, PlainRequest, PlainResponse};

/// One sign-in under way.
pub(super) struct Flow<'a> {
    pub(super) state: &'a SessionState,
    /// The listener for the redirect of the browser, or the reason why there is none. Only a page needs it.
    pub(super) listener: Result<RedirectListener, SignInError>,
    pub(super) policy: NetworkPolicy,
}

impl Flow<'_> {
    /// Performs effects until there is a token or a reason to stop. A renewal ends when its value is dropped, after the
    /// credentials are stored.
    pub(super) async fn run(&self, mut effect: SignInEffect) -> Result<(Credentials, Option<Renewal>), SignInError> {
        let (mut deadline, mut renewal) = (None, None);
        loop {
            renewal = match &effect {
                SignInEffect::Token(_) => renewal,
                SignInEffect::Post(post) if post.is_renewal() => Some(self.begin_renewal().await?),
                _ => None,
            };
            effect = match effect {
                SignInEffect::Token(credentials) => return Ok((*credentials, renewal)),
                SignInEffect::Stop(reason) => return Err(SignInError::Stopped(reason)),
                SignInEffect::Fetch { url } => self.fetch(url).await?,
                SignInEffect::Post(post) => {
                    self.check_registration(&post)?;
                    self.post(&post).await?
                }
                SignInEffect::OpenPage { url, redirect_uri } => {
                    let query = self.callback(&url, redirect_uri).await?;
                    self.state.step(SignInEvent::Callback { query: &query })?
                }
                SignInEffect::ShowDeviceCode { user_code, page, page_with_code, expires_at, poll_after } => {
                    let code = DeviceCode {
                        code: user_code,
                        url: page.to_string(),
                        complete_url: page_with_code.map(|page| page.to_string()),
                        expires_in: Duration::from_secs(expires_at.saturating_sub(now()))
                            .min(self.state.settings.timeout),
                    };
                    deadline = Instant::now().checked_add(self.state.settings.timeout);
                    let shown = self.user()?.show_code(&code).await;
                    shown.map_err(|failure| SignInError::show(&failure))?;
                    self.wait(poll_after, deadline).await?
                }
                SignInEffect::Wait { seconds } => self.wait(seconds, deadline).await?,
                // The listener only passes redirects of this sign-in on, so it was a pasted one.
                SignInEffect::IgnoreCallback => return Err(SignInError::Show(NOT_THE_REDIRECT.to_owned())),
                _ => return Err(SignInError::Aborted),
            };
        }
    }

    /// Waits until the next question whether the user has agreed, but not beyond the deadline.
    async fn wait(&self, seconds: u64, deadline: Option<Instant>) -> Result<SignInEffect, SignInError> {
        let next = Instant::now().checked_add(Duration::from_secs(seconds));
        if let Some(deadline) = deadline.filter(|deadline| next.is_none_or(|next| *deadline < next)) {
            tokio::time::sleep_until(deadline).await;
            return Err(SignInError::TimedOut { after: self.state.settings.timeout });
        }
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        self.state.step(SignInEvent::Waited)
    }

    /// Begins to renew the token, unless the new one could not be stored: the refresh token is spent once it is sent.
    async fn begin_renewal(&self) -> Result<Renewal, SignInError> {
        self.state.settings.store.prepare(self.state.server.as_str()).await?;
        Ok(Renewal::begin())
    }

    fn user(&self) -> Result<&Arc<dyn SignInUser>, SignInError> {
        self.state.settings.user.as_ref().ok_or_else(|| self.no_user())
    }

    fn no_user(&self) -> SignInError {
        SignInError::NeedsUser { server: self.state.server.to_string(), scopes: self.state.step_up_scopes() }
    }

    /// Fails if the request registers a client that no user could use: the registration would only be left over.
    fn check_registration(&self, post: &Post) -> Result<(), SignInError> {
        let settings = &self.state.settings;
        if !matches!(post.body, PostBody::Json(_)) || !settings.is_interactive() {
            return Ok(());
        }
        self.user()?;
        match (&settings.method, &self.listener) {
            (SignInMethod::Browser, Err(why)) => Err(why.clone()),
            _ => Ok(()),
        }
    }

    async fn fetch(&self, url: Url) -> Result<SignInEffect, SignInError> {
        match self.state.fetch.metadata(url, self.policy, self.state.settings.request_timeout).await {
            Ok(response) => {
                let status = response.status.as_u16();
                self.state.step(SignInEvent::Fetched { status, body: &response.body })
            }
            Err(why) => self.state.step(SignInEvent::Failed { why: &why }),
        }
    }

    async fn post(&self, post: &Post) -> Result<SignInEffect, SignInError> {
        match self.send(post).await? {
            Ok(PlainResponse { status, headers, body }) => {
                let nonce = headers.get(DPOP_NONCE).and_then(|nonce| nonce.to_str().ok());
                self.state.step(SignInEvent::Posted { status: status.as_u16(), nonce, body: &body })
            }
            Err(error) => self.state.step(SignInEvent::Failed { why: &error.to_string() }),
        }
    }

    /// Sends a form or a registration. Redirects are not followed: they would take the secrets elsewhere.
    pub(super) async fn send(&self, post: &Post) -> Result<Result<PlainResponse, FetchError>, SignInError> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(post.content_type()));
        if let Some(authorization) = &post.authorization {
            headers.insert(AUTHORIZATION, sensitive(authorization.expose())?);
        }
        if let Some(proof) = &post.proof {
            let key = PrivateKey::from_record(&proof.key)?;
            headers.insert(HeaderName::from_static(DPOP), sensitive(&signed_proof(proof, &key)?)?);
        }
        let assertion = post.assertion.as_ref().map(signed_assertion).transpose()?;
        let body = Bytes::from(post.body(assertion.as_deref()).expose().to_owned());
        let url = match HttpUrl::parse(post.url.as_str()) {
            Ok(url) => url,
            Err(error) => return Ok(Err(error)),
        };
        let (method, policy, max_body) = (Method::POST, self.policy, MAX_ENDPOINT_RESPONSE_BYTES);
        let timeout = self.state.settings.request_timeout;
        Ok(self.state.fetch.send(PlainRequest { method, url: &url, headers, body, policy, max_body, timeout }).await)
    }

    /// Shows the page to the user, and waits for the redirect of the browser, or for one that the user enters. Returns
    /// its query.
    async fn callback(&self, url: &Url, redirect_uri: String) -> Result<String, SignInError> {
        let user = self.user()?;
        let listener = self.listener.as_ref().map_err(Clone::clone)?;
        let state = url.query().unwrap_or_default().split('&').find_map(|pair| pair.strip_prefix("state="));
        let page = SignInPage { url: url.to_string(), issuer: url.origin(), redirect_uri: redirect_uri.clone() };
        let entered = async {
            match user.open_page(&page).await {
                Err(failure) => Err(SignInError::show(&failure)),
                Ok(Some(text)) => match pasted_query(&text, &redirect_uri) {
                    Some(query) => Ok(query.to_owned()),
                    None => Err(SignInError::Show(NOT_THE_REDIRECT.to_owned())),
                },
                // Only the listener can receive the redirect.
                Ok(None) => pending().await,
            }
        };
        let received = async {
            let failed = |why| SignInError::Listen { port: 0, why: Arc::new(why) };
            listener.wait(state.unwrap_or_default()).await.map_err(failed)
        };
        let after = self.state.settings.timeout;
        timeout(after, first(received, entered)).await.unwrap_or(Err(SignInError::TimedOut { after }))
    }
}

/// Returns the output of the future that is ready first, and drops the other one.
async fn first<T>(one: impl Future<Output = T>, other: impl Future<Output = T>) -> T {
    let (mut one, mut other) = (pin!(one), pin!(other));
    poll_fn(|cx| match one.as_mut().poll(cx) {
        Poll::Pending => other.as_mut().poll(cx),
        ready => ready,
    })
    .await
}

/// Signs a proof with this key.
pub(super) fn signed_proof(proof: &ProofRequest, key: &PrivateKey) -> Result<String, SignInError> {
    let ath = proof.access_token.as_ref().map(|token| sha256(token.expose().as_bytes()));
    let text = proof.signing_input(&SystemCrypto::random_text()?, now(), ath);
    let text = text.ok_or(SignInError::Key("a DPoP key must be a P-256 key"))?;
    Ok(with_signature(&text, &key.sign(&text)?))
}

fn signed_assertion(assertion: &AssertionRequest) -> Result<String, SignInError> {
    let key = PrivateKey::from_record(&assertion.key)?;
    let text = assertion.signing_input(&SystemCrypto::random_text()?, now());
    Ok(with_signature(&text, &key.sign(&text)?))
}

const NOT_THE_REDIRECT: &str = "the entered URL is not the one that the browser shows after this sign-in";
