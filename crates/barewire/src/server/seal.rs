//! Encrypts the server's state into a text that the client stores and sends back (`requestState`), and decrypts that
//! text. The client cannot read the text. The text is rejected if it was changed, has expired, or comes with a
//! different request.
//!
//! ```text
//! version, nonce, XChaCha20-Poly1305(expiry, state), tag     in URL-safe Base64; the binding is the associated data
//! ```

use std::error::Error;
use std::fmt;
use std::sync::{PoisonError, RwLock, RwLockReadGuard};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use barewire_proto::json::Json;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use chacha20poly1305::aead::{Aead, Payload};
use chacha20poly1305::{KeyInit, XChaCha20Poly1305, XNonce};

use crate::schema::canonical;

/// Seals and opens state with a secret key.
pub(crate) struct Sealer {
    keys: RwLock<SealingKeys>,
}

/// The key that seals, and other keys that open.
struct SealingKeys {
    sealing: XChaCha20Poly1305,
    /// Keys that sealed before, and keys that other processes may seal with already.
    others: Vec<XChaCha20Poly1305>,
}

impl Sealer {
    /// Creates a sealer with a random key. No other process can open its texts, and neither can this program after a
    /// restart.
    pub(crate) fn random() -> Result<Self, SealError> {
        let mut key = [0; 32];
        getrandom::fill(&mut key).map_err(|_| SealError::NoRandomness)?;
        Ok(Self::with_key(key))
    }

    /// Creates a sealer with a key that several processes share, or that outlives one process.
    pub(crate) fn with_key(key: [u8; 32]) -> Self {
        Self { keys: RwLock::new(SealingKeys::new(key, &[])) }
    }

    /// Seals with another key from now on. Texts that are sealed with the other keys can be opened.
    #[cfg(feature = "http")]
    pub(crate) fn set_keys(&self, sealing: [u8; 32], others: &[[u8; 32]]) {
        *self.keys.write().unwrap_or_else(PoisonError::into_inner) = SealingKeys::new(sealing, others);
    }

    fn keys(&self) -> RwLockReadGuard<'_, SealingKeys> {
        self.keys.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Seals `plain`. The returned text can be opened only with the same binding, and until `lifetime` after `now`.
    pub(crate) fn seal(
        &self,
        plain: &[u8],
        bound_to: &Binding,
        now: SystemTime,
        lifetime: Duration,
    ) -> Result<String, SealError> {
        if plain.len() > MAX_STATE_BYTES {
            return Err(SealError::TooLong { limit: MAX_STATE_BYTES });
        }
        // 24 random bytes do not repeat in practice, even if many processes generate nonces for the same key.
        let mut nonce = [0; NONCE_BYTES];
        getrandom::fill(&mut nonce).map_err(|_| SealError::NoRandomness)?;
        let mut inside = Vec::with_capacity(EXPIRY_BYTES + plain.len());
        inside.extend_from_slice(&seconds(now).saturating_add(lifetime.as_secs()).to_be_bytes());
        inside.extend_from_slice(plain);

        let payload = Payload { msg: &inside, aad: &bound_to.associated };
        let sealed = self
            .keys()
            .sealing
            .encrypt(&XNonce::from(nonce), payload)
            .expect("64 KiB are below the limit of the cipher");
        let mut bytes = Vec::with_capacity(HEAD_BYTES + sealed.len());
        bytes.push(VERSION);
        bytes.extend_from_slice(&nonce);
        bytes.extend_from_slice(&sealed);
        Ok(BASE64.encode(bytes))
    }

    /// Returns the state in `text`, if it was sealed with this key and binding and has not expired at `now`.
    pub(crate) fn open(&self, text: &str, bound_to: &Binding, now: SystemTime) -> Result<Vec<u8>, OpenError> {
        if text.len() > MAX_SEALED_CHARS {
            return Err(OpenError::Unreadable);
        }
        let bytes = BASE64.decode(text).map_err(|_| OpenError::Unreadable)?;
        let Some((&[VERSION, ref nonce @ ..], sealed)) = bytes.split_first_chunk::<HEAD_BYTES>() else {
            return Err(OpenError::Unreadable);
        };
        let payload = || Payload { msg: sealed, aad: &bound_to.associated };
        let keys = self.keys();
        let open = |cipher: &XChaCha20Poly1305| cipher.decrypt(nonce.into(), payload()).ok();
        let opened = std::iter::once(&keys.sealing).chain(&keys.others).find_map(open);
        let mut inside = opened.ok_or(OpenError::Unreadable)?;
        let (expiry, _) = inside.split_first_chunk().expect("sealed state starts with its expiry");
        if seconds(now) > u64::from_be_bytes(*expiry) {
            return Err(OpenError::Expired);
        }
        inside.drain(..EXPIRY_BYTES);
        Ok(inside)
    }
}

impl SealingKeys {
    fn new(sealing: [u8; 32], others: &[[u8; 32]]) -> Self {
        let cipher = |key: [u8; 32]| XChaCha20Poly1305::new(&key.into());
        Self { sealing: cipher(sealing), others: others.iter().copied().map(cipher).collect() }
    }
}

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sealer").finish_non_exhaustive()
    }
}

/// Returns a random name, which is unique and cannot be guessed.
pub(crate) fn random_name() -> Result<String, SealError> {
    let mut name = [0; 16];
    getrandom::fill(&mut name).map_err(|_| SealError::NoRandomness)?;
    Ok(BASE64.encode(name))
}

/// The request that a state belongs to. JSON arguments are compared by value, however they are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Binding {
    associated: Vec<u8>,
}

impl Binding {
    /// Creates the binding to a method, a name or URI, the arguments, and the authenticated sender, if there is one.
    /// Absent arguments are equal to an empty object.
    pub(crate) fn new(method: &str, name_or_uri: &str, arguments: Option<Json<'_>>, principal: Option<&str>) -> Self {
        let mut associated = vec![VERSION];
        canonical::push_bytes(&mut associated, method.as_bytes());
        canonical::push_bytes(&mut associated, name_or_uri.as_bytes());
        match principal {
            Some(principal) => {
                associated.push(b'+');
                canonical::push_bytes(&mut associated, principal.as_bytes());
            }
            None => associated.push(b'-'),
        }
        match arguments {
            Some(arguments) => canonical::push(&mut associated, arguments),
            None => canonical::push(&mut associated, Json::parse(b"{}").expect("an object is JSON")),
        }
        Self { associated }
    }
}

/// The reason why a state could not be sealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SealError {
    /// The state is longer than a client should have to store.
    TooLong { limit: usize },
    /// The operating system returned no random bytes.
    NoRandomness,
}

impl fmt::Display for SealError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong { limit } => write!(f, "state longer than {limit} bytes"),
            Self::NoRandomness => f.write_str("the operating system returned no random bytes"),
        }
    }
}

impl Error for SealError {}

/// The reason why a sealed text could not be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OpenError {
    /// The text was sealed with this key and binding, but has expired.
    Expired,
    /// The text was not sealed with this key, was changed, or belongs to another request. These cases cannot be
    /// distinguished.
    Unreadable,
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expired => "state expired",
            Self::Unreadable => "state was not sealed by this server for this request",
        })
    }
}

impl Error for OpenError {}

fn seconds(time: SystemTime) -> u64 {
    // A system clock that shows a time before 1970 was never set. It is treated as 1970.
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// The version of the format: the first byte of a sealed text, before it is encoded.
const VERSION: u8 = 1;
const NONCE_BYTES: usize = 24;
const HEAD_BYTES: usize = 1 + NONCE_BYTES;
const EXPIRY_BYTES: usize = 8;
const TAG_BYTES: usize = 16;

/// The maximum size of the state. The client sends the state back in every round, and a host may store it, so larger
/// state should be stored on the server.
const MAX_STATE_BYTES: usize = 64 * 1024;

/// The maximum length of a sealed text. A longer text is rejected without decoding.
const MAX_SEALED_CHARS: usize = (HEAD_BYTES + EXPIRY_BYTES + MAX_STATE_BYTES + TAG_BYTES).div_ceil(3) * 4;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIFETIME: Duration = Duration::from_secs(60);

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn binding(arguments: &str) -> Binding {
        let json = Json::parse(arguments.as_bytes()).expect("JSON");
        Binding::new("tools/call", "deploy", Some(json), None)
    }

    fn sealer() -> Sealer {
        Sealer::with_key([7; 32])
    }

    #[test]
    fn a_state_opens_for_an_equal_request_in_another_spelling() {
        let sealed = sealer().seal(b"state", &binding(r#"{"a":1,"b":2.0}"#), at(1000), LIFETIME).expect("sealed");
        assert!(sealed.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_'), "{sealed}");
        for same in [r#"{"a":1,"b":2.0}"#, r#"{"b":2,"a":1.0}"#, r#" {"\u0062" : 20e-1, "a":1} "#] {
            assert_eq!(sealer().open(&sealed, &binding(same), at(1001)).as_deref(), Ok(&b"state"[..]), "{same}");
        }
        for other in ["{}", r#"{"a":1,"b":2.1}"#, r#"{"a":1}"#, r#"{"a":1,"b":"2"}"#, r#"{"a":1,"b":2,"c":3}"#] {
            assert_eq!(sealer().open(&sealed, &binding(other), at(1001)), Err(OpenError::Unreadable), "{other}");
        }
    }

    #[test]
    fn method_name_and_principal_are_bound_separately() {
        let bindings = [
            Binding::new("tools/call", "a", None, None),
            Binding::new("prompts/get", "a", None, None),
            Binding::new("tools/call", "b", None, None),
            Binding::new("tools/cal", "la", None, None),
            Binding::new("tools/call", "a", None, Some("")),
            Binding::new("tools/call", "a", None, Some("eve")),
            Binding::new("tools/call", "a", None, Some("bob")),
        ];
        let sealer = Sealer::random().expect("randomness");
        for (i, sealing) in bindings.iter().enumerate() {
            let sealed = sealer.seal(b"x", sealing, at(0), LIFETIME).expect("sealed");
            for (j, opening) in bindings.iter().enumerate() {
                assert_eq!(sealer.open(&sealed, opening, at(0)).is_ok(), i == j, "{i} {j}");
            }
        }
        let empty = Json::parse(b"{ }").expect("JSON");
        assert_eq!(bindings[0], Binding::new("tools/call", "a", Some(empty), None));
    }

    #[test]
    fn a_state_lasts_for_its_lifetime() {
        let sealed = sealer().seal(b"x", &binding("{}"), at(1000), LIFETIME).expect("sealed");
        for now in [0, 1000, 1060] {
            assert!(sealer().open(&sealed, &binding("{}"), at(now)).is_ok(), "{now}");
        }
        for now in [1061, u64::from(u32::MAX)] {
            assert_eq!(sealer().open(&sealed, &binding("{}"), at(now)), Err(OpenError::Expired), "{now}");
        }
        // An expired text with another request is `Unreadable`, not `Expired`: only the request that the text belongs
        // to gets `Expired`.
        assert_eq!(sealer().open(&sealed, &binding("[]"), at(2000)), Err(OpenError::Unreadable));
        let forever = sealer().seal(b"x", &binding("{}"), at(1000), Duration::MAX).expect("sealed");
        assert!(sealer().open(&forever, &binding("{}"), at(1 << 40)).is_ok());
    }

    #[test]
    fn every_changed_character_and_every_truncation_is_rejected() {
        for plain in [&b""[..], b"a", b"ab", b"state of some length"] {
            let sealed = sealer().seal(plain, &binding("{}"), at(0), LIFETIME).expect("sealed");
            assert_eq!(sealer().open(&sealed, &binding("{}"), at(0)).as_deref(), Ok(plain));
            let refused = |text: &str| {
                assert_eq!(sealer().open(text, &binding("{}"), at(0)), Err(OpenError::Unreadable), "{text}");
            };
            for place in 0..sealed.len() {
                refused(&sealed[..place]);
                for other in ["A", "B", "-", "_", "z", "=", "+", " ", "é"] {
                    if &sealed[place..=place] != other {
                        refused(&format!("{}{other}{}", &sealed[..place], &sealed[place + 1..]));
                    }
                }
            }
            for added in ["A", "=", "==", "-TAMPERED", "\n"] {
                refused(&format!("{sealed}{added}"));
            }
        }
    }

    #[test]
    fn every_changed_bit_is_rejected() {
        let sealed = sealer().seal(b"state", &binding("{}"), at(0), LIFETIME).expect("sealed");
        let bytes = BASE64.decode(&sealed).expect("Base64");
        assert_eq!(bytes.len(), HEAD_BYTES + EXPIRY_BYTES + b"state".len() + TAG_BYTES);
        for bit in 0..bytes.len() * 8 {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            let text = BASE64.encode(changed);
            assert_eq!(sealer().open(&text, &binding("{}"), at(0)), Err(OpenError::Unreadable), "{bit}");
        }
    }

    #[test]
    fn another_key_opens_nothing_and_no_two_texts_are_equal() {
        let binding = binding("{}");
        let sealed = sealer().seal(b"x", &binding, at(0), LIFETIME).expect("sealed");
        assert_ne!(sealed, sealer().seal(b"x", &binding, at(0), LIFETIME).expect("sealed"));
        let random = Sealer::random().expect("randomness");
        assert_eq!(random.open(&sealed, &binding, at(0)), Err(OpenError::Unreadable));
        assert!(!format!("{:?}", sealer()).contains('7'));
    }

    #[test]
    fn the_length_limit_is_exact() {
        let binding = binding("{}");
        let longest = vec![b'x'; MAX_STATE_BYTES];
        let sealed = sealer().seal(&longest, &binding, at(0), LIFETIME).expect("sealed");
        assert!(sealed.len() <= MAX_SEALED_CHARS);
        assert_eq!(sealer().open(&sealed, &binding, at(0)), Ok(longest));
        let too_long = sealer().seal(&vec![0; MAX_STATE_BYTES + 1], &binding, at(0), LIFETIME);
        assert_eq!(too_long, Err(SealError::TooLong { limit: MAX_STATE_BYTES }));
        assert_eq!(sealer().open(&"A".repeat(MAX_SEALED_CHARS + 1), &binding, at(0)), Err(OpenError::Unreadable));
    }

    /// The test vector of draft-irtf-cfrg-xchacha-03, A.3.1.
    #[test]
    fn the_cipher_is_xchacha20_poly1305() {
        let key: [u8; 32] = std::array::from_fn(|i| 0x80 + u8::try_from(i).expect("below 32"));
        let nonce: [u8; 24] = std::array::from_fn(|i| 0x40 + u8::try_from(i).expect("below 24"));
        let aad = [0x50, 0x51, 0x52, 0x53, 0xc0, 0xc1, 0xc2, 0xc3, 0xc4, 0xc5, 0xc6, 0xc7];
        let msg = b"Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, sunscreen would be it.";
        let payload = Payload { msg: &msg[..], aad: &aad };
        let sealed = Sealer::with_key(key).keys().sealing.encrypt(&XNonce::from(nonce), payload).expect("sealed");
        assert_eq!(sealed[..8], [0xbd, 0x6d, 0x17, 0x9d, 0x3e, 0x83, 0xd4, 0x3b]);
        let tag = [0xc0, 0x87, 0x59, 0x24, 0xc1, 0xc7, 0x98, 0x79, 0x47, 0xde, 0xaf, 0xd8, 0x78, 0x0a, 0xcf, 0x49];
        assert_eq!(sealed[sealed.len() - TAG_BYTES..], tag);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_state_round_trips(plain in prop::collection::vec(any::<u8>(), 0..300), now in 0..1u64 << 40) {
            let binding = binding("{}");
            let sealed = sealer().seal(&plain, &binding, at(now), LIFETIME).expect("sealed");
            prop_assert_eq!(sealer().open(&sealed, &binding, at(now)), Ok(plain));
        }

        #[test]
        fn other_text_is_rejected(text in "[A-Za-z0-9_-]{0,120}", garbage in "\\PC{0,40}") {
            prop_assert_eq!(sealer().open(&text, &binding("{}"), at(0)), Err(OpenError::Unreadable));
            prop_assert_eq!(sealer().open(&garbage, &binding("{}"), at(0)), Err(OpenError::Unreadable));
        }
    }
}
