//! The handshake of the legacy era, as one table that maps state and event to an effect.
//!
//! By `initialize` client and server agree on a revision, and `notifications/initialized` completes the handshake: MCP
//! 2025-11-25, basic/lifecycle. No other code decides which request is allowed in which state.

use std::fmt;

use serde::Serialize;

use super::Revision;
use crate::rpc::{Code, ErrorObject};

/// The state of a connection's handshake, as the server sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(clippy::exhaustive_enums, reason = "no later revision has a handshake, so it will not change")]
pub enum Handshake {
    /// No revision is agreed on yet.
    #[default]
    Fresh,
    /// No revision is agreed on, and the client has sent a modern request. Only `initialize` is still a legacy request.
    Modern,
    /// `initialize` was answered with this revision; `notifications/initialized` has not arrived yet.
    Initializing(Revision),
    /// The handshake is complete: all requests are allowed.
    Ready(Revision),
}

/// A message from the client, reduced to the facts that the handshake depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "no later revision has a handshake, so it will not change")]
pub enum HandshakeEvent<'a> {
    /// `initialize` with this requested revision.
    Initialize(&'a str),
    /// `notifications/initialized`.
    Initialized,
    /// `ping`.
    Ping,
    /// Any other request.
    Request,
}

/// The effect of a message from the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a server must handle every variant")]
pub enum HandshakeEffect {
    /// Serve the message in this revision.
    Serve(Revision),
    /// Refuse the request.
    Refuse(HandshakeRule),
    /// Ignore the notification.
    Ignore,
}

/// A rule of the handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum HandshakeRule {
    /// Only `ping` is allowed before `initialize`.
    BeforeInitialize,
    /// Only `ping` is allowed before `notifications/initialized`.
    BeforeInitialized,
    /// Only one `initialize` is allowed per connection.
    SecondInitialize,
    /// The server supports no revision that has a handshake.
    NoHandshake,
    /// The server supports only modern revisions, or the client has sent a modern request and no `initialize`; and this
    /// request lacks the `_meta` members that modern requests require.
    NoMeta,
}

/// The settings of the handshake.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct HandshakePolicy<'a> {
    /// The revisions that the server supports, in ascending order.
    pub supported: &'a [Revision],
    /// Whether requests are allowed before the handshake is complete.
    pub lenient: bool,
}

impl Handshake {
    /// Applies a message from the client and returns its effect.
    #[inline]
    pub fn step(&mut self, event: HandshakeEvent<'_>, policy: HandshakePolicy<'_>) -> HandshakeEffect {
        match (*self, event) {
            (Self::Ready(revision), HandshakeEvent::Request | HandshakeEvent::Ping) => HandshakeEffect::Serve(revision),
            (Self::Initializing(revision), HandshakeEvent::Ping) => HandshakeEffect::Serve(revision),
            (Self::Initializing(revision), HandshakeEvent::Request) if policy.lenient => HandshakeEffect::Serve(revision),
            (Self::Initializing(_), HandshakeEvent::Request) => HandshakeEffect::Refuse(HandshakeRule::BeforeInitialized),
            (Self::Initializing(revision), HandshakeEvent::Initialized) => {
                *self = Self::Ready(revision);
                HandshakeEffect::Serve(revision)
            }
            (Self::Fresh | Self::Modern, HandshakeEvent::Initialize(requested)) => match policy.agree(requested) {
                Some(revision) => {
                    *self = Self::Initializing(revision);
                    HandshakeEffect::Serve(revision)
                }
                None => HandshakeEffect::Refuse(HandshakeRule::NoHandshake),
            },
            (Self::Initializing(_) | Self::Ready(_), HandshakeEvent::Initialize(_)) => {
                HandshakeEffect::Refuse(HandshakeRule::SecondInitialize)
            }
            (Self::Fresh, HandshakeEvent::Ping) => policy.latest().map_or(HandshakeEffect::Refuse(HandshakeRule::NoMeta), HandshakeEffect::Serve),
            (Self::Fresh, HandshakeEvent::Request) => match policy.latest() {
                Some(latest) if policy.lenient => HandshakeEffect::Serve(latest),
                Some(_) => HandshakeEffect::Refuse(HandshakeRule::BeforeInitialize),
                None => HandshakeEffect::Refuse(HandshakeRule::NoMeta),
            },
            // MCP 2026-07-28, basic/index, `_meta`: "A request missing any required field is malformed; the server MUST
            // reject it with JSON-RPC error code -32602". The client has shown that it is modern.
            (Self::Modern, HandshakeEvent::Ping | HandshakeEvent::Request) => HandshakeEffect::Refuse(HandshakeRule::NoMeta),
            // `notifications/initialized` has no effect before `initialize`, or when it is received a second time.
            (Self::Fresh | Self::Modern | Self::Ready(_), HandshakeEvent::Initialized) => HandshakeEffect::Ignore,
        }
    }

    /// Records that the client has sent a modern request, which needs no handshake. A handshake that has begun stays.
    #[inline]
    pub fn record_modern_request(&mut self) {
        if *self == Self::Fresh {
            *self = Self::Modern;
        }
    }

    /// Returns the revision that client and server agreed on, if there is one.
    pub fn revision(self) -> Option<Revision> {
        match self {
            Self::Fresh | Self::Modern => None,
            Self::Initializing(revision) | Self::Ready(revision) => Some(revision),
        }
    }
}

impl<'a> HandshakePolicy<'a> {
    /// Creates the policy that the specification requires, which is not lenient. `supported` is in ascending order.
    #[inline]
    pub const fn new(supported: &'a [Revision]) -> Self {
        Self { supported, lenient: false }
    }
}

setters! { HandshakePolicy<'a> { lenient: bool } }

impl HandshakePolicy<'_> {
    /// Returns the requested revision if it is legacy and supported, else the latest supported legacy revision.
    fn agree(self, requested: &str) -> Option<Revision> {
        let requested = Revision::parse(requested).filter(|requested| !requested.is_modern() && self.supported.contains(requested));
        requested.or_else(|| self.latest())
    }

    /// Returns the latest supported revision with a handshake.
    fn latest(self) -> Option<Revision> {
        self.supported.iter().copied().filter(|revision| !revision.is_modern()).max()
    }
}

impl HandshakeRule {
    /// Returns the short name of the rule, for use by programs.
    pub fn name(self) -> &'static str {
        match self {
            Self::BeforeInitialize => "before-initialize",
            Self::BeforeInitialized => "before-initialized",
            Self::SecondInitialize => "second-initialize",
            Self::NoHandshake => "no-handshake",
            Self::NoMeta => "no-meta",
        }
    }

    /// Returns the error for a request that breaks the rule.
    pub fn error(self, supported: &[Revision]) -> ErrorObject {
        let (code, more) = match self {
            Self::NoHandshake => (Code::METHOD_NOT_FOUND, ""),
            Self::NoMeta => (Code::INVALID_PARAMS, ""),
            // The request might be a modern request that lacks its metadata, so the error message mentions `_meta`.
            Self::BeforeInitialize if supported.iter().any(|it| it.is_modern()) => {
                (Code::INVALID_REQUEST, ", unless _meta says the protocol version")
            }
            Self::BeforeInitialize | Self::BeforeInitialized | Self::SecondInitialize => (Code::INVALID_REQUEST, ""),
        };
        // MCP 2026-07-28, basic/versioning: an error response to `initialize` SHOULD list the supported versions. Only
        // modern ones can be named in `_meta`.
        let supported = matches!(self, Self::NoHandshake | Self::NoMeta)
            .then(|| supported.iter().copied().filter(|revision| revision.is_modern()).collect());
        let data = HandshakeRuleData { rule: self.name(), supported };
        let standard = code.message().unwrap_or_default();
        ErrorObject::new(code, format!("{standard}: {self}{more}")).with_data(&data)
    }
}

impl fmt::Display for HandshakeRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BeforeInitialize => "only ping may come before initialize",
            Self::BeforeInitialized => "only ping may come before notifications/initialized",
            Self::SecondInitialize => "this connection is initialized already",
            Self::NoHandshake => "there is no handshake here, each request says its protocol version in _meta",
            Self::NoMeta => "_meta lacks io.modelcontextprotocol/protocolVersion",
        })
    }
}

#[derive(Serialize)]
struct HandshakeRuleData {
    rule: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    supported: Option<Vec<Revision>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: Revision = Revision::V2025_06_18;
    const STATES: [Handshake; 4] =
        [Handshake::Fresh, Handshake::Modern, Handshake::Initializing(OLD), Handshake::Ready(OLD)];

    fn step(state: Handshake, event: HandshakeEvent<'_>, lenient: bool) -> (Handshake, HandshakeEffect) {
        let mut state = state;
        let effect = state.step(event, HandshakePolicy { supported: &Revision::ALL, lenient });
        (state, effect)
    }

    #[test]
    fn all_of_the_table() {
        use HandshakeEffect::{Ignore, Refuse, Serve};
        let latest = Revision::LATEST_LEGACY;
        let [fresh, modern, initializing, ready] = STATES;
        for (state, event, next, effect) in [
            (fresh, HandshakeEvent::Ping, fresh, Serve(latest)),
            (fresh, HandshakeEvent::Request, fresh, Refuse(HandshakeRule::BeforeInitialize)),
            (fresh, HandshakeEvent::Initialized, fresh, Ignore),
            (fresh, HandshakeEvent::Initialize("2025-06-18"), initializing, Serve(OLD)),
            (modern, HandshakeEvent::Ping, modern, Refuse(HandshakeRule::NoMeta)),
            (modern, HandshakeEvent::Request, modern, Refuse(HandshakeRule::NoMeta)),
            (modern, HandshakeEvent::Initialized, modern, Ignore),
            (modern, HandshakeEvent::Initialize("2025-06-18"), initializing, Serve(OLD)),
            (initializing, HandshakeEvent::Ping, initializing, Serve(OLD)),
            (initializing, HandshakeEvent::Request, initializing, Refuse(HandshakeRule::BeforeInitialized)),
            (initializing, HandshakeEvent::Initialized, ready, Serve(OLD)),
            (initializing, HandshakeEvent::Initialize("2025-06-18"), initializing, Refuse(HandshakeRule::SecondInitialize)),
            (ready, HandshakeEvent::Ping, ready, Serve(OLD)),
            (ready, HandshakeEvent::Request, ready, Serve(OLD)),
            (ready, HandshakeEvent::Initialized, ready, Ignore),
            (ready, HandshakeEvent::Initialize("2024-11-05"), ready, Refuse(HandshakeRule::SecondInitialize)),
        ] {
            assert_eq!(step(state, event, false), (next, effect), "{state:?} {event:?}");
            // A lenient server accepts requests earlier. All other effects are the same.
            let effect = match (state, event) {
                (Handshake::Fresh, HandshakeEvent::Request) => Serve(latest),
                (Handshake::Initializing(_), HandshakeEvent::Request) => Serve(OLD),
                _ => effect,
            };
            assert_eq!(step(state, event, true), (next, effect), "lenient: {state:?} {event:?}");
        }
    }

    #[test]
    fn a_modern_request_does_not_end_a_handshake() {
        let [fresh, modern, initializing, ready] = STATES;
        for (state, next) in [(fresh, modern), (modern, modern), (initializing, initializing), (ready, ready)] {
            let mut state = state;
            state.record_modern_request();
            assert_eq!(state, next);
        }
    }

    #[test]
    fn the_requested_revision_is_agreed_or_else_the_latest() {
        let agreed = |supported: &[Revision], requested: &str| {
            let mut state = Handshake::Fresh;
            state.step(HandshakeEvent::Initialize(requested), HandshakePolicy { supported, lenient: false });
            state.revision()
        };
        for revision in Revision::ALL {
            let expected = if revision.is_modern() { Revision::LATEST_LEGACY } else { revision };
            assert_eq!(agreed(&Revision::ALL, revision.as_str()), Some(expected));
        }
        for unknown in ["", "1900-01-01", "2099-01-01", "2025-06-18 "] {
            assert_eq!(agreed(&Revision::ALL, unknown), Some(Revision::LATEST_LEGACY));
        }
        assert_eq!(agreed(&[Revision::V2024_11_05, OLD], "2025-11-25"), Some(OLD));
        assert_eq!(agreed(&[Revision::V2026_07_28], "2025-11-25"), None);
    }

    #[test]
    fn a_request_without_handshake_and_metadata_gets_an_error_that_names_both() {
        let error = |supported: &[Revision]| HandshakeRule::BeforeInitialize.error(supported);
        assert!(error(&Revision::ALL).message.ends_with("unless _meta says the protocol version"));
        assert!(error(&[OLD]).message.ends_with("before initialize"));
        for supported in [&Revision::ALL[..], &[OLD]] {
            assert_eq!(error(supported).code, Code::INVALID_REQUEST);
        }
    }

    #[test]
    fn without_a_handshake_the_error_lists_the_supported_revisions() {
        let mut state = Handshake::Fresh;
        let policy = HandshakePolicy { supported: &[Revision::V2026_07_28], lenient: true };
        assert_eq!(state.step(HandshakeEvent::Initialize("2025-11-25"), policy), HandshakeEffect::Refuse(HandshakeRule::NoHandshake));
        for event in [HandshakeEvent::Ping, HandshakeEvent::Request] {
            assert_eq!(state.step(event, policy), HandshakeEffect::Refuse(HandshakeRule::NoMeta));
        }
        assert_eq!(HandshakeRule::NoMeta.error(policy.supported).code, Code::INVALID_PARAMS);
        let error = HandshakeRule::NoHandshake.error(policy.supported);
        let data = error.data.expect("data");
        assert_eq!(data.get(), r#"{"rule":"no-handshake","supported":["2026-07-28"]}"#);
    }
}
