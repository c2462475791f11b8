//! Proofs of possession: which request needs one, and what it says. RFC 9449.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::value::RawValue;

use super::client::SigningKey;
use super::credentials::TokenType;
use super::jwt;
use super::secret::SecretText;
use super::server_metadata::ServerMetadata;
use super::url::Url;
use crate::http::base64;
use crate::json::Json;

/// The name of the request header with the proof.
pub const DPOP: &str = "dpop";

/// The name of the response header with the nonce for the next proof.
pub const DPOP_NONCE: &str = "dpop-nonce";

/// The maximum number of origins whose nonce is remembered: a server, its authorization server, an identity provider.
const MAX_NONCES: usize = 8;

/// The maximum length of a nonce. Those of known servers have up to 200 characters.
const MAX_NONCE_BYTES: usize = 1024;

/// Whether tokens are bound to a key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum DpopUse {
    /// Never. A server that requires it is refused.
    Off,
    /// If the MCP server says that it accepts bound tokens, and the authorization server supports the algorithm of the
    /// key. Many servers accept only `Bearer`, whatever their authorization server could issue. An authorization server
    /// that then issues a token which is not bound is accepted.
    #[default]
    IfSupported,
    /// Always. A server that does not support it, or issues a token which is not bound, is refused.
    Required,
}

/// The MCP server's part in the decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ResourceDpop {
    /// Neither its challenge nor its metadata mentions bound tokens.
    Unknown,
    /// It accepts bound tokens too.
    Accepted,
    /// It accepts nothing else.
    Required,
}

/// The decision about one sign-in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DpopDecision {
    Unbound,
    /// Send a proof; a token that is not bound is accepted.
    Bound,
    /// Send a proof; a token that is not bound is refused.
    MustBeBound,
    /// Binding is required, but the client or the authorization server does not support it.
    Impossible,
}

impl DpopUse {
    /// Decides whether to bind the tokens of a sign-in.
    pub(super) fn decide(
        self,
        key: Option<&SigningKey>,
        server: &ServerMetadata,
        resource: ResourceDpop,
    ) -> DpopDecision {
        let is_possible = key.is_some_and(|key| server.dpop_algorithms.contains(&key.algorithm));
        match (self, is_possible, resource) {
            (Self::Off | Self::IfSupported, false, ResourceDpop::Required) => DpopDecision::Impossible,
            (Self::Off, true, ResourceDpop::Required) | (Self::Required, false, _) => DpopDecision::Impossible,
            (Self::Off, _, ResourceDpop::Unknown | ResourceDpop::Accepted) => DpopDecision::Unbound,
            (Self::IfSupported, false, ResourceDpop::Unknown | ResourceDpop::Accepted) => DpopDecision::Unbound,
            (Self::IfSupported, true, ResourceDpop::Unknown) => DpopDecision::Unbound,
            (Self::IfSupported, true, ResourceDpop::Accepted) => DpopDecision::Bound,
            (Self::IfSupported, true, ResourceDpop::Required) | (Self::Required, true, _) => DpopDecision::MustBeBound,
        }
    }
}

/// Whether a token of this type is accepted. RFC 9449, section 5: a client that needs a bound token discards any other;
/// a bound token is useless without a key.
pub(super) fn is_token_type_accepted(decision: DpopDecision, found: TokenType) -> bool {
    match (decision, found) {
        (DpopDecision::Unbound | DpopDecision::Bound, TokenType::Bearer) => true,
        (DpopDecision::Bound | DpopDecision::MustBeBound, TokenType::Dpop) => true,
        (DpopDecision::Unbound, TokenType::Dpop) | (DpopDecision::MustBeBound, TokenType::Bearer) => false,
        (DpopDecision::Impossible, _) => false,
    }
}

/// A proof to be signed, for one request. A request that is sent again needs a new proof.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProofRequest {
    /// The method of the request: the claim `htm`.
    pub method: String,
    /// The URL of the request without its query: the claim `htu`.
    pub url: String,
    /// The nonce that the server has given, if any.
    pub nonce: Option<String>,
    /// The access token of the request, whose hash is the claim `ath`; `None` at the token endpoint.
    pub access_token: Option<SecretText>,
    /// The key that signs.
    pub key: SigningKey,
}

impl ProofRequest {
    /// Returns the text to sign.
    ///
    /// `jti` is a new random text, `now` the time in seconds since 1970, and `ath` the SHA-256 hash of
    /// [`Self::access_token`]. Returns `None` if the key has no valid `public_jwk`.
    pub fn signing_input(&self, jti: &str, now: u64, ath: Option<[u8; 32]>) -> Option<String> {
        #[derive(Serialize)]
        struct ProofHeader<'a> {
            typ: &'static str,
            alg: &'a str,
            jwk: &'a RawValue,
        }
        #[derive(Serialize)]
        struct ProofClaims<'a> {
            jti: &'a str,
            htm: &'a str,
            htu: &'a str,
            iat: u64,
            #[serde(skip_serializing_if = "Option::is_none")]
            ath: Option<String>,
            #[serde(skip_serializing_if = "Option::is_none")]
            nonce: Option<&'a str>,
        }
        let public_jwk = self.key.public_jwk.as_deref()?;
        thumbprint_input(public_jwk)?;
        let jwk: &RawValue = serde_json::from_str(public_jwk).ok()?;
        let header = ProofHeader { typ: "dpop+jwt", alg: &self.key.algorithm, jwk };
        let ath = ath.map(|hash| base64::encode_url(&hash));
        let (htm, htu, nonce) = (&*self.method, &*self.url, self.nonce.as_deref());
        Some(jwt::signing_input(&header, &ProofClaims { jti, htm, htu, iat: now, ath, nonce }))
    }
}

/// Returns the text whose SHA-256 hash identifies a public key: RFC 7638, section 3. Returns `None` for a text that is
/// not a public key of a known kind, and for one that contains a private key.
pub fn thumbprint_input(jwk: &str) -> Option<String> {
    let json = Json::parse(jwk.as_bytes()).ok()?;
    if ["d", "p", "q", "dp", "dq", "qi", "oth", "k"].iter().any(|private| json.member(private).is_some()) {
        return None;
    }
    let names: &[&str] = match &*json.member("kty")?.string()? {
        "EC" => &["crv", "kty", "x", "y"],
        "OKP" => &["crv", "kty", "x"],
        "RSA" => &["e", "kty", "n"],
        _ => return None,
    };
    let mut out = String::from("{");
    for (at, name) in names.iter().enumerate() {
        let value = json.member(name)?.string()?;
        // All values are Base64 or names, so they need no escapes.
        let is_plain = value.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'));
        if !is_plain || value.is_empty() {
            return None;
        }
        out += &format!("{}\"{name}\":\"{value}\"", if at == 0 { "" } else { "," });
    }
    out.push('}');
    Some(out)
}

/// The nonces that servers have given, one for each origin. RFC 9449, section 8.2: the newest is used.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DpopNonces(BTreeMap<String, String>);

impl DpopNonces {
    /// Remembers the nonce of a response, and forgets the previous one of that origin. Returns whether it is new. A
    /// text that cannot be a nonce is ignored.
    pub fn set(&mut self, url: &Url, nonce: &str) -> bool {
        // RFC 9449, section 8.1: the characters of a nonce.
        let is_nonce = nonce.bytes().all(|byte| matches!(byte, 0x21 | 0x23..=0x5b | 0x5d..=0x7e));
        if nonce.is_empty() || nonce.len() > MAX_NONCE_BYTES || !is_nonce {
            return false;
        }
        let origin = url.origin();
        if self.0.len() >= MAX_NONCES && !self.0.contains_key(&origin) {
            self.0.pop_first();
        }
        self.0.insert(origin, nonce.to_owned()).as_deref() != Some(nonce)
    }

    /// Returns the nonce for a request to this URL.
    pub fn get(&self, url: &Url) -> Option<&str> {
        self.0.get(&url.origin()).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::base64;

    const JWK: &str = concat!(
        r#"{"kty":"EC","crv":"P-256","x":"l8tFrhx-34tV3hRICRDY9zCkDlpBhF42UQUfWVAWBFs","#,
        r#""y":"9VE4jf_Ok_o64zbTTlcuNJajHmt6v9TDVrU0CdvGRDA"}"#
    );

    #[test]
    fn a_proof_names_the_request() {
        let proof = ProofRequest {
            method: "POST".into(),
            url: "https://server.example.com/token".into(),
            nonce: Some("n1".into()),
            access_token: Some("secret".into()),
            key: SigningKey::new("ES256", "private").public_jwk(JWK.to_owned()),
        };
        assert!(!format!("{proof:?}").contains("secret") && !format!("{proof:?}").contains("private"));
        let text = proof.signing_input("j", 1562262616, Some([0; 32])).unwrap() + ".";
        let part = |part: &str| String::from_utf8(base64::decode_url(part.as_bytes()).unwrap()).unwrap();
        let (header, claims) = text.trim_end_matches('.').split_once('.').unwrap();
        assert_eq!(part(header), format!(r#"{{"typ":"dpop+jwt","alg":"ES256","jwk":{JWK}}}"#));
        assert_eq!(
            part(claims),
            concat!(
                r#"{"jti":"j","htm":"POST","htu":"https://server.example.com/token","iat":1562262616,"#,
                r#""ath":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA","nonce":"n1"}"#
            )
        );
        let private = JWK.replace("\"crv\"", "\"d\":\"AAAA\",\"crv\"");
        for key in [SigningKey::new("ES256", "p"), SigningKey::new("ES256", "p").public_jwk(private)] {
            assert_eq!(ProofRequest { key, ..proof.clone() }.signing_input("j", 0, None), None);
        }
    }

    #[test]
    fn the_example_of_rfc_7638() {
        let rsa = r#"{"kty":"RSA","n":"0vx7agoebGcQ","e":"AQAB","alg":"RS256","kid":"2011-04-29"}"#;
        assert_eq!(thumbprint_input(rsa).as_deref(), Some(r#"{"e":"AQAB","kty":"RSA","n":"0vx7agoebGcQ"}"#));
        assert!(thumbprint_input(JWK).is_some());
        for bad in [
            "",
            "[]",
            "{}",
            r#"{"kty":"oct","k":"AA"}"#,
            r#"{"kty":"EC","crv":"P-256","x":"A"}"#,
            r#"{"kty":"OKP","crv":"Ed25519","x":"a\",\"y"}"#,
            r#"{"kty":"OKP","crv":"Ed25519","x":1}"#,
        ] {
            assert_eq!(thumbprint_input(bad), None, "{bad}");
        }
    }

    #[test]
    fn the_newest_nonce_of_an_origin_is_used() {
        let mut nonces = DpopNonces::default();
        let url = |text: &str| Url::parse(text).unwrap();
        assert!(nonces.set(&url("https://a.example/token"), "n1"));
        assert!(!nonces.set(&url("https://a.example/other"), "n1"));
        assert!(nonces.set(&url("https://a.example:443/token"), "n2"));
        assert_eq!(nonces.get(&url("https://A.example/x")), Some("n2"));
        assert_eq!(nonces.get(&url("https://b.example")), None);
        for bad in ["", "a b", "a\"", "ü", &"n".repeat(MAX_NONCE_BYTES + 1)] {
            assert!(!nonces.set(&url("https://a.example"), bad), "{bad}");
        }
        for number in 0..100 {
            nonces.set(&url(&format!("https://x{number}.example")), "n");
        }
        assert_eq!(nonces.0.len(), MAX_NONCES);
    }
}
