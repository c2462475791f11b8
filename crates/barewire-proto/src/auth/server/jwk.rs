//! The public keys of an issuer, and the key in a proof: JSON -> keys that a signature can be verified with. RFC 7517,
//! RFC 7518, section 6, and RFC 8037; thumbprints by RFC 7638.

use std::fmt;

use super::jws::{Algorithm, once_each};
use crate::http::base64::{decode_url, encode_url};
use crate::json::{Json, Kind};

/// The maximum number of keys that are read from a set. Issuers have two or three; large ones have about ten.
const MAX_KEYS: usize = 64;

/// The maximum number of keys that are tried for a token that names none, because each costs a verification.
const MAX_CANDIDATES: usize = 4;

/// The sizes of RSA moduli that are accepted, in bytes: 2048 to 8192 bits. Shorter ones can be factored, and the time of
/// a verification grows with the square of the length.
const RSA_MODULUS_BYTES: std::ops::RangeInclusive<usize> = 256..=1024;

/// The maximum length of an RSA exponent, in bytes, for the same reason. Nearly all keys have the exponent 65537.
const MAX_RSA_EXPONENT_BYTES: usize = 4;

/// A public key.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a caller must have a verification for each")]
pub enum PublicKey {
    /// An RSA key: modulus and exponent, big-endian without leading zeros.
    Rsa {
        /// The modulus.
        n: Vec<u8>,
        /// The exponent.
        e: Vec<u8>,
    },
    /// A point on the curve P-256.
    P256 {
        /// The first coordinate.
        x: [u8; 32],
        /// The second coordinate.
        y: [u8; 32],
    },
    /// An Ed25519 key.
    Ed25519 {
        /// The key.
        x: [u8; 32],
    },
}

/// A public key, and what it may be used for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Jwk {
    /// The name of the key.
    pub kid: Option<String>,
    /// The only algorithm that the key may be used with; `None` if its owner has not said.
    pub algorithm: Option<Algorithm>,
    /// The key.
    pub key: PublicKey,
}

/// The reason why a key is not used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum UnusableKey {
    /// It is not a JSON object with the members of its kind, each once.
    Malformed,
    /// It is of another kind or curve, for another algorithm, or not for signatures.
    OtherUse,
    /// It contains a private key or a shared secret.
    Private,
    /// It is too short to be safe, or so long that a verification would be slow.
    Size,
}

impl PublicKey {
    /// Whether signatures of this algorithm can be verified with the key. A key is never used for another kind of
    /// algorithm than its own, whatever a token says.
    pub fn fits(&self, algorithm: Algorithm) -> bool {
        matches!(
            (self, algorithm),
            (Self::Rsa { .. }, Algorithm::Rs256 | Algorithm::Ps256)
                | (Self::P256 { .. }, Algorithm::Es256)
                | (Self::Ed25519 { .. }, Algorithm::Ed25519)
        )
    }

    /// Returns the text whose SHA-256 is the key's thumbprint (RFC 7638, section 3.2).
    pub fn thumbprint_input(&self) -> String {
        match self {
            Self::Rsa { n, e } => format!(r#"{{"e":"{}","kty":"RSA","n":"{}"}}"#, encode_url(e), encode_url(n)),
            Self::P256 { x, y } => {
                format!(r#"{{"crv":"P-256","kty":"EC","x":"{}","y":"{}"}}"#, encode_url(x), encode_url(y))
            }
            Self::Ed25519 { x } => format!(r#"{{"crv":"Ed25519","kty":"OKP","x":"{}"}}"#, encode_url(x)),
        }
    }
}

impl Jwk {
    /// Reads a key.
    pub fn read(json: Json<'_>) -> Result<Self, UnusableKey> {
        if json.kind() != Kind::Object {
            return Err(UnusableKey::Malformed);
        }
        let names = ["kty", "crv", "n", "e", "x", "y", "kid", "alg", "use", "key_ops", "d", "k"];
        let [kty, crv, n, e, x, y, kid, alg, usage, key_ops, d, k] =
            once_each(json, names).map_err(|_| UnusableKey::Malformed)?;
        if d.is_some() || k.is_some() {
            return Err(UnusableKey::Private);
        }
        let text = |json: Option<Json<'_>>| match json {
            Some(json) => json.string().map(|text| Some(text.into_owned())).ok_or(UnusableKey::Malformed),
            None => Ok(None),
        };
        let bytes = |json: Option<Json<'_>>| {
            json.and_then(Json::string).and_then(|text| decode_url(text.as_bytes())).ok_or(UnusableKey::Malformed)
        };
        let is_for_signatures = text(usage)?.is_none_or(|usage| usage == "sig")
            && key_ops.is_none_or(|ops| ops.elements().any(|op| op.string().as_deref() == Some("verify")));
        let key = match (text(kty)?.as_deref(), text(crv)?.as_deref()) {
            _ if !is_for_signatures => return Err(UnusableKey::OtherUse),
            (Some("RSA"), _) => {
                let (n, e) = (without_zeros(bytes(n)?), without_zeros(bytes(e)?));
                let is_exponent = e.len() <= MAX_RSA_EXPONENT_BYTES && e.last().is_some_and(|last| last % 2 == 1);
                if !RSA_MODULUS_BYTES.contains(&n.len()) || !is_exponent || e == [1] {
                    return Err(UnusableKey::Size);
                }
                PublicKey::Rsa { n, e }
            }
            (Some("EC"), Some("P-256")) => PublicKey::P256 { x: coordinate(bytes(x)?)?, y: coordinate(bytes(y)?)? },
            (Some("OKP"), Some("Ed25519")) => PublicKey::Ed25519 { x: coordinate(bytes(x)?)? },
            (None, _) => return Err(UnusableKey::Malformed),
            _ => return Err(UnusableKey::OtherUse),
        };
        let algorithm = match text(alg)? {
            Some(name) => {
                let known = Algorithm::named(&name).filter(|algorithm| key.fits(*algorithm));
                Some(known.ok_or(UnusableKey::OtherUse)?)
            }
            None => None,
        };
        Ok(Self { kid: text(kid)?, algorithm, key })
    }

    /// Whether the key may verify signatures of this algorithm.
    pub fn fits(&self, algorithm: Algorithm) -> bool {
        self.algorithm.is_none_or(|only| only == algorithm) && self.key.fits(algorithm)
    }
}

fn without_zeros(mut bytes: Vec<u8>) -> Vec<u8> {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    bytes.drain(..zeros);
    bytes
}

fn coordinate(bytes: Vec<u8>) -> Result<[u8; 32], UnusableKey> {
    bytes.try_into().map_err(|_| UnusableKey::Size)
}

/// The keys of an issuer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct JwkSet {
    /// The keys that can be used.
    pub keys: Vec<Jwk>,
    /// The reasons why other keys of the set are not used, at most 64. Sets often have keys for encryption.
    pub unused: Vec<UnusableKey>,
}

impl JwkSet {
    /// Reads the document that an issuer publishes: an object with the member `keys`. `None` means that it is not one.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let json = Json::parse(text).ok().filter(|json| json.kind() == Kind::Object)?;
        let [keys] = once_each(json, ["keys"]).ok()?;
        let keys = keys.filter(|keys| keys.kind() == Kind::Array)?;
        let mut set = Self::default();
        for key in keys.elements().take(MAX_KEYS) {
            match Jwk::read(key) {
                Ok(key) => set.keys.push(key),
                Err(why) => set.unused.push(why),
            }
        }
        Some(set)
    }

    /// Whether the set has a key with this name.
    pub fn knows(&self, kid: &str) -> bool {
        self.keys.iter().any(|key| key.kid.as_deref() == Some(kid))
    }

    /// Returns the keys that may have signed a token with this algorithm and key name, at most four. A key without a
    /// name may have signed any token.
    pub fn candidates<'a>(&'a self, algorithm: Algorithm, kid: Option<&'a str>) -> impl Iterator<Item = &'a Jwk> {
        let is_named = move |key: &&Jwk| match (&key.kid, kid) {
            (Some(known), Some(kid)) => known == kid,
            (None, _) | (_, None) => true,
        };
        self.keys.iter().filter(is_named).filter(move |key| key.fits(algorithm)).take(MAX_CANDIDATES)
    }
}

impl fmt::Display for UnusableKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Malformed => "a key is not a valid JWK",
            Self::OtherUse => "a key is of another kind, or not for signatures",
            Self::Private => "a key contains its private part",
            Self::Size => "a key is too short or too long: RSA keys have 2048 to 8192 bits",
        })
    }
}

impl std::error::Error for UnusableKey {}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<Jwk, UnusableKey> {
        Jwk::read(Json::parse(json.as_bytes()).expect(json))
    }

    fn rsa(bits: usize, e: &[u8], more: &str) -> String {
        let mut n = vec![0xc1; bits / 8];
        n[bits / 8 - 1] = 1;
        format!(r#"{{"kty":"RSA","n":"{}","e":"{}"{more}}}"#, encode_url(&n), encode_url(e))
    }

    fn ec(crv: &str, bytes: usize, more: &str) -> String {
        let coordinate = encode_url(&vec![7; bytes]);
        format!(r#"{{"kty":"EC","crv":"{crv}","x":"{coordinate}","y":"{coordinate}"{more}}}"#)
    }

    #[test]
    fn keys_are_used_only_if_their_kind_size_and_purpose_are_right() {
        let e = &[1, 0, 1];
        for (json, unusable) in [
            (rsa(2048, e, ""), None),
            (rsa(8192, e, r#","use":"sig","alg":"PS256","kid":"k""#), None),
            (rsa(1024, e, ""), Some(UnusableKey::Size)),
            (rsa(8200, e, ""), Some(UnusableKey::Size)),
            (rsa(2048, &[1], ""), Some(UnusableKey::Size)),
            (rsa(2048, &[1, 0, 0], ""), Some(UnusableKey::Size)),
            (rsa(2048, &[1, 0, 0, 0, 1], ""), Some(UnusableKey::Size)),
            (rsa(2048, e, r#","use":"enc""#), Some(UnusableKey::OtherUse)),
            (rsa(2048, e, r#","alg":"RS512""#), Some(UnusableKey::OtherUse)),
            (rsa(2048, e, r#","alg":"ES256""#), Some(UnusableKey::OtherUse)),
            (rsa(2048, e, r#","alg":"HS256""#), Some(UnusableKey::OtherUse)),
            (rsa(2048, e, r#","key_ops":["verify"]"#), None),
            (rsa(2048, e, r#","key_ops":["encrypt"]"#), Some(UnusableKey::OtherUse)),
            (rsa(2048, e, r#","d":"AQ""#), Some(UnusableKey::Private)),
            (rsa(2048, e, r#","kty":"RSA""#), Some(UnusableKey::Malformed)),
            (ec("P-256", 32, ""), None),
            (ec("P-256", 31, ""), Some(UnusableKey::Size)),
            (ec("P-384", 48, ""), Some(UnusableKey::OtherUse)),
            (ec("P-256", 32, r#","d":"AQ""#), Some(UnusableKey::Private)),
            (r#"{"kty":"oct","k":"AQ"}"#.to_owned(), Some(UnusableKey::Private)),
            (r#"{"kty":"OKP","crv":"X25519","x":"AQ"}"#.to_owned(), Some(UnusableKey::OtherUse)),
            (r#"{"kty":"EC","crv":"P-256"}"#.to_owned(), Some(UnusableKey::Malformed)),
            ("{}".to_owned(), Some(UnusableKey::Malformed)),
            ("7".to_owned(), Some(UnusableKey::Malformed)),
        ] {
            assert_eq!(read(&json).err(), unusable, "{json:.90}");
        }
    }

    #[test]
    fn the_thumbprint_is_that_of_rfc_7638() {
        // The key of section 3.1 of the RFC; its canonical text is shown there too.
        let n = "0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4n3oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw";
        let key = read(&format!(r#"{{"kty":"RSA","n":"{n}","e":"AQAB","alg":"RS256","kid":"2011-04-29"}}"#));
        let input = key.expect("a key").key.thumbprint_input();
        assert_eq!(input, format!(r#"{{"e":"AQAB","kty":"RSA","n":"{n}"}}"#));
    }

    #[test]
    fn a_token_is_tried_with_the_keys_that_it_can_be_of() {
        let keys = [
            rsa(2048, &[1, 0, 1], r#","kid":"a""#),
            rsa(2048, &[1, 0, 1], r#","kid":"b","alg":"PS256""#),
            ec("P-256", 32, r#","kid":"c""#),
            ec("P-521", 66, r#","kid":"d""#),
        ];
        let set = JwkSet::parse(format!(r#"{{"keys":[{}]}}"#, keys.join(",")).as_bytes()).expect("a set");
        assert_eq!((set.keys.len(), &set.unused[..]), (3, &[UnusableKey::OtherUse][..]));
        for (algorithm, kid, expected) in [
            (Algorithm::Rs256, Some("a"), &["a"][..]),
            (Algorithm::Ps256, Some("a"), &["a"]),
            (Algorithm::Rs256, Some("b"), &[]),
            (Algorithm::Ps256, None, &["a", "b"]),
            (Algorithm::Rs256, None, &["a"]),
            (Algorithm::Es256, Some("a"), &[]),
            (Algorithm::Es256, Some("c"), &["c"]),
            (Algorithm::Ed25519, None, &[]),
            (Algorithm::Rs256, Some("z"), &[]),
        ] {
            let found: Vec<_> = set.candidates(algorithm, kid).filter_map(|key| key.kid.as_deref()).collect();
            assert_eq!(found, expected, "{algorithm:?} {kid:?}");
        }
        assert!(set.knows("a") && !set.knows("d") && !set.knows("z"));
        for bad in ["", "[]", "{}", r#"{"keys":{}}"#, r#"{"keys":[],"keys":[]}"#] {
            assert_eq!(JwkSet::parse(bad.as_bytes()), None, "{bad}");
        }
        let many = format!(r#"{{"keys":[{}]}}"#, vec![ec("P-256", 32, ""); 1000].join(","));
        let set = JwkSet::parse(many.as_bytes()).expect("a set");
        assert_eq!((set.keys.len(), set.candidates(Algorithm::Es256, None).count()), (MAX_KEYS, MAX_CANDIDATES));
    }
}
