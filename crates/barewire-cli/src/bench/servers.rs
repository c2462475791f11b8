//! What the command line says about servers -> whom to ask, each with a name.

use std::ffi::OsString;
use std::path::Path;

use super::Args;
use crate::Failure;
use crate::output::shown;

/// A server to be measured.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Server {
    pub(super) name: String,
    pub(super) at: At,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum At {
    Program {
        program: OsString,
        args: Vec<OsString>,
    },
    /// At `--url`: what goes along with requests goes there.
    Url(String),
    /// Elsewhere: what is meant for the other is not shown to it.
    OtherUrl(String),
}

impl Server {
    /// The one behind `--` or at `--url`, and then those of `--against`.
    pub(super) fn all(args: &Args) -> Result<Vec<Self>, Failure> {
        let first = match (args.program.as_slice(), &args.url) {
            ([program, args @ ..], None) => {
                let name = Path::new(program).file_name().unwrap_or(program);
                let at = At::Program { program: program.clone(), args: args.to_vec() };
                Self { name: shown(name.as_encoded_bytes(), LONGEST_NAME), at }
            }
            ([], Some(url)) => Self { name: "url".to_owned(), at: At::Url(url.clone()) },
            ([], None) => {
                return Err(Failure::new("nobody to ask: neither a program nor --url")
                    .with_hint("barewire bench [WHAT [ARGUMENT]…] -- PROGRAM ARGS…"));
            }
            ([_, ..], Some(_)) => {
                return Err(Failure::new("a program and --url are two to ask")
                    .with_hint("--against NAME='PROGRAM…' measures one beside the other"));
            }
        };
        let mut all = vec![first];
        for text in &args.against {
            let server = Self::against(text)?;
            if all.iter().any(|other| other.name == server.name) {
                return Err(Failure::new(format!("--against: there are two servers named {}", server.name))
                    .with_hint("the first is named after its program"));
            }
            all.push(server);
        }
        Ok(all)
    }

    /// `NAME=PROGRAM…` or `NAME=URL`.
    fn against(text: &str) -> Result<Self, Failure> {
        let wrong = |what: &str| {
            Failure::new(format!("--against {}: {what}", shown(text.as_bytes(), LONGEST)))
                .with_hint("--against NAME='PROGRAM ARGS…' or --against NAME=URL")
        };
        let (name, target) = text.split_once('=').ok_or_else(|| wrong("there is no ="))?;
        if name.is_empty() {
            return Err(wrong("there is no name before the ="));
        }
        let name = shown(name.as_bytes(), LONGEST_NAME);
        if target.starts_with("http://") || target.starts_with("https://") {
            return Ok(Self { name, at: At::OtherUrl(target.to_owned()) });
        }
        let words = words(target).ok_or_else(|| wrong("a quote or backslash without its end"))?;
        let mut words = words.into_iter().map(OsString::from);
        let program = words.next().ok_or_else(|| wrong("there is no program behind the ="))?;
        Ok(Self { name, at: At::Program { program, args: words.collect() } })
    }
}

/// The words of a command, with quotes and backslashes as a shell has them, and nothing else of a shell. `None` if one does
/// not end.
fn words(text: &str) -> Option<Vec<String>> {
    let (mut words, mut word) = (Vec::new(), None::<String>);
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            c if c.is_whitespace() => words.extend(word.take()),
            '\'' => loop {
                let word = word.get_or_insert_default();
                match chars.next()? {
                    '\'' => break,
                    c => word.push(c),
                }
            },
            '"' => loop {
                let word = word.get_or_insert_default();
                match chars.next()? {
                    '"' => break,
                    '\\' => match chars.next()? {
                        c @ ('"' | '\\' | '$' | '`') => word.push(c),
                        c => word.extend(['\\', c]),
                    },
                    c => word.push(c),
                }
            },
            '\\' => word.get_or_insert_default().push(chars.next()?),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    Some(words)
}

/// As much of what was typed as fits a line.
const LONGEST: usize = 60;

/// Names stand above columns.
const LONGEST_NAME: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_cut_into_words_as_a_shell_does() {
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
        let server = Server::against("other=node 'my server.js'").ok().expect("a program");
        let at = At::Program { program: "node".into(), args: vec!["my server.js".into()] };
        assert_eq!(server, Server { name: "other".to_owned(), at });
        let server = Server::against("far=https://example.com/mcp?a=b").ok().expect("a URL");
        assert_eq!(server.at, At::OtherUrl("https://example.com/mcp?a=b".to_owned()));
        for text in ["program", "=program", "name=", "name='a"] {
            assert!(Server::against(text).is_err(), "{text}");
        }
    }
}
