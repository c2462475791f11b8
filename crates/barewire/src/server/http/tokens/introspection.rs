//! A token that only its issuer can read -> the issuer's answer about it. RFC 7662.

use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::HeaderValue;
use tokio::sync::{Mutex, Semaphore};

use super::document::IssuerDocument;
use super::issuer::Issuer;
use crate::client::http::Secret;

/// Asks the issuer about tokens.
pub(super) struct Introspection {
    /// The id and the secret of this server at the issuer.
    client_id: String,
    secret: Secret,
    /// The URL of the endpoint, if it was given and is not to be taken from the metadata.
    pub(super) endpoint: Option<String>,
    /// Held while the endpoint is looked for, so that many requests wait for one attempt.
    found: Mutex<FoundEndpoint>,
    /// Limits the number of questions at a time.
    room: Semaphore,
}

/// The result of the search for the endpoint.
enum FoundEndpoint {
    NotYet,
    Found(Arc<IssuerDocument>),
    /// The last attempt has failed, at this time.
    Failed(Instant),
}

impl Introspection {
    pub(super) fn new(client_id: String, secret: Secret) -> Self {
        let (found, room) = (Mutex::new(FoundEndpoint::NotYet), Semaphore::new(MAX_QUESTIONS));
        Self { client_id, secret, endpoint: None, found, room }
    }

    /// Returns the issuer's answer, or `None` if there is none.
    ///
    /// `known` is asked for an answer once more when it is this question's turn: another request may have asked the
    /// same.
    pub(super) async fn ask<T>(&self, issuer: &Issuer, token: &str, known: impl Fn() -> Option<T>) -> Answer<T> {
        let Ok(_room) = self.room.acquire().await else { return Answer::None };
        if let Some(known) = known() {
            return Answer::Known(known);
        }
        let Some(document) = self.document(issuer).await else { return Answer::None };
        let form = format!("token={}&token_type_hint=access_token", form_encoded(token));
        match document.post(form, self.authorization()).await {
            Ok(answer) => Answer::Claims(answer),
            Err(why) => {
                report_no_answer(issuer, &why.to_string());
                Answer::None
            }
        }
    }

    /// Returns the endpoint, or `None` if it cannot be found now.
    async fn document(&self, issuer: &Issuer) -> Option<Arc<IssuerDocument>> {
        let mut found = self.found.lock().await;
        match &*found {
            FoundEndpoint::Found(document) => return Some(Arc::clone(document)),
            FoundEndpoint::Failed(at) if at.elapsed() < MIN_SEARCH_INTERVAL => return None,
            FoundEndpoint::NotYet | FoundEndpoint::Failed(_) => {}
        }
        match self.find_endpoint(issuer).await {
            Ok(document) => {
                *found = FoundEndpoint::Found(Arc::clone(&document));
                Some(document)
            }
            Err(why) => {
                *found = FoundEndpoint::Failed(Instant::now());
                report_no_answer(issuer, &why);
                None
            }
        }
    }

    async fn find_endpoint(&self, issuer: &Issuer) -> Result<Arc<IssuerDocument>, String> {
        let url = match &self.endpoint {
            Some(url) => url.clone(),
            None => issuer.endpoint("introspection_endpoint", |metadata| metadata.introspection_endpoint).await?,
        };
        IssuerDocument::new(&url, &issuer.roots).map(Arc::new).map_err(|error| error.to_string())
    }

    /// Returns the credentials of this server: RFC 6749, section 2.3.1.
    fn authorization(&self) -> HeaderValue {
        let pair = format!("{}:{}", form_encoded(&self.client_id), form_encoded(self.secret.expose()));
        let value = format!("Basic {}", BASE64_STANDARD.encode(pair));
        let mut value = HeaderValue::try_from(value).expect("Base64 is a valid header value");
        value.set_sensitive(true);
        value
    }
}

/// The answer to the question about a token.
pub(super) enum Answer<T> {
    /// The issuer's answer, as JSON.
    Claims(Vec<u8>),
    /// The answer was found in the meantime.
    Known(T),
    /// The issuer cannot be reached.
    None,
}

fn report_no_answer(issuer: &Issuer, why: &str) {
    issuer.log.report(format_args!("the issuer {} does not say whether a token is active: {why}", issuer.name));
}

/// Encodes a text for a form.
fn form_encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

/// The maximum number of questions to the issuer at a time. More would load the issuer more than they would help.
const MAX_QUESTIONS: usize = 32;

/// The minimum time between the end of one search for the endpoint and the next one.
const MIN_SEARCH_INTERVAL: Duration = Duration::from_secs(5);
