//! Nonces for DPoP proofs: a time -> a text that only this server can make, and that is valid for some minutes. Nothing
//! is stored. RFC 9449, section 9.

use barewire_proto::auth::server::base64url;
use ring::hmac;
use subtle::ConstantTimeEq;

/// Makes and checks nonces.
pub(super) struct Nonces {
    key: hmac::Key,
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

    /// Whether the nonce is the one of this period, or the one of the period before.
    pub(super) fn is_valid(&self, nonce: &str, now: i64) -> bool {
        let period = now.div_euclid(NONCE_PERIOD);
        [period, period - 1].iter().any(|period| self.of_period(*period).as_bytes().ct_eq(nonce.as_bytes()).into())
    }

    fn of_period(&self, period: i64) -> String {
        let tag = hmac::sign(&self.key, &period.to_be_bytes());
        base64url(&tag.as_ref()[..NONCE_BYTES])
    }
}

/// The time in seconds for which one nonce is given. A client learns a new one with one refused request.
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
        for (now, is_valid) in
            [(start, true), (start + 2 * NONCE_PERIOD - 1, true), (start + 2 * NONCE_PERIOD, false), (start - 1, false)]
        {
            assert_eq!(nonces.is_valid(&nonce, now), is_valid, "{now}");
        }
        assert!(!nonces.is_valid("", start) && !nonces.is_valid("x", start));
        assert!(!Nonces::with_key(&[8; 32]).is_valid(&nonce, start));
        assert!(Nonces::random().is_some_and(|other| !other.is_valid(&nonce, start)));
    }
}
