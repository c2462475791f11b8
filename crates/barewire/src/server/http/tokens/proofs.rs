//! The DPoP proof of a request -> whether its sender has the key that the token is bound to, and sends the proof for the
//! first time. RFC 9449.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};

use barewire_proto::auth::server::{NonceState, Proof, ProofExpectations, ProofRefusal, base64url, normal_url};
use barewire_proto::http::single;
use http::HeaderValue;

use super::nonce::{NonceAge, Nonces};
use super::verify::{is_signed_by, sha256};
use crate::headers::HeaderMapView;
use crate::server::http::RequestHead;

/// The checks of proofs, and the memory of those that were used.
pub(super) struct Proofs {
    /// The URL of the server as clients see it, in its normal form; `None` if it is that of the request.
    pub(super) public_url: Option<String>,
    pub(super) nonces: Option<Nonces>,
    used: Mutex<UsedProofs>,
}

/// The proofs that were used: those of the current window of time, and those of the one before.
struct UsedProofs {
    young: HashSet<[u8; 16]>,
    old: HashSet<[u8; 16]>,
    /// The number of proofs of each key in this window.
    by_key: HashMap<[u8; 16], usize>,
    /// The time at which the window began.
    since: i64,
    /// The time such that every used proof that was issued then or later is remembered.
    complete_since: i64,
}

/// The reason why a request with a proof is refused.
pub(super) enum BadProof {
    Refused(ProofRefusal),
    /// There is no room to remember another proof.
    Full,
    /// The clock was set back, and it is not known whether the proof was used before.
    ClockSetBack,
}

impl From<ProofRefusal> for BadProof {
    fn from(refusal: ProofRefusal) -> Self {
        Self::Refused(refusal)
    }
}

impl Proofs {
    pub(super) fn new() -> Self {
        Self { public_url: None, nonces: None, used: Mutex::new(UsedProofs::new()) }
    }

    /// Checks the proof of a request whose token has this hash, and is bound to the key with this thumbprint. Returns
    /// the age of its nonce, if it needs one.
    pub(super) fn check(
        &self,
        head: &RequestHead<'_>,
        token_hash: &[u8; 32],
        bound_to: &str,
        now: i64,
    ) -> Result<Option<NonceAge>, BadProof> {
        let headers = HeaderMapView(head.headers);
        let text = single(&headers, "dpop").map_err(|_| ProofRefusal::Repeated)?.ok_or(ProofRefusal::Missing)?;
        let proof = Proof::parse(text)?;
        let thumbprint = sha256(proof.key.thumbprint_input().as_bytes());
        let url = match &self.public_url {
            Some(url) => url.clone(),
            None => normal_url(&head.uri.to_string()).ok_or(ProofRefusal::Url)?,
        };
        let age = match &self.nonces {
            Some(nonces) => proof.nonce.as_deref().and_then(|nonce| nonces.age(nonce, now)),
            None => None,
        };
        let nonce = match (&self.nonces, age) {
            (None, _) => NonceState::NotRequired,
            (Some(_), Some(NonceAge::Current | NonceAge::Ending)) => NonceState::Valid,
            (Some(_), None) => NonceState::Stale,
        };
        let (token_hash, shown) = (base64url(token_hash), base64url(&thumbprint));
        let expected = ProofExpectations::new(head.method.as_str(), &url, &token_hash)
            .bound_to(bound_to)
            .thumbprint(&shown)
            .nonce(nonce)
            .now(now)
            .max_age(MAX_PROOF_AGE)
            .leeway(PROOF_LEEWAY);
        // The signature comes after the checks that are cheap, and before the proof is remembered: a client without the
        // key can neither use up the server's time nor its memory.
        proof.check(&expected)?;
        if !is_signed_by(&proof.key, proof.jws.header.algorithm, proof.jws.signed, &proof.jws.signature) {
            return Err(ProofRefusal::Signature.into());
        }
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        used.remember(&thumbprint, proof.id.as_bytes(), proof.issued, now, MAX_PROOFS)?;
        Ok(age)
    }

    /// Returns the nonce to give to a client now, if proofs need one.
    pub(super) fn nonce(&self, now: i64) -> Option<HeaderValue> {
        let nonce = self.nonces.as_ref()?.at(now);
        Some(HeaderValue::try_from(nonce).expect("Base64 is a valid header value"))
    }
}

impl UsedProofs {
    fn new() -> Self {
        let (young, old, by_key) = (HashSet::new(), HashSet::new(), HashMap::new());
        Self { young, old, by_key, since: i64::MIN, complete_since: i64::MIN }
    }

    /// Remembers a proof that was issued at a time which is accepted now, unless it was used before.
    fn remember(&mut self, key: &[u8; 32], id: &[u8], issued: i64, now: i64, max: usize) -> Result<(), BadProof> {
        // Only time that has passed begins a new window. `now` can be earlier than the beginning of this one: another
        // request has begun it since this one looked at the clock, or the clock was set back. What was used then can be
        // accepted again, so nothing is forgotten.
        if now.saturating_sub(self.since) >= WINDOW {
            // The proofs that are forgotten were used before the window that becomes the old one.
            self.complete_since = self.since.saturating_add(PROOF_LEEWAY);
            self.old = std::mem::take(&mut self.young);
            self.by_key.clear();
            self.since = now;
        }
        let proof = first_half(&sha256(&[&key[..], id].concat()));
        if self.young.contains(&proof) || self.old.contains(&proof) {
            return Err(ProofRefusal::Replayed.into());
        }
        // While the clock goes forward, proofs that were issued so long ago are too old. Whether one was used before is
        // not known, so it must not be accepted again when the clock was set back.
        if issued < self.complete_since {
            return Err(BadProof::ClockSetBack);
        }
        // A proof that is not remembered could be used again, so none is accepted when there is no room. One key can
        // take only a part of the room.
        if self.young.len() >= max {
            return Err(BadProof::Full);
        }
        let of_key = self.by_key.entry(first_half(key)).or_default();
        if *of_key >= max / KEY_SHARE {
            return Err(BadProof::Full);
        }
        *of_key += 1;
        self.young.insert(proof);
        Ok(())
    }
}

fn first_half(hash: &[u8; 32]) -> [u8; 16] {
    let (first, _) = hash.split_first_chunk().expect("32 bytes have 16");
    *first
}

/// The maximum age of a proof in seconds. Clients make a proof for each request, so it is only as old as the way that
/// the request has come, and as the clocks differ.
const MAX_PROOF_AGE: i64 = 60;

/// The number of seconds by which a client's clock may be ahead.
const PROOF_LEEWAY: i64 = 5;

/// The time in seconds during which one proof is accepted.
const WINDOW: i64 = MAX_PROOF_AGE + PROOF_LEEWAY;

/// The maximum number of proofs that are remembered in a window: 8000 requests in a second, which is about the number of
/// signatures that one core verifies. They take up to 18 MB, and twice that with the window before.
const MAX_PROOFS: usize = 512 * 1024;

/// The part of the room that one key can take: a quarter.
const KEY_SHARE: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(result: Result<(), BadProof>) -> &'static str {
        match result {
            Ok(()) => "good",
            Err(BadProof::Refused(ProofRefusal::Replayed)) => "replayed",
            Err(BadProof::Refused(_)) => "refused",
            Err(BadProof::Full) => "full",
            Err(BadProof::ClockSetBack) => "set back",
        }
    }

    #[test]
    fn a_proof_is_good_once_for_as_long_as_its_time_is_accepted() {
        let mut used = UsedProofs::new();
        let mut remember = |id: &str, issued, now| outcome(used.remember(&[1; 32], id.as_bytes(), issued, now, 100));
        // From the future, so that it is accepted for the longest time.
        assert_eq!(remember("a", 1005, 1000), "good");
        for now in [1000, 1001, 1064, 1065] {
            assert_eq!(remember("a", 1005, now), "replayed", "{now}");
        }
        assert_eq!(remember("b", 1066, 1066), "good");
        assert_eq!(remember("b", 1066, 1066 + MAX_PROOF_AGE), "replayed");
        assert_eq!(remember("c", 1006, 1066), "good", "as old as a proof may be");
    }

    #[test]
    fn a_request_that_was_late_does_not_make_the_server_forget() {
        let mut used = UsedProofs::new();
        let mut remember = |id: &str, issued, now| outcome(used.remember(&[1; 32], id.as_bytes(), issued, now, 100));
        assert_eq!(remember("a", 1050, 1000), "good");
        assert_eq!(remember("b", 1050, 1064), "good");
        assert_eq!(remember("c", 1065, 1065), "good", "the next window");
        assert_eq!(remember("d", 1063, 1063), "good", "it has looked at the clock before");
        assert_eq!(remember("d", 1063, 1065), "replayed");
        for id in ["a", "b"] {
            assert_eq!(remember(id, 1050, 1066), "replayed", "{id}");
        }
    }

    #[test]
    fn no_proof_is_accepted_again_when_the_clock_was_set_back_by_any_time() {
        let (start, end) = (1_000_000, 1_001_000);
        for back in [1, 30, 60, 61, 65, 130, 1000, 100_000] {
            let mut used = UsedProofs::new();
            let mut remember =
                |issued: i64, now| outcome(used.remember(&[1; 32], &issued.to_be_bytes(), issued, now, 100));
            // Proofs from the future, which are accepted for the longest time.
            for now in (start..end).step_by(10) {
                assert_eq!(remember(now + PROOF_LEEWAY, now), "good");
            }
            // Each second, every proof whose time is accepted is sent again.
            for now in (end - back..end + 200).take(1500) {
                for issued in now - MAX_PROOF_AGE..=now + PROOF_LEEWAY {
                    let is_used = issued % 10 == PROOF_LEEWAY && (start..end).contains(&(issued - PROOF_LEEWAY));
                    if is_used {
                        assert_ne!(remember(issued, now), "good", "{issued} at {now}, set back by {back}");
                    }
                }
            }
            assert_eq!(remember(end + 200, end + 200), "good", "the clock has caught up");
        }
    }

    #[test]
    fn new_proofs_are_accepted_when_the_clock_was_set_back_by_seconds() {
        let mut used = UsedProofs::new();
        let mut remember = |now: i64| outcome(used.remember(&[1; 32], &now.to_be_bytes(), now, now, 100));
        for now in (1000..2000).step_by(20) {
            assert_eq!((remember(now), remember(now - 50)), ("good", "good"), "{now}");
        }
    }

    #[test]
    fn a_clock_that_was_set_forward_and_back_brings_no_proof_back() {
        let mut used = UsedProofs::new();
        let mut remember = |id: &str, now| outcome(used.remember(&[1; 32], id.as_bytes(), now, now, 100));
        assert_eq!(remember("a", 1000), "good");
        assert_eq!(remember("b", 1_000_000), "good");
        assert_eq!(remember("a", 1000), "replayed");
        assert_eq!(remember("c", 2_000_000), "good");
        assert_eq!(remember("a", 1000), "set back");
    }

    #[test]
    fn another_key_may_use_the_same_id() {
        let mut used = UsedProofs::new();
        assert_eq!(outcome(used.remember(&[1; 32], b"a", 1, 1, 100)), "good");
        assert_eq!(outcome(used.remember(&[2; 32], b"a", 1, 1, 100)), "good");
    }

    #[test]
    fn without_room_nothing_is_accepted_and_one_key_cannot_take_all_room() {
        let mut used = UsedProofs::new();
        let mut accepted = 0;
        for id in 0..100_u8 {
            accepted += usize::from(used.remember(&[1; 32], &[id], 1, 1, 100).is_ok());
        }
        assert_eq!(accepted, 100 / KEY_SHARE);
        for key in 2..=5_u8 {
            for id in 0..100_u8 {
                accepted += usize::from(used.remember(&[key; 32], &[id], 1, 1, 100).is_ok());
            }
        }
        assert_eq!((accepted, used.young.len()), (100, 100));
        assert_eq!(outcome(used.remember(&[9; 32], b"a", 1, 1, 100)), "full");
        assert_eq!(outcome(used.remember(&[9; 32], b"a", 1 + WINDOW, 1 + WINDOW, 100)), "good");
    }
}
