//! The compact form of a signed token -> its header, payload and signature. RFC 7515, sections 3.1, 4.1 and 7.1; the
//! signature itself is verified by the caller.

use std::fmt;

use super::jwk::{Jwk, UnusableKey};
use crate::http::base64::decode_url;
use crate::json::{Json, Kind};

/// The maximum length of a token and of a proof, in bytes. Tokens with many groups have 5 KiB, and many servers refuse
/// heads above 16 KiB.
pub const MAX_TOKEN_BYTES: usize = 16 * 1024;

/// An algorithm that signs with a private key and is verified with the public one. There is no other kind: with `none`
/// anyone can write a token, and with an HMAC anyone who can verify it, or who has an RSA key's public half that is
/// taken for the secret (RFC 8725, section 2.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a caller must have a verification for each")]
pub enum Algorithm {
    /// RSASSA-PKCS1-v1_5 with SHA-256.
    Rs256,
    /// RSASSA-PSS with SHA-256.
    Ps256,
    /// ECDSA with P-256 and SHA-256.
    Es256,
    /// Ed25519, which is called `EdDSA` (RFC 8037) or `Ed25519` (RFC 9864).
    Ed25519,
}

impl Algorithm {
    /// All algorithms, by their names. The first name of each is the one that metadata lists.
    pub const NAMES: [(&'static str, Self); 5] = [
        ("RS256", Self::Rs256),
        ("PS256", Self::Ps256),
        ("ES256", Self::Es256),
        ("EdDSA", Self::Ed25519),
        ("Ed25519", Self::Ed25519),
    ];

    /// Returns the algorithm with this name. The case of the letters matters (RFC 7515, section 4.1.1).
    pub fn named(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(known, _)| *known == name).map(|(_, algorithm)| *algorithm)
    }
}

/// A signed token, taken apart but not verified.
#[derive(Clone)]
#[non_exhaustive]
pub struct Jws<'a> {
    /// The header.
    pub header: JwsHeader,
    /// The bytes that are signed.
    pub signed: &'a [u8],
    /// The payload, decoded.
    pub payload: Vec<u8>,
    /// The signature, decoded.
    pub signature: Vec<u8>,
}

/// The members of a token's header that this server uses.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct JwsHeader {
    /// The algorithm of the signature.
    pub algorithm: Algorithm,
    /// The name of the key.
    pub kid: Option<String>,
    /// The type of the token, in lower case and without `application/` (RFC 7515, section 4.1.9).
    pub typ: Option<String>,
    /// The public key, which only a proof contains. In an access token it has no meaning: the sender wrote it.
    pub jwk: Option<Result<Jwk, UnusableKey>>,
}

/// The reason why a text is not a signed token that can be verified here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum BadJws {
    /// It is longer than [`MAX_TOKEN_BYTES`].
    TooLong,
    /// It does not consist of three parts. An opaque token has one, an encrypted one has five.
    Parts,
    /// A part is not Base64.
    Base64,
    /// The header is not a JSON object with a member of each name at most once.
    Header,
    /// The algorithm is missing, or is none of [`Algorithm`].
    Algorithm,
    /// The header names extensions that must be understood (`crit`).
    Critical,
}

impl<'a> Jws<'a> {
    /// Takes a token apart.
    pub fn parse(token: &'a [u8]) -> Result<Self, BadJws> {
        if token.len() > MAX_TOKEN_BYTES {
            return Err(BadJws::TooLong);
        }
        let mut dots = token.iter().enumerate().filter(|(_, byte)| **byte == b'.').map(|(at, _)| at);
        let (Some(first), Some(second), None) = (dots.next(), dots.next(), dots.next()) else {
            return Err(BadJws::Parts);
        };
        let decode = |part: &[u8]| decode_url(part).ok_or(BadJws::Base64);
        let header = JwsHeader::parse(&decode(&token[..first])?)?;
        let payload = decode(&token[first + 1..second])?;
        let signature = decode(&token[second + 1..])?;
        Ok(Self { header, signed: &token[..second], payload, signature })
    }
}

impl JwsHeader {
    fn parse(text: &[u8]) -> Result<Self, BadJws> {
        let json = Json::parse(text).map_err(|_| BadJws::Header)?;
        if json.kind() != Kind::Object {
            return Err(BadJws::Header);
        }
        let [alg, kid, typ, jwk, crit] =
            once_each(json, ["alg", "kid", "typ", "jwk", "crit"]).map_err(|_| BadJws::Header)?;
        // An extension that is not understood makes the token invalid, and none is understood here.
        if crit.is_some() {
            return Err(BadJws::Critical);
        }
        let text = |json: Option<Json<'_>>| match json {
            Some(json) => json.string().map(|text| Some(text.into_owned())).ok_or(BadJws::Header),
            None => Ok(None),
        };
        let algorithm = text(alg)?.as_deref().and_then(Algorithm::named).ok_or(BadJws::Algorithm)?;
        let typ = text(typ)?.map(|typ| {
            let typ = typ.to_ascii_lowercase();
            typ.strip_prefix("application/").map(str::to_owned).unwrap_or(typ)
        });
        Ok(Self { algorithm, kid: text(kid)?, typ, jwk: jwk.map(Jwk::read) })
    }
}

/// Returns the members with these names. The error is the name of a member that occurs twice: two readers could take
/// different ones for the value.
pub(super) fn once_each<'a, const N: usize>(
    object: Json<'a>,
    names: [&'static str; N],
) -> Result<[Option<Json<'a>>; N], &'static str> {
    let mut found = [None; N];
    for member in object.members() {
        let Some(at) = names.iter().position(|name| member.name == **name) else { continue };
        if found[at].replace(member.value).is_some() {
            return Err(names[at]);
        }
    }
    Ok(found)
}

impl fmt::Display for BadJws {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooLong => "it is longer than 16 KiB",
            Self::Parts => "it is not a signed JWT, which has three parts",
            Self::Base64 => "one of its parts is not Base64",
            Self::Header => "its header is not a JSON object whose members are unique",
            Self::Algorithm => "it is not signed with RS256, PS256, ES256 or EdDSA",
            Self::Critical => "its header has extensions that this server does not know",
        })
    }
}

impl std::error::Error for BadJws {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::base64::encode_url;

    fn parsed(header: &str) -> Result<JwsHeader, BadJws> {
        let token = format!("{}.{}.{}", encode_url(header.as_bytes()), encode_url(b"{}"), encode_url(b"sig"));
        Jws::parse(token.as_bytes()).map(|jws| jws.header)
    }

    #[test]
    fn only_signatures_with_a_public_key_are_algorithms() {
        for (name, algorithm) in Algorithm::NAMES {
            assert_eq!(parsed(&format!(r#"{{"alg":"{name}"}}"#)).expect(name).algorithm, algorithm);
        }
        for alg in ["none", "None", "NONE", "", "HS256", "HS384", "HS512", "rs256", "RS512", "ES256K", "dir", "RS256 "]
        {
            assert_eq!(parsed(&format!(r#"{{"alg":"{alg}"}}"#)).err(), Some(BadJws::Algorithm), "{alg}");
        }
        assert_eq!(parsed("{}").err(), Some(BadJws::Algorithm));
        assert_eq!(parsed(r#"{"alg":null}"#).err(), Some(BadJws::Header));
        assert_eq!(parsed(r#"{"alg":["RS256"]}"#).err(), Some(BadJws::Header));
    }

    #[test]
    fn a_header_that_two_readers_could_read_differently_is_refused() {
        for (header, bad) in [
            (r#"{"alg":"RS256","alg":"none"}"#, BadJws::Header),
            (r#"{"alg":"none","\u0061lg":"RS256"}"#, BadJws::Header),
            (r#"{"alg":"RS256","kid":"a","kid":"b"}"#, BadJws::Header),
            (r#"{"alg":"RS256","kid":7}"#, BadJws::Header),
            (r#"{"alg":"RS256","crit":["b64"],"b64":false}"#, BadJws::Critical),
            (r#"{"alg":"RS256","crit":[]}"#, BadJws::Critical),
            (r#"["alg","RS256"]"#, BadJws::Header),
            ("", BadJws::Header),
            ("{", BadJws::Header),
        ] {
            assert_eq!(parsed(header).err(), Some(bad), "{header}");
        }
    }

    #[test]
    fn the_type_is_compared_without_its_prefix_and_case() {
        for (typ, expected) in [("at+jwt", "at+jwt"), ("application/AT+JWT", "at+jwt"), ("JWT", "jwt")] {
            let header = parsed(&format!(r#"{{"alg":"ES256","typ":"{typ}"}}"#)).expect(typ);
            assert_eq!(header.typ.as_deref(), Some(expected));
        }
    }

    #[test]
    fn other_texts_are_no_tokens() {
        let long = "a".repeat(MAX_TOKEN_BYTES + 1);
        for (token, bad) in [
            ("", BadJws::Parts),
            ("opaque", BadJws::Parts),
            ("a.b", BadJws::Parts),
            ("a.b.c.d.e", BadJws::Parts),
            ("e30=.e30.AA", BadJws::Base64),
            ("e3 0.e30.AA", BadJws::Base64),
            (&long, BadJws::TooLong),
        ] {
            assert_eq!(Jws::parse(token.as_bytes()).err(), Some(bad), "{token:.20}");
        }
    }
}
