//! Signatures and hashes: a public key, the signed bytes and the signature -> whether the signature is good.

use barewire_proto::auth::server::{Algorithm, PublicKey};
use ring::digest::{SHA256, digest};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RSA_PSS_2048_8192_SHA256, RsaPublicKeyComponents,
    UnparsedPublicKey,
};

/// Whether this key has signed these bytes. A key that does not fit the algorithm has not.
pub(super) fn is_signed_by(key: &PublicKey, algorithm: Algorithm, signed: &[u8], signature: &[u8]) -> bool {
    let verified = match (key, algorithm) {
        (PublicKey::Rsa { n, e }, Algorithm::Rs256) => {
            RsaPublicKeyComponents { n, e }.verify(&RSA_PKCS1_2048_8192_SHA256, signed, signature)
        }
        (PublicKey::Rsa { n, e }, Algorithm::Ps256) => {
            RsaPublicKeyComponents { n, e }.verify(&RSA_PSS_2048_8192_SHA256, signed, signature)
        }
        (PublicKey::P256 { x, y }, Algorithm::Es256) => {
            // The uncompressed form of a point: SEC 1, section 2.3.3.
            let mut point = [4; 65];
            point[1..33].copy_from_slice(x);
            point[33..].copy_from_slice(y);
            UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(signed, signature)
        }
        (PublicKey::Ed25519 { x }, Algorithm::Ed25519) => UnparsedPublicKey::new(&ED25519, x).verify(signed, signature),
        _ => return false,
    };
    verified.is_ok()
}

/// Returns the SHA-256 of the bytes.
pub(super) fn sha256(bytes: &[u8]) -> [u8; 32] {
    digest(&SHA256, bytes).as_ref().try_into().expect("a SHA-256 has 32 bytes")
}
