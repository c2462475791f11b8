//! The words of a command line -> the same words, with a `--` before the program that a verb starts.
//!
//! Launchers such as `mcp-proxy` and the Inspector remove a `--` from the command that they are given. So the `--` may
//! be left out: the first word that is a program begins the program's command line, and all words after it belong to
//! it. A word that already has a meaning keeps it.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap::{Arg, Command};

use crate::platform;

/// Inserts the `--`, unless it is there already or the words name no program.
pub(crate) fn with_separator(mut words: Vec<OsString>, program: &Command) -> Vec<OsString> {
    let verb = words.get(1).and_then(|word| word.to_str()).and_then(|verb| program.find_subcommand(verb));
    let rule = verb.and_then(|verb| ProgramRule::of(verb.get_name()));
    if let (Some(verb), Some(rule)) = (verb, rule)
        && let Some(at) = rule.position(&words, verb)
    {
        words.insert(at, "--".into());
    }
    words
}

/// Which of a verb's words, other than options and their values, begins the program's command line.
#[derive(Clone, Copy)]
enum ProgramRule {
    /// The word with this index, whatever it is.
    At(usize),
    /// The first word, if it is a program and not a capture. A word that is neither begins a command line too if another
    /// word follows, because there is only one capture.
    FirstUnlessCapture,
    /// The first word from this index on that is a program, unless the server is named in another way.
    FirstProgramFrom(usize),
}

impl ProgramRule {
    fn of(verb: &str) -> Option<Self> {
        match verb {
            "tap" => Some(Self::At(0)),
            "replay" => Some(Self::At(1)),
            "check" => Some(Self::FirstUnlessCapture),
            "call" => Some(Self::FirstProgramFrom(1)),
            "bench" => Some(Self::FirstProgramFrom(0)),
            _ => None,
        }
    }

    /// Returns the index of the program in all words.
    fn position(self, words: &[OsString], verb: &Command) -> Option<usize> {
        if let Self::FirstProgramFrom(_) = self
            && words.iter().any(|word| names_server(word))
        {
            return None;
        }
        let mut plain = PlainWords { words, verb, next: 2 };
        match self {
            Self::At(index) => plain.nth(index),
            Self::FirstUnlessCapture => {
                let first = plain.next()?;
                let is_unknown = std::fs::metadata(&words[first]).is_err() && plain.next().is_some();
                (is_program_not_capture(&words[first]) || is_unknown).then_some(first)
            }
            Self::FirstProgramFrom(index) => plain.skip(index).find(|at| is_program_not_argument(&words[*at])),
        }
    }
}

/// Whether this word names the server of `call` or `bench`: a `--`, or an option for a server that already runs.
fn names_server(word: &OsStr) -> bool {
    let Some(word) = word.to_str() else { return false };
    let option = word.split_once('=').map_or(word, |(option, _)| option);
    matches!(option, "--" | "--url" | "--connect")
}

/// The indices of the words that are neither options nor their values. Ends at a `--` and at an unknown option, which
/// the parser will report.
struct PlainWords<'a> {
    words: &'a [OsString],
    verb: &'a Command,
    next: usize,
}

impl Iterator for PlainWords<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        loop {
            let at = self.next;
            let word = self.words.get(at)?.as_encoded_bytes();
            self.next = at + 1;
            let takes_next = match word {
                b"--" => return None,
                [b'-', b'-', option @ ..] => {
                    let name = option.split(|byte| *byte == b'=').next().unwrap_or_default();
                    let arg = self.verb.get_arguments().find(|arg| has_long(arg, name))?;
                    takes_value(arg) && name.len() == option.len()
                }
                [b'-', flags @ ..] if !flags.is_empty() => self.last_flag_takes_value(flags)?,
                _ => return Some(at),
            };
            self.next += usize::from(takes_next);
        }
    }
}

impl PlainWords<'_> {
    /// Whether the value of the last of these one-letter options is the next word. `None` if there is no such option.
    fn last_flag_takes_value(&self, flags: &[u8]) -> Option<bool> {
        for (at, flag) in flags.iter().enumerate() {
            let arg = self.verb.get_arguments().find(|arg| arg.get_short() == Some(char::from(*flag)))?;
            if takes_value(arg) {
                // Letters after this one are its value.
                return Some(at + 1 == flags.len());
            }
        }
        Some(false)
    }
}

fn has_long(arg: &Arg, name: &[u8]) -> bool {
    let aliases = arg.get_all_aliases().unwrap_or_default();
    arg.get_long().into_iter().chain(aliases).any(|long| long.as_bytes() == name)
}

/// Whether an option is followed by its value, in the next word if not after a `=`.
fn takes_value(arg: &Arg) -> bool {
    arg.get_action().takes_values() && !arg.is_require_equals_set()
}

/// Whether the word is a program, and neither a capture nor another file that `check` reads.
fn is_program_not_capture(word: &OsStr) -> bool {
    match std::fs::metadata(word) {
        // On some file systems every file can be executed, so its content must be that of a program too.
        Ok(_) if is_path(word) => {
            platform::is_executable(Path::new(word)) && platform::has_program_code(Path::new(word))
        }
        Ok(_) => false,
        Err(_) => word != "-" && is_in_path(word),
    }
}

/// Whether the word is a program, and not an argument of a request.
fn is_program_not_argument(word: &OsStr) -> bool {
    let bytes = word.as_encoded_bytes();
    let is_argument = bytes.contains(&b'=') || matches!(bytes, [] | b"-" | [b'{' | b'[' | b'@', ..]);
    match is_path(word) {
        _ if is_argument => false,
        true => platform::is_executable(Path::new(word)),
        false => is_in_path(word),
    }
}

/// Whether a word is the path of a program, rather than a name to look up in `PATH`.
fn is_path(word: &OsStr) -> bool {
    word.to_string_lossy().contains(std::path::is_separator)
}

fn is_in_path(name: &OsStr) -> bool {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    !is_path(name) && std::env::split_paths(&folders).any(|folder| platform::is_executable(&folder.join(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words after `barewire`, with the `--` that was inserted.
    #[track_caller]
    fn check(words: &str, expected: &str) {
        let all = std::iter::once("barewire").chain(words.split(' ')).map(OsString::from).collect();
        let with = with_separator(all, &crate::command());
        let with: Vec<&str> = with.iter().skip(1).map(|word| word.to_str().expect("UTF-8")).collect();
        assert_eq!(with.join(" "), expected);
    }

    #[test]
    fn the_first_word_of_a_tap_is_its_program() {
        check("tap my-server --flag", "tap -- my-server --flag");
        check("tap --record x my-server --record y", "tap --record x -- my-server --record y");
        check("tap --record=x my-server -- --flag", "tap --record=x -- my-server -- --flag");
        check("tap --no-redact --overwrite --fault <:drop@3 s", "tap --no-redact --overwrite --fault <:drop@3 -- s");
        check("tap --log stderr -- s", "tap --log stderr -- s");
        check("tap --http 127.0.0.1:0 --to http://x/", "tap --http 127.0.0.1:0 --to http://x/");
        check("tap --recrod x s", "tap --recrod x s");
        check("tap --record", "tap --record");
    }

    #[test]
    fn the_word_after_the_capture_is_the_program_of_a_replay() {
        check("replay a.wire s --flag", "replay a.wire -- s --flag");
        check("replay --timeout 5s a.wire --json s -q", "replay --timeout 5s a.wire --json -- s -q");
        check("replay -q --serve a.wire", "replay -q --serve a.wire");
        check("replay a.wire --url http://x/", "replay a.wire --url http://x/");
    }

    #[test]
    fn a_program_in_the_path_needs_no_separator() {
        check("check sh -c x", "check -- sh -c x");
        check("check --fail-on high --json sh --json", "check --fail-on high --json -- sh --json");
        check("check -vq sh", "check -vq -- sh");
        check("check /bin/sh -v", "check -- /bin/sh -v");
        check("check no-such-program server.py --flag", "check -- no-such-program server.py --flag");
        check("call tools sh -c x", "call tools -- sh -c x");
        check("call echo a=sh {} @sh - /bin/sh a=1", "call echo a=sh {} @sh - -- /bin/sh a=1");
        check("call sh", "call sh");
        check("bench sh --count 3", "bench -- sh --count 3");
        check("bench -n 64 --count 3 add a=1 sh", "bench -n 64 --count 3 add a=1 -- sh");
        check("bench -n64 sh", "bench -n64 -- sh");
    }

    #[test]
    fn words_keep_the_meaning_that_they_have() {
        check("check Cargo.toml --json", "check Cargo.toml --json");
        check("check - -v", "check - -v");
        check("check no-such-program", "check no-such-program");
        check("check src", "check src");
        check("call tools sh --url http://x/", "call tools sh --url http://x/");
        check("call tools sh --connect=tcp:x:1", "call tools sh --connect=tcp:x:1");
        check("call tools sh -- server", "call tools sh -- server");
        check("bench sh --url=http://x/", "bench sh --url=http://x/");
        check("read sh", "read sh");
        check("attach sh sh", "attach sh sh");
        check("nothing sh", "nothing sh");
        check("--help", "--help");
    }
}
