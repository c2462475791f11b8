//! The credentials that the tap has added to requests -> a renewal of the sign-in when the server refuses them.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use barewire::client::http::{Dialer, Secret};

use crate::http::session::headers;

/// The credentials of the requests of one connection that have no response yet, in their order. A request with
/// credentials of the client has none here.
#[derive(Default)]
pub(super) struct SentCredentials(Mutex<VecDeque<Vec<(String, Secret)>>>);

impl SentCredentials {
    /// Adds a request.
    pub(super) fn sent(&self, credentials: Vec<(String, Secret)>) {
        self.waiting().push_back(credentials);
    }

    /// Takes the head of a response. If the server has refused our token, it is renewed in the background: the client
    /// gets the refusal, because its request is gone, and the new token is for its next one.
    pub(super) fn responded(&self, dialer: &Dialer, status: u16, head: &[u8]) {
        let wants_nonce = dialer.responded(status, headers(head));
        // 1xx: the response is still to come.
        if status < 200 {
            return;
        }
        let credentials = self.waiting().pop_front().unwrap_or_default();
        if status != UNAUTHORIZED || wants_nonce || credentials.is_empty() {
            return;
        }
        let (dialer, headers) = (dialer.clone(), headers(head).collect::<Vec<_>>());
        tokio::spawn(async move { dialer.renew(&credentials, headers).await });
    }

    fn waiting(&self) -> MutexGuard<'_, VecDeque<Vec<(String, Secret)>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const UNAUTHORIZED: u16 = 401;
