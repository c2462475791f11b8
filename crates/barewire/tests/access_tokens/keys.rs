//! Keys that sign tokens and proofs, as an issuer and a client have them.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256, RSA_PSS_SHA256,
    RsaKeyPair,
};
use serde_json::{Value, json};

/// A private key.
pub(crate) enum SigningKey {
    Rsa(Box<RsaKeyPair>),
    P256(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

impl SigningKey {
    /// Returns the RSA key of the tests: ring cannot make RSA keys.
    pub(crate) fn rsa() -> Self {
        Self::Rsa(Box::new(RsaKeyPair::from_pkcs8(include_bytes!("rsa-2048.pk8")).expect("an RSA key")))
    }

    pub(crate) fn p256() -> Self {
        let pkcs8 =
            EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new()).expect("a key");
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8.as_ref(), &SystemRandom::new());
        Self::P256(key.expect("a P-256 key"))
    }

    pub(crate) fn ed25519() -> Self {
        let pkcs8 = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).expect("a key");
        Self::Ed25519(Ed25519KeyPair::from_pkcs8(pkcs8.as_ref()).expect("an Ed25519 key"))
    }

    /// Returns the public key as a JWK.
    pub(crate) fn jwk(&self) -> Value {
        match self {
            Self::Rsa(key) => {
                let public: ring::signature::RsaPublicKeyComponents<Vec<u8>> = key.public_key().into();
                json!({"kty": "RSA", "n": BASE64.encode(public.n), "e": BASE64.encode(public.e)})
            }
            Self::P256(key) => {
                let point = key.public_key().as_ref();
                let (x, y) = (BASE64.encode(&point[1..33]), BASE64.encode(&point[33..]));
                json!({"kty": "EC", "crv": "P-256", "x": x, "y": y})
            }
            Self::Ed25519(key) => {
                json!({"kty": "OKP", "crv": "Ed25519", "x": BASE64.encode(key.public_key().as_ref())})
            }
        }
    }

    /// Returns the public key as a JWK with a name.
    pub(crate) fn named(&self, kid: &str) -> Value {
        let mut jwk = self.jwk();
        jwk["kid"] = kid.into();
        jwk
    }

    /// Returns the thumbprint of the key (RFC 7638), made from its members in the order of their names.
    pub(crate) fn thumbprint(&self) -> String {
        BASE64.encode(ring::digest::digest(&ring::digest::SHA256, self.jwk().to_string().as_bytes()))
    }

    fn sign(&self, algorithm: &str, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match self {
            Self::Rsa(key) => {
                let mut signature = vec![0; key.public().modulus_len()];
                let padding: &'static dyn ring::signature::RsaEncoding =
                    if algorithm == "PS256" { &RSA_PSS_SHA256 } else { &RSA_PKCS1_SHA256 };
                key.sign(padding, &random, message, &mut signature).expect("signed");
                signature
            }
            Self::P256(key) => key.sign(&random, message).expect("signed").as_ref().to_vec(),
            Self::Ed25519(key) => key.sign(message).as_ref().to_vec(),
        }
    }

    /// Returns a signed token with exactly this header.
    pub(crate) fn token(&self, header: &Value, claims: &Value) -> String {
        let message = unsigned(header, claims);
        let signature = self.sign(header["alg"].as_str().unwrap_or_default(), message.as_bytes());
        format!("{message}.{}", BASE64.encode(signature))
    }
}

/// Returns the header and the claims of a token, without a signature.
pub(crate) fn unsigned(header: &Value, claims: &Value) -> String {
    format!("{}.{}", BASE64.encode(header.to_string()), BASE64.encode(claims.to_string()))
}

/// Returns a token that is signed with a shared secret.
pub(crate) fn hmac_token(secret: &[u8], header: &Value, claims: &Value) -> String {
    let message = unsigned(header, claims);
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret);
    format!("{message}.{}", BASE64.encode(ring::hmac::sign(&key, message.as_bytes())))
}

/// Returns the hash of a token that a proof contains.
pub(crate) fn token_hash(token: &str) -> String {
    BASE64.encode(ring::digest::digest(&ring::digest::SHA256, token.as_bytes()))
}
