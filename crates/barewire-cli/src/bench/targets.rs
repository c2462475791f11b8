//! The servers on the command line -> the targets of the load test, each with a name.

use std::ffi::OsString;
use std::path::Path;

use barewire::client::http::Endpoint;
use barewire::transport::{Child, Stderr};
use barewire_workbench::load::LoadTarget;

use super::Args;
use crate::Failure;
use crate::output::shown;

/// Returns the server after `--` or at `--url`, followed by the servers of `--against`.
pub(super) fn targets(args: &Args) -> Result<Vec<LoadTarget>, Failure> {
    let first = match (args.program.as_slice(), &args.url) {
        ([program, words @ ..], None) => {
            let name = Path::new(program).file_name().unwrap_or(program);
            self::program(shown(name.as_encoded_bytes(), MAX_NAME_LENGTH), program, words)
        }
        ([], Some(url)) => {
            let endpoint = args.url_headers.endpoint(url).map_err(|failure| args.named(failure, URL_NAME))?;
            LoadTarget::url(URL_NAME, endpoint, args.pid)
        }
        ([], None) => {
            return Err(Failure::new("no server to load: give a program or --url")
                .with_hint("barewire bench [WHAT [ARGUMENT]…] -- PROGRAM ARGS…"));
        }
        ([_, ..], Some(_)) => {
            return Err(Failure::new("both a program and --url are given")
                .with_hint("compare two servers with --against NAME='PROGRAM…'"));
        }
    };
    let mut all = vec![first];
    for text in &args.against {
        let target = against(text)?;
        if all.iter().any(|other| other.name() == target.name()) {
            return Err(Failure::new(format!("--against: two servers are named {}", target.name()))
                .with_hint("the first server is named after its program"));
        }
        all.push(target);
    }
    Ok(all)
}

/// Parses `NAME=PROGRAM…` or `NAME=URL`. `--header` and `--bearer-env` are sent only to `--url`, not to this URL.
fn against(text: &str) -> Result<LoadTarget, Failure> {
    let wrong = |what: &str| {
        Failure::new(format!("--against {}: {what}", shown(text.as_bytes(), MAX_TEXT_LENGTH)))
            .with_hint("--against NAME='PROGRAM ARGS…' or --against NAME=URL")
    };
    let (name, target) = text.split_once('=').ok_or_else(|| wrong("missing ="))?;
    if name.is_empty() {
        return Err(wrong("missing name before the ="));
    }
    let name = shown(name.as_bytes(), MAX_NAME_LENGTH);
    if target.starts_with("http://") || target.starts_with("https://") {
        return Ok(LoadTarget::url(name, Endpoint::new(target), None));
    }
    let words = words(target).ok_or_else(|| wrong("a quote is not closed, or a backslash is last"))?;
    let words: Vec<OsString> = words.into_iter().map(OsString::from).collect();
    let (first, words) = words.split_first().ok_or_else(|| wrong("missing program after the ="))?;
    Ok(program(name, first, words))
}

fn program(name: String, program: &OsString, words: &[OsString]) -> LoadTarget {
    LoadTarget::program(name, Child::new(program).args(words).stderr(Stderr::discard()))
}

/// Splits a command into words as a shell does, by spaces, quotes and backslashes. `None` if a quote is not closed.
fn words(text: &str) -> Option<Vec<String>> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if quote.is_none() && c.is_whitespace() {
            words.extend(word.take());
            continue;
        }
        let word = word.get_or_insert_default();
        match (quote, c) {
            (None, '\'' | '"') => quote = Some(c),
            (Some(open), c) if c == open => quote = None,
            (None, '\\') => word.push(chars.next()?),
            (Some('"'), '\\') => match chars.next()? {
                c @ ('"' | '\\' | '$' | '`') => word.push(c),
                c => word.extend(['\\', c]),
            },
            (_, c) => word.push(c),
        }
    }
    words.extend(word);
    quote.is_none().then_some(words)
}

pub(super) const URL_NAME: &str = "url";

/// The maximum number of characters of an option shown in a message, so that it fits on one line.
const MAX_TEXT_LENGTH: usize = 60;

/// The maximum number of characters of a server's name, which is a column heading.
const MAX_NAME_LENGTH: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_split_into_words_like_in_a_shell() {
        for (text, expected) in [
            ("a b  c", vec!["a", "b", "c"]),
            ("a 'b c' \"d e\"", vec!["a", "b c", "d e"]),
            (r#"a\ b "c\"d\n" e'f'"g""#, vec!["a b", r#"c"d\n"#, "efg"]),
            ("a '' \"\"", vec!["a", "", ""]),
            ("  ", vec![]),
        ] {
            assert_eq!(words(text), Some(expected.into_iter().map(str::to_owned).collect()), "{text}");
        }
        for text in ["'a", "\"a", "a\\", "\"a\\"] {
            assert_eq!(words(text), None, "{text}");
        }
    }

    #[test]
    fn a_server_to_compare_with_is_a_program_or_a_url() {
        let target = against("other=node 'my server.js'").expect("a program");
        assert_eq!((target.name(), target.is_url()), ("other", false));
        let target = against("far=https://example.com/mcp?a=b").expect("a URL");
        assert_eq!((target.name(), target.is_url()), ("far", true));
        for text in ["program", "=program", "name=", "name='a"] {
            assert!(against(text).is_err(), "{text}");
        }
    }
}
