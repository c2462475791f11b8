//! Nonces for DPoP proofs: a time -> a text that only this server can make, and that is valid for some minutes. Nothing
//! is stored. RFC 9449, section 9.

use barewire_proto::auth::server::base64url;
use ring::hmac;
use subtle::ConstantTimeEq;

/// Makes and checks nonces.
pub(super) struct Nonces {
    key: hmac::Key,
}

/// The age of a nonce.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NonceAge {
    /// It is the one that is given now.
    Current,
    /// It is valid for the rest of this period.
    Ending,
}

impl Nonces {
    /// Creates nonces with this key. Servers with the same key accept each other's nonces.
    pub(super) fn with_key(key: &[u8; 32]) -> Self {
        Self { key: hmac::Key::new(hmac::HMAC_SHA256, key) }
    }

    /// Creates nonces with a random key. Returns `None` if the system returns no random bytes.
    pub(super) fn random() -> Option<Self> {
        let mut key = [0; 32];
        getrandom::fill(&mut key).ok()?;
        Some(Self::with_key(&key))
    }

    /// Returns the nonce of this time.
    pub(super) fn at(&self, now: i64) -> String {
        self.of_period(now.div_euclid(NONCE_PERIOD))
    }

    /// Returns the age of a nonce that is valid: the one of this period, or the one of the period before.
    pub(super) fn age(&self, nonce: &str, now: i64) -> Option<NonceAge> {
        let period = now.div_euclid(NONCE_PERIOD);
        let is_of = |period| self.of_period(period).as_bytes().ct_eq(nonce.as_bytes()).into();
        match (is_of(period), is_of(period - 1)) {
            (true, _) => Some(NonceAge::Current),
            (false, true) => Some(NonceAge::Ending),
            (false, false) => None,
        }
    }

    fn of_period(&self, period: i64) -> String {
        let tag = hmac::sign(&self.key, &period.to_be_bytes());
        base64url(&tag.as_ref()[..NONCE_BYTES])
    }
}

/// The time in seconds for which one nonce is given. A client that sends a request in each period is given the next one
/// with a response; another one learns it with a refused request.
const NONCE_PERIOD: i64 = 150;

/// The number of bytes of a nonce: enough that it cannot be guessed.
const NONCE_BYTES: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nonce_is_valid_for_this_period_and_the_next() {
        let nonces = Nonces::with_key(&[7; 32]);
        let nonce = nonces.at(1_000_000);
        let start = 1_000_000_i64.div_euclid(NONCE_PERIOD) * NONCE_PERIOD;
        let (end, ended) = (start + NONCE_PERIOD, start + 2 * NONCE_PERIOD);
        for (now, age) in [
            (start - 1, None),
            (start, Some(NonceAge::Current)),
            (end - 1, Some(NonceAge::Current)),
            (end, Some(NonceAge::Ending)),
            (ended - 1, Some(NonceAge::Ending)),
            (ended, None),
        ] {
            assert_eq!(nonces.age(&nonce, now), age, "{now}");
        }
        assert!(nonces.age("", start).is_none() && nonces.age("x", start).is_none());
        assert!(Nonces::with_key(&[8; 32]).age(&nonce, start).is_none());
        assert!(Nonces::random().is_some_and(|other| other.age(&nonce, start).is_none()));
    }
}
