//! A header and claims -> the compact form of a JWT. Signatures are made outside of this crate.

use serde::Serialize;

use super::client::SigningKey;
use crate::http::base64;

/// The time for which a client assertion is valid. It is sent at once; the rest is for clocks that differ.
const ASSERTION_SECONDS: u64 = 60;

/// Returns the text that is signed: header and claims, each in Base64, with a dot between them. RFC 7515, section 5.1.
pub(super) fn signing_input(header: &impl Serialize, claims: &impl Serialize) -> String {
    let part = |json: Result<String, serde_json::Error>| base64::encode_url(json.expect("strings are JSON").as_bytes());
    format!("{}.{}", part(serde_json::to_string(header)), part(serde_json::to_string(claims)))
}

/// Returns the complete JWT: the text that was signed, and its signature. For ES256 the signature has 64 bytes, two
/// numbers of fixed length (RFC 7518, section 3.4).
pub fn with_signature(signing_input: &str, signature: &[u8]) -> String {
    format!("{signing_input}.{}", base64::encode_url(signature))
}

/// A client assertion to be signed: RFC 7523, sections 2.2 and 3.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AssertionRequest {
    /// The client ID: issuer and subject of the assertion.
    pub client_id: String,
    /// The issuer of the authorization server: the audience of the assertion.
    pub audience: String,
    /// The key that signs.
    pub key: SigningKey,
}

impl AssertionRequest {
    /// Returns the text to sign. `jti` is a new random text, and `now` the time in seconds since 1970.
    pub fn signing_input(&self, jti: &str, now: u64) -> String {
        #[derive(Serialize)]
        struct AssertionHeader<'a> {
            alg: &'a str,
            typ: &'static str,
            #[serde(skip_serializing_if = "Option::is_none")]
            kid: Option<&'a str>,
        }
        #[derive(Serialize)]
        struct AssertionClaims<'a> {
            iss: &'a str,
            sub: &'a str,
            aud: &'a str,
            jti: &'a str,
            iat: u64,
            exp: u64,
        }
        let header = AssertionHeader { alg: &self.key.algorithm, typ: "JWT", kid: self.key.id.as_deref() };
        let (iss, aud, exp) = (&*self.client_id, &*self.audience, now.saturating_add(ASSERTION_SECONDS));
        signing_input(&header, &AssertionClaims { iss, sub: iss, aud, jti, iat: now, exp })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_assertion_names_client_and_issuer() {
        let key = SigningKey::new("ES256", "key").id("k1".to_owned());
        let request = AssertionRequest { client_id: "c".into(), audience: "https://a.example".into(), key };
        let text = with_signature(&request.signing_input("j", 1000), b"sig");
        let parts: Vec<_> = text.split('.').map(|part| base64::decode_url(part.as_bytes()).unwrap()).collect();
        assert_eq!(parts[0], br#"{"alg":"ES256","typ":"JWT","kid":"k1"}"#);
        let claims = r#"{"iss":"c","sub":"c","aud":"https://a.example","jti":"j","iat":1000,"exp":1060}"#;
        assert_eq!(parts[1], claims.as_bytes());
        assert_eq!(parts[2..], [b"sig"]);
        assert!(!format!("{request:?}").contains("\"key\""));
    }
}
