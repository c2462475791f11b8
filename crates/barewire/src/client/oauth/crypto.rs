//! Random bytes, SHA-256 and signatures, which `barewire-proto` leaves to its caller.

use std::fmt;

use barewire_proto::auth::{self, Crypto, SecretText};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom as _, SystemRandom};
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, RSA_PKCS1_SHA256, RsaKeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;

use super::SignInError;

/// The operating system's random numbers, and ring's hash.
#[derive(Default)]
pub(super) struct SystemCrypto {
    /// Whether random numbers could not be obtained, so that those that were returned must not be used.
    has_failed: bool,
}

impl SystemCrypto {
    /// Returns an error if a random number that was returned must not be used.
    pub(super) fn check(&self) -> Result<(), SignInError> {
        if self.has_failed { Err(SignInError::Random) } else { Ok(()) }
    }

    /// Returns a new random text.
    pub(super) fn random_text() -> Result<String, SignInError> {
        let mut crypto = Self::default();
        let text = base64url(&crypto.random());
        crypto.check().map(|()| text)
    }
}

impl Crypto for SystemCrypto {
    fn random(&mut self) -> [u8; 32] {
        let mut bytes = [0; 32];
        self.has_failed |= SystemRandom::new().fill(&mut bytes).is_err();
        bytes
    }

    fn sha256(&mut self, bytes: &[u8]) -> [u8; 32] {
        sha256(bytes)
    }
}

/// Returns the SHA-256 hash of the bytes.
pub(super) fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest(&SHA256, bytes).as_ref());
    hash
}

fn base64url(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// A private key that signs tokens: ES256 (P-256) or RS256. `Debug` shows only the algorithm.
pub struct PrivateKey {
    kind: KeyKind,
    /// The key as it was read, to store it.
    der: Vec<u8>,
}

enum KeyKind {
    Es256(Box<EcdsaKeyPair>),
    Rs256(Box<RsaKeyPair>),
}

impl PrivateKey {
    /// Generates an ES256 key.
    pub fn generate() -> Result<Self, SignInError> {
        let random = SystemRandom::new();
        let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random);
        Self::from_der(document.map_err(|_| SignInError::Random)?.as_ref().to_vec())
    }

    /// Reads a private key in PEM form: PKCS#8 with a P-256 or RSA key, or PKCS#1 with an RSA key.
    pub fn from_pem(pem: &str) -> Result<Self, SignInError> {
        let der = PrivateKeyDer::from_pem_slice(pem.as_bytes())
            .map_err(|_| SignInError::Key("there is no private key in PEM form (-----BEGIN PRIVATE KEY-----)"))?;
        match der {
            PrivateKeyDer::Sec1(_) => Err(SignInError::Key(
                "the key has the form \"EC PRIVATE KEY\"; convert it: openssl pkcs8 -topk8 -nocrypt -in KEY",
            )),
            der => Self::from_der(der.secret_der().to_vec()),
        }
    }

    /// Reads a P-256 key in PKCS#8 form, or an RSA key in PKCS#8 or PKCS#1 form.
    fn from_der(der: Vec<u8>) -> Result<Self, SignInError> {
        let random = SystemRandom::new();
        if let Ok(pair) = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &der, &random) {
            return Ok(Self { kind: KeyKind::Es256(Box::new(pair)), der });
        }
        match RsaKeyPair::from_pkcs8(&der).or_else(|_| RsaKeyPair::from_der(&der)) {
            Ok(pair) => Ok(Self { kind: KeyKind::Rs256(Box::new(pair)), der }),
            Err(_) => Err(SignInError::Key("the key is neither a P-256 key nor an RSA key of 2048 to 4096 bits")),
        }
    }

    /// Reads the key of a record, or one that an application has set as PEM text.
    pub(super) fn from_record(key: &auth::SigningKey) -> Result<Self, SignInError> {
        let text = key.key.expose();
        if text.starts_with("-----BEGIN") {
            return Self::from_pem(text);
        }
        let der = URL_SAFE_NO_PAD.decode(text).map_err(|_| SignInError::Key("the stored key is damaged"))?;
        Self::from_der(der)
    }

    /// Returns the key in the form that a record holds.
    pub(super) fn to_record(&self) -> auth::SigningKey {
        let mut key = auth::SigningKey::new(self.algorithm(), SecretText::new(base64url(&self.der)));
        key.public_jwk = self.public_jwk();
        key
    }

    /// Returns the name of the signature algorithm in JSON Web Tokens.
    pub fn algorithm(&self) -> &'static str {
        match &self.kind {
            KeyKind::Es256(_) => "ES256",
            KeyKind::Rs256(_) => "RS256",
        }
    }

    /// Returns the public part of an ES256 key as a JSON Web Key; `None` for an RSA key, which signs no proofs.
    fn public_jwk(&self) -> Option<String> {
        let KeyKind::Es256(pair) = &self.kind else { return None };
        // An uncompressed point: the byte 4, and then 32 bytes for each coordinate.
        let point = pair.public_key().as_ref();
        let (x, y) = (base64url(point.get(1..33)?), base64url(point.get(33..65)?));
        Some(format!(r#"{{"crv":"P-256","kty":"EC","x":"{x}","y":"{y}"}}"#))
    }

    /// Signs a text. An ES256 signature has the fixed length that JSON Web Tokens require.
    pub(super) fn sign(&self, text: &str) -> Result<Vec<u8>, SignInError> {
        let random = SystemRandom::new();
        let failed = |_| SignInError::Key("the key cannot sign");
        match &self.kind {
            KeyKind::Es256(pair) => Ok(pair.sign(&random, text.as_bytes()).map_err(failed)?.as_ref().to_vec()),
            KeyKind::Rs256(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &random, text.as_bytes(), &mut signature).map_err(failed)?;
                Ok(signature)
            }
        }
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PrivateKey({})", self.algorithm())
    }
}

#[cfg(test)]
mod tests {
    use ring::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};

    use super::*;

    #[test]
    fn a_key_survives_its_record_and_its_signature_verifies() {
        let key = PrivateKey::generate().unwrap();
        let again = PrivateKey::from_record(&key.to_record()).unwrap();
        assert_eq!(key.public_jwk(), again.public_jwk());
        let signature = again.sign("text").unwrap();
        assert_eq!(signature.len(), 64);
        let KeyKind::Es256(pair) = &key.kind else { panic!("a generated key is ES256") };
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, pair.public_key().as_ref())
            .verify(b"text", &signature)
            .expect("a valid signature");
    }

    #[test]
    fn random_text_is_long_and_never_repeated() {
        let (one, other) = (SystemCrypto::random_text().unwrap(), SystemCrypto::random_text().unwrap());
        // The shortest PKCE verifier that RFC 7636, section 4.1, allows.
        assert_eq!(one.len(), 43);
        assert_ne!(one, other);
    }

    #[test]
    fn debug_and_errors_do_not_show_the_key() {
        let key = PrivateKey::generate().unwrap();
        assert_eq!(format!("{key:?}"), "PrivateKey(ES256)");
        let error = PrivateKey::from_pem("-----BEGIN PRIVATE KEY-----\naHVudGVyMg==\n-----END PRIVATE KEY-----\n");
        assert!(!error.unwrap_err().to_string().contains("aHVud"));
    }
}
