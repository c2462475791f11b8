//! The text of an account <-> the same text, encrypted with the key that the operating system's keyring keeps.
//!
//! The keyring has one key for all accounts, not the accounts themselves: keyrings limit the length of an entry (on
//! Windows to 2,560 bytes, which two tokens exceed), cannot replace several entries at once, and ask the user for each.

use std::io;
use std::path::Path;

/// Whether the contents of a file are encrypted.
pub(super) fn is_sealed(contents: &[u8]) -> bool {
    contents.starts_with(PREFIX.as_bytes())
}

/// The beginning of an encrypted file. The text of an account begins with a brace.
pub(super) const PREFIX: &str = "barewire-sealed-1 ";

/// The length that encryption adds to a text of this length: Base64, the prefix, the nonce and the tag.
pub(super) const fn max_sealed_length(text: usize) -> usize {
    text / 3 * 4 + 128
}

#[cfg(feature = "keyring")]
pub(super) use with_keyring::{seal, unseal};
#[cfg(not(feature = "keyring"))]
pub(super) use without_keyring::{seal, unseal};

#[cfg(not(feature = "keyring"))]
mod without_keyring {
    use super::{Path, io};

    /// Fails: only a build with the keyring has the key.
    pub(in super::super) fn seal(_: &[u8], _: &Path) -> io::Result<Vec<u8>> {
        Err(unsupported())
    }

    /// Fails: only a build with the keyring has the key.
    pub(in super::super) fn unseal(_: &[u8], _: &Path) -> io::Result<Vec<u8>> {
        Err(unsupported())
    }

    fn unsupported() -> io::Error {
        let why = "it is encrypted with a key in the keyring, and this program was built without the feature keyring";
        io::Error::new(io::ErrorKind::Unsupported, why)
    }
}

#[cfg(feature = "keyring")]
mod with_keyring {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD_NO_PAD;
    use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
    use ring::rand::{SecureRandom as _, SystemRandom};

    use super::super::keyring::{self, Key};
    use super::{PREFIX, Path, io};

    /// Encrypts a text. `folder` is the folder of the accounts.
    pub(in super::super) fn seal(text: &[u8], folder: &Path) -> io::Result<Vec<u8>> {
        seal_with(text, &keyring::obtain_key(folder)?)
    }

    /// Decrypts the contents of a file. `folder` is the folder of the accounts.
    pub(in super::super) fn unseal(contents: &[u8], folder: &Path) -> io::Result<Vec<u8>> {
        let key = keyring::key(folder)?.ok_or_else(|| invalid("its key is not in the keyring; sign in again"))?;
        unseal_with(contents, &key)
    }

    fn seal_with(text: &[u8], key: &Key) -> io::Result<Vec<u8>> {
        let mut nonce = [0; NONCE_LEN];
        let no_random = |_| io::Error::other("the operating system provides no random numbers");
        SystemRandom::new().fill(&mut nonce).map_err(no_random)?;
        let mut sealed = text.to_vec();
        let nonce_value = Nonce::assume_unique_for_key(nonce);
        let tagged = cipher(key).seal_in_place_append_tag(nonce_value, Aad::from(PREFIX), &mut sealed);
        tagged.map_err(|_| io::Error::other("it is too long to be encrypted"))?;
        let encoded = STANDARD_NO_PAD.encode([&nonce[..], &sealed].concat());
        Ok(format!("{PREFIX}{encoded}\n").into_bytes())
    }

    fn unseal_with(contents: &[u8], key: &Key) -> io::Result<Vec<u8>> {
        let damaged = || invalid("it is damaged, or encrypted with another key; sign in again");
        let encoded = contents.strip_prefix(PREFIX.as_bytes()).ok_or_else(damaged)?;
        let mut bytes = STANDARD_NO_PAD.decode(encoded.trim_ascii_end()).map_err(|_| damaged())?;
        let (nonce, sealed) = bytes.split_at_mut_checked(NONCE_LEN).ok_or_else(damaged)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| damaged())?;
        let text = cipher(key).open_in_place(nonce, Aad::from(PREFIX), sealed).map_err(|_| damaged())?;
        Ok(text.to_vec())
    }

    fn cipher(key: &Key) -> LessSafeKey {
        LessSafeKey::new(UnboundKey::new(&CHACHA20_POLY1305, key).expect("a key has the length of this cipher's keys"))
    }

    fn invalid(why: &'static str) -> io::Error {
        io::Error::new(io::ErrorKind::InvalidData, why)
    }

    #[cfg(test)]
    mod tests {
        use super::super::{is_sealed, max_sealed_length};
        use super::{seal_with, unseal_with};

        #[test]
        fn a_sealed_text_is_found_again_and_only_with_its_key() {
            for length in [0, 1, 2, 3, 100, 65_536] {
                let text = vec![b'x'; length];
                let sealed = seal_with(&text, &[7; 32]).unwrap();
                assert!(is_sealed(&sealed) && sealed.len() <= max_sealed_length(length), "{length}");
                assert_eq!(unseal_with(&sealed, &[7; 32]).unwrap(), text);
                assert!(unseal_with(&sealed, &[8; 32]).is_err());
            }
        }

        #[test]
        fn no_change_of_a_sealed_text_goes_unnoticed() {
            let sealed = seal_with(b"secret", &[7; 32]).unwrap();
            assert!(!String::from_utf8_lossy(&sealed).contains("secret"));
            for at in 0..sealed.len() - 1 {
                let mut changed = sealed.clone();
                changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
                // The last character has bits that no byte contains.
                let text = unseal_with(&changed, &[7; 32]);
                assert!(text.is_err(), "byte {at} of {}: {text:?}", sealed.len());
            }
            for length in 0..sealed.len() - 1 {
                assert!(unseal_with(&sealed[..length], &[7; 32]).is_err(), "{length}");
            }
        }

        #[test]
        fn two_sealed_texts_differ() {
            assert_ne!(seal_with(b"secret", &[7; 32]).unwrap(), seal_with(b"secret", &[7; 32]).unwrap());
        }
    }
}
