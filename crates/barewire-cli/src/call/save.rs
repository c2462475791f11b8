//! Bytes from a server -> new files in a folder, with safe names.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use crate::Failure;
use crate::output::shown;

/// Decodes Base64, with or without padding.
pub(super) fn decoded(text: &str) -> Result<Vec<u8>, String> {
    let config = GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
    GeneralPurpose::new(&STANDARD, config).decode(text).map_err(|error| format!("bad Base64: {error}"))
}

/// Writes a new file and returns its path. `name` may be any text; unsafe characters are replaced.
pub(super) fn save(folder: &Path, name: &str, mime_type: Option<&str>, bytes: &[u8]) -> Result<PathBuf, Failure> {
    let failed = |path: &Path, error: io::Error| {
        let path = shown(path.as_os_str().as_encoded_bytes(), MAX_NAME);
        Failure::new(format!("cannot write {path}: {error}"))
    };
    fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
    let (stem, extension) = parts(name, mime_type);
    for number in 1_u32.. {
        let number = if number == 1 { String::new() } else { format!("-{number}") };
        let path = folder.join(format!("{stem}{number}.{extension}"));
        match File::create_new(&path) {
            Ok(mut file) => {
                file.write_all(bytes).map_err(|error| failed(&path, error))?;
                return Ok(path);
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(failed(&path, error)),
        }
    }
    Err(Failure::new("no free file name"))
}

/// Returns a safe file name without its extension, and the extension: that of `name`, or else one that fits the MIME
/// type.
fn parts(name: &str, mime_type: Option<&str>) -> (String, String) {
    let path = name.split(['?', '#']).next().unwrap_or_default().trim_end_matches('/');
    let last = path.rsplit(['/', '\\', ':']).next().unwrap_or_default();
    let safe = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '_' };
    let name: String = last.chars().map(safe).take(MAX_NAME).collect();
    let name = name.trim_start_matches('.');
    match name.rsplit_once('.') {
        Some((stem, extension)) if !stem.is_empty() && (1..=8).contains(&extension.len()) => {
            (stem.to_owned(), extension.to_owned())
        }
        _ if name.is_empty() => ("resource".to_owned(), extension(mime_type).to_owned()),
        _ => (name.trim_end_matches('.').to_owned(), extension(mime_type).to_owned()),
    }
}

fn extension(mime_type: Option<&str>) -> &'static str {
    let essence = mime_type.and_then(|it| it.split(';').next()).map(str::trim);
    let known = EXTENSIONS.iter().find(|(name, _)| Some(*name) == essence);
    match (known, essence) {
        (Some((_, extension)), _) => extension,
        (None, Some(text)) if text.starts_with("text/") => "txt",
        _ => "bin",
    }
}

#[rustfmt::skip]
const EXTENSIONS: [(&str, &str); 18] = [
    ("image/png", "png"), ("image/jpeg", "jpg"), ("image/gif", "gif"), ("image/webp", "webp"),
    ("image/svg+xml", "svg"), ("audio/wav", "wav"), ("audio/mpeg", "mp3"), ("audio/ogg", "ogg"),
    ("audio/flac", "flac"), ("video/mp4", "mp4"), ("application/json", "json"), ("application/pdf", "pdf"),
    ("application/zip", "zip"), ("application/xml", "xml"), ("text/html", "html"), ("text/markdown", "md"),
    ("text/csv", "csv"), ("text/css", "css"),
];

/// The maximum number of characters of a file name, and of a path shown in a message.
const MAX_NAME: usize = 80;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_leads_out_of_the_folder() {
        for (name, mime_type, file) in [
            ("file:///a/notes.txt", None, "notes.txt"),
            ("../../etc/passwd", None, "passwd.bin"),
            ("..", None, "resource.bin"),
            ("", Some("text/x-rust; charset=utf-8"), "resource.txt"),
            ("barewire://dot", Some("image/png"), "dot.png"),
            ("a\\b\0.sh\n", None, "b_.sh_"),
            ("https://x/y.html?z=/../w", None, "y.html"),
            (".bashrc", None, "bashrc.bin"),
        ] {
            let (stem, extension) = parts(name, mime_type);
            assert_eq!(format!("{stem}.{extension}"), file, "{name:?}");
        }
    }

    #[test]
    fn no_file_is_overwritten() {
        let folder = std::env::temp_dir().join(format!("barewire-save-{}", std::process::id()));
        let one = save(&folder, "a.txt", None, b"1").expect("written");
        let two = save(&folder, "a.txt", None, b"2").expect("written");
        assert!(one.ends_with("a.txt") && two.ends_with("a-2.txt"));
        assert_eq!(fs::read(&one).expect("there"), b"1");
        fs::remove_dir_all(&folder).expect("removed");
    }

    #[test]
    fn padding_is_optional() {
        assert_eq!(decoded("AQ==").as_deref(), Ok(&[1][..]));
        assert_eq!(decoded("AQ").as_deref(), Ok(&[1][..]));
        assert!(decoded("A!").is_err());
    }
}
