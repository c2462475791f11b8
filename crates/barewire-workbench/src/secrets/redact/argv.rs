//! Turns a program and its arguments into a shell command with the secrets replaced.

use std::ffi::OsStr;

use super::{ActiveRedactor, Redactor};
use crate::secrets::names::{self, NameContext};
use crate::secrets::view::is_name;

impl Redactor {
    /// Returns a program and its arguments as a shell command, and whether a secret in it was replaced.
    pub fn argv<'a>(&mut self, argv: impl IntoIterator<Item = &'a OsStr>) -> (Vec<u8>, bool) {
        let (mut line, mut redacted, mut option) = (Vec::new(), false, None);
        for (index, arg) in argv.into_iter().enumerate() {
            let arg = arg.as_encoded_bytes();
            if index > 0 {
                line.push(b' ');
            }
            let (shown, replaced) = match (&mut self.0, option) {
                (None, _) => (arg.to_vec(), false),
                (Some(secrets), Some(name)) if !arg.starts_with(b"-") => {
                    secrets.named(name, arg).unwrap_or_else(|| secrets.argument(arg))
                }
                (Some(secrets), _) => secrets.argument(arg),
            };
            redacted |= replaced;
            // `--api-key KEY`
            option = arg.strip_prefix(b"-").filter(|name| index > 0 && name.iter().all(|b| is_name(*b)));
            quote(&shown, replaced, &mut line);
        }
        (line, redacted)
    }
}

impl ActiveRedactor {
    fn argument(&mut self, arg: &[u8]) -> (Vec<u8>, bool) {
        // `--token=…`, `NAME=…`, `--env=NAME=…`: the value is everything after the `=`.
        let mut from = 0;
        while let Some(equals) = memchr::memchr(b'=', &arg[from..]).map(|at| from + at) {
            let (name, value) = (&arg[from..equals], &arg[equals + 1..]);
            if name.is_empty() || !name.iter().all(|b| is_name(*b)) {
                break;
            }
            if let Some((shown, replaced)) = self.named(name, value) {
                return ([&arg[..=equals], &shown].concat(), replaced);
            }
            from = equals + 1;
        }
        // `-H 'Name: value'` and `--header='Name: value'`, but not JSON.
        match memchr::memchr(b':', arg) {
            Some(colon)
                if arg[..colon].iter().all(|b| is_name(*b) || *b == b'=') && arg[colon..].starts_with(b": ") =>
            {
                self.head(arg)
            }
            _ => self.text(arg),
        }
    }

    fn named(&mut self, name: &[u8], value: &[u8]) -> Option<(Vec<u8>, bool)> {
        let secret = names::secret_class(name, NameContext::Assigned)?;
        secret.fits(value, NameContext::Assigned).then(|| self.value(value))
    }
}

/// Appends an argument, with shell quotes if necessary. The `<` and `>` of a replacement text are not quoted.
fn quote(arg: &[u8], replaced: bool, line: &mut Vec<u8>) {
    let sign = |b: &u8| b"-_./:=@%+,".contains(b) || (replaced && b"<>".contains(b));
    let plain = |b: &u8| b.is_ascii_alphanumeric() || sign(b) || !b.is_ascii();
    if !arg.is_empty() && arg.iter().all(plain) {
        return line.extend_from_slice(arg);
    }
    line.push(b'\'');
    for (index, part) in arg.split(|b| *b == b'\'').enumerate() {
        if index > 0 {
            line.extend_from_slice(b"'\\''");
        }
        line.extend_from_slice(part);
    }
    line.push(b'\'');
}
