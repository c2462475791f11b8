//! The senders of HTTP requests, and how many sessions and exchanges each of them holds, so that no sender can take
//! all.
//!
//! A sender is a principal or, without authentication, the network that a request comes from. Its counters exist only
//! while it has a connection, a session or an exchange, or while its principal is remembered with its token.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, PoisonError, Weak};

use super::capacity::Capacity;
use super::{HttpLimits, Principal};
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Mutex, MutexGuard};

/// The address that a request comes from. A program that mounts an [`HttpService`](super::HttpService) in its own HTTP
/// server adds it to the extensions of each request, so that clients without authentication are told apart:
///
/// ```
/// use std::net::SocketAddr;
/// use barewire::server::http::PeerAddress;
///
/// fn with_peer<B>(mut request: http::Request<B>, peer: SocketAddr) -> http::Request<B> {
///     request.extensions_mut().insert(PeerAddress(peer.ip()));
///     request
/// }
/// ```
///
/// In axum, `peer` is the address of `ConnectInfo`. Without a `PeerAddress`, all clients that are not authenticated
/// share the limits of one sender. An [`HttpListener`](super::HttpListener) uses the address of the socket, and trusts
/// no header such as `X-Forwarded-For`: every client can write one. A program behind a proxy that it trusts can take
/// the address from such a header itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_structs, reason = "it is an address and nothing else")]
pub struct PeerAddress(pub IpAddr);

/// The identity of a sender.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum SenderKey {
    /// The name of a principal.
    Principal(Arc<str>),
    /// An IPv4 address, or the first 64 bits of an IPv6 address.
    Network(IpAddr),
    /// All clients whose address is not known.
    Unknown,
}

impl From<PeerAddress> for SenderKey {
    /// One IPv6 client usually has a network of 64 bits for itself and can send from every address in it, so all of
    /// them are one sender.
    fn from(PeerAddress(address): PeerAddress) -> Self {
        Self::Network(match address.to_canonical() {
            IpAddr::V6(address) => {
                let network = u128::from(address) >> IPV6_HOST_BITS << IPV6_HOST_BITS;
                Ipv6Addr::from(network).into()
            }
            address => address,
        })
    }
}

/// The known senders, and the limits for each of them and for all of them together.
pub(super) struct Senders {
    known: Mutex<HashMap<SenderKey, Weak<Sender>>>,
    sessions: Capacity,
    exchanges: Capacity,
    session_share: usize,
    exchanges_per_sender: usize,
}

/// One sender.
pub(super) struct Sender {
    key: SenderKey,
    all: Arc<Senders>,
    sessions: AtomicUsize,
    exchanges: Capacity,
}

/// Makes a request or a stream count as an exchange of its sender, and of its session if it has one.
pub(super) struct ExchangeGuard {
    sender: Arc<Sender>,
    session: Option<Arc<Capacity>>,
}

/// The limit of exchanges that leaves no room for another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ExchangeLimit {
    Session,
    Sender,
    Server,
}

impl ExchangeLimit {
    /// Returns the text for the client that is refused.
    pub(super) fn reason(self) -> &'static str {
        match self {
            Self::Session => {
                "This session has no room for another request: wait until one is answered, or cancel requests"
            }
            Self::Sender => {
                "This server has no room for another request of this client: wait until one is answered, or cancel \
                 requests"
            }
            Self::Server => "This server has no room for another request: send it again later",
        }
    }
}

impl Senders {
    pub(super) fn new(limits: &HttpLimits) -> Arc<Self> {
        Arc::new(Self {
            known: Mutex::default(),
            sessions: Capacity::new(limits.sessions),
            exchanges: Capacity::new(limits.exchanges),
            session_share: limits.session_share,
            exchanges_per_sender: limits.exchanges_per_sender,
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SenderKey, Weak<Sender>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the sender with this principal.
    pub(super) fn principal(self: &Arc<Self>, principal: &Principal) -> Arc<Sender> {
        let find = || self.find(SenderKey::Principal(principal.shared_name()));
        let kept = principal.kept_sender().get_or_init(find);
        // A principal can be used with several servers.
        if Arc::ptr_eq(&kept.all, self) { Arc::clone(kept) } else { find() }
    }

    /// Returns the sender with this address, which is `None` if the address is not known.
    pub(super) fn at(self: &Arc<Self>, address: Option<PeerAddress>) -> Arc<Sender> {
        self.find(address.map_or(SenderKey::Unknown, SenderKey::from))
    }

    /// Returns the number of known senders.
    pub(super) fn known_count(&self) -> usize {
        self.lock().len()
    }

    /// Returns the number of sessions of all senders.
    pub(super) fn session_count(&self) -> usize {
        self.sessions.used()
    }

    /// Returns the number of exchanges of all senders.
    pub(super) fn exchange_count(&self) -> usize {
        self.exchanges.used()
    }

    fn find(self: &Arc<Self>, key: SenderKey) -> Arc<Sender> {
        let mut known = self.lock();
        if let Some(sender) = known.get(&key).and_then(Weak::upgrade) {
            return sender;
        }
        let sender = Arc::new(Sender {
            key: key.clone(),
            all: Arc::clone(self),
            sessions: AtomicUsize::new(0),
            exchanges: Capacity::new(self.exchanges_per_sender),
        });
        known.insert(key, Arc::downgrade(&sender));
        sender
    }
}

impl Sender {
    /// Counts one more session. Returns `false` if there are as many sessions as the server may have.
    #[must_use = "the session must be ended"]
    pub(super) fn begin_session(&self) -> bool {
        let has_room = self.all.sessions.take(1);
        if has_room {
            self.sessions.fetch_add(1, Ordering::AcqRel);
        }
        has_room
    }

    /// Stops counting a session.
    pub(super) fn end_session(&self) {
        self.sessions.fetch_sub(1, Ordering::AcqRel);
        self.all.sessions.give_back(1);
    }

    /// Returns the number of sessions of this sender.
    pub(super) fn sessions(&self) -> usize {
        self.sessions.load(Ordering::Acquire)
    }

    /// Whether the sender has fewer sessions than its share.
    pub(super) fn is_below_share(&self) -> bool {
        self.sessions() < self.all.session_share
    }

    /// Whether the sender has more sessions than its share.
    pub(super) fn is_above_share(&self) -> bool {
        self.sessions() > self.all.session_share
    }

    /// Counts one more exchange of this sender. `session` counts the exchanges of its session, if it has one.
    pub(super) fn begin_exchange(
        self: &Arc<Self>,
        session: Option<&Arc<Capacity>>,
    ) -> Result<ExchangeGuard, ExchangeLimit> {
        if !session.is_none_or(|session| session.take(1)) {
            return Err(ExchangeLimit::Session);
        }
        let limit = match self.exchanges.take(1) {
            true if self.all.exchanges.take(1) => {
                return Ok(ExchangeGuard { sender: Arc::clone(self), session: session.cloned() });
            }
            true => {
                self.exchanges.give_back(1);
                ExchangeLimit::Server
            }
            false => ExchangeLimit::Sender,
        };
        if let Some(session) = session {
            session.give_back(1);
        }
        Err(limit)
    }
}

impl Drop for Sender {
    /// Forgets the sender, unless a request has made it known again in the meantime.
    fn drop(&mut self) {
        let mut known = self.all.lock();
        if known.get(&self.key).is_some_and(|sender| sender.strong_count() == 0) {
            known.remove(&self.key);
        }
    }
}

impl Drop for ExchangeGuard {
    fn drop(&mut self) {
        self.sender.all.exchanges.give_back(1);
        self.sender.exchanges.give_back(1);
        if let Some(session) = &self.session {
            session.give_back(1);
        }
    }
}

/// The number of low bits of an IPv6 address that do not tell senders apart.
const IPV6_HOST_BITS: u32 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn senders(set: impl FnOnce(&mut HttpLimits)) -> Arc<Senders> {
        let mut limits = HttpLimits::default();
        set(&mut limits);
        Senders::new(&limits)
    }

    #[test]
    fn a_principal_that_is_kept_has_a_sender_at_each_server() {
        let (one, other) = (Senders::new(&HttpLimits::default()), Senders::new(&HttpLimits::default()));
        let ada = Principal::new("ada");
        let first = one.principal(&ada);
        assert!(
            Arc::ptr_eq(&first, &one.principal(&ada)) && Arc::ptr_eq(&first, &one.principal(&Principal::new("ada")))
        );
        assert!(!Arc::ptr_eq(&first, &other.principal(&ada)));
        // A changed copy has the same name, and so the same sender.
        assert!(Arc::ptr_eq(&first, &one.principal(&ada.clone().scopes(["a"]))));
        drop(first);
        assert_eq!((one.known_count(), other.known_count()), (1, 0), "the principal keeps the first");
        drop(ada);
        assert_eq!(one.known_count(), 0);
    }

    #[test]
    fn addresses_of_one_network_are_one_sender() {
        let senders = senders(|_| {});
        let is_same = |one: &str, other: &str| {
            let [one, other] = [one, other].map(|text| senders.at(text.parse().ok().map(PeerAddress)));
            Arc::ptr_eq(&one, &other)
        };
        for (one, other, expected) in [
            ("192.0.2.1", "192.0.2.1", true),
            ("192.0.2.1", "192.0.2.2", false),
            ("192.0.2.1", "::ffff:192.0.2.1", true),
            ("::ffff:192.0.2.1", "::ffff:192.0.2.2", false),
            ("2001:db8:0:1::1", "2001:db8:0:1:ffff::", true),
            ("2001:db8:0:1::1", "2001:db8:0:2::1", false),
            ("::1", "127.0.0.1", false),
            ("unknown", "not known either", true),
            ("unknown", "127.0.0.1", false),
        ] {
            assert_eq!(is_same(one, other), expected, "{one} {other}");
        }
        let ada = || senders.principal(&Principal::new("ada"));
        assert!(Arc::ptr_eq(&ada(), &ada()));
        assert!(!Arc::ptr_eq(&ada(), &senders.principal(&Principal::new("bob"))));
    }

    #[test]
    fn a_sender_is_forgotten_with_the_last_thing_that_it_holds() {
        let senders = senders(|_| {});
        let known = || senders.known_count();
        let connection = senders.at(None);
        let exchange = connection.begin_exchange(None).expect("room");
        drop(connection);
        assert_eq!(known(), 1);
        drop(exchange);
        assert_eq!(known(), 0);
        for number in 0..1000 {
            senders.principal(&Principal::new(number.to_string()));
        }
        assert_eq!((known(), senders.exchange_count()), (0, 0));
    }

    #[test]
    fn each_limit_of_exchanges_is_named_and_a_refused_one_is_not_counted() {
        let senders = senders(|limits| (limits.exchanges, limits.exchanges_per_sender) = (3, 2));
        let session = Arc::new(Capacity::new(1));
        let (ada, bob) = (senders.principal(&Principal::new("ada")), senders.principal(&Principal::new("bob")));
        let first = ada.begin_exchange(Some(&session)).expect("room");
        assert_eq!(ada.begin_exchange(Some(&session)).err(), Some(ExchangeLimit::Session));
        let second = ada.begin_exchange(None).expect("room");
        for _ in 0..3 {
            assert_eq!(ada.begin_exchange(None).err(), Some(ExchangeLimit::Sender));
        }
        let third = bob.begin_exchange(None).expect("room");
        let other = Arc::new(Capacity::new(1));
        for _ in 0..3 {
            assert_eq!(bob.begin_exchange(Some(&other)).err(), Some(ExchangeLimit::Server));
        }
        assert_eq!((ada.exchanges.used(), bob.exchanges.used(), session.used(), other.used()), (2, 1, 1, 0));
        drop((first, second, third));
        assert_eq!((ada.exchanges.used(), bob.exchanges.used(), session.used()), (0, 0, 0));
        assert_eq!(senders.exchange_count(), 0);
    }
}
