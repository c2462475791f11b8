//! Text -> the places in it that may be the beginning or the name of a secret, in order.

use std::ffi::{OsStr, OsString};

use memchr::memchr3;
use memchr::memmem::Finder;

use super::names::{self, NameContext};
use super::view::{Found, View};
use super::words::is_everywhere;

/// What to look for in any text: a few signs and letters that are quickly found, and the secrets that are known as they are.
pub(crate) struct Detector {
    known: Vec<Finder<'static>>,
    schemes: [Finder<'static>; 2],
}

/// A place that may be the beginning or the name of a secret.
#[derive(Clone, Copy)]
pub(super) struct Hit {
    pub(super) at: usize,
    what: What,
}

#[derive(Clone, Copy)]
enum What {
    /// `:` or `=`, or the `%` of one in a URL within a URL.
    Separator,
    /// `-`, `_` or `.`: behind the beginning of a token, of an option, or of a private key.
    Dash,
    /// `A`, `B` or `J`: in the beginning of an access key, of `Bearer` and `Basic`, or of `eyJ`, which is what a JSON object
    /// begins with in Base64.
    Capital,
    /// `bearer` or `basic`; in capitals they begin with one.
    Scheme(usize),
    Known(usize),
}

impl Detector {
    /// One that knows the secrets in our own environment, which a program that is started has as well; and these.
    pub(crate) fn new(more: impl IntoIterator<Item = Vec<u8>>) -> Self {
        Self::knowing(std::env::vars_os(), more)
    }

    pub(super) fn knowing(
        env: impl Iterator<Item = (OsString, OsString)>,
        more: impl IntoIterator<Item = Vec<u8>>,
    ) -> Self {
        let secret = |name: &OsStr| names::secret(name.as_encoded_bytes(), NameContext::Assigned);
        let of_env = env.filter_map(|(name, value)| {
            let (secret, value) = (secret(&name)?, value.into_encoded_bytes());
            (secret.fits(&value, NameContext::Assigned) && !is_everywhere(&value)).then_some(value)
        });
        let known = more
            .into_iter()
            .chain(of_env)
            // What is short stands anywhere by chance.
            .filter(|value| (LEAST_KNOWN..=MOST_KNOWN).contains(&value.len()))
            .take(MOST_VARIABLES)
            .flat_map(written);
        let schemes = ["bearer", "basic"].map(Finder::new);
        Self { known: known.map(|text| Finder::new(&text).into_owned()).collect(), schemes }
    }

    /// Whether nothing in a text, which is whole, is a secret.
    pub(super) fn finds_nothing(&self, text: &[u8]) -> bool {
        let mut hits = self.through(text);
        while let Some(hit) = hits.next(0) {
            if hits.examine(hit, 0, false) != Found::Nothing {
                return false;
            }
        }
        true
    }

    /// How much at the end of a text is the beginning of a known secret.
    pub(super) fn begun(&self, text: &[u8]) -> usize {
        let begun = |known: &[u8]| {
            let most = known.len().min(text.len());
            (LEAST_BEGUN..=most).rev().find(|length| text.ends_with(&known[..*length]))
        };
        self.known.iter().filter_map(|finder| begun(finder.needle())).max().unwrap_or(0)
    }

    /// How much must stand behind a place so that no word which begins there can be overlooked.
    pub(super) fn ahead(&self) -> usize {
        self.known.iter().map(|finder| finder.needle().len()).max().unwrap_or(0).max(LONGEST_WORD)
    }

    /// Looks through a text.
    pub(super) fn through<'a>(&'a self, text: &'a [u8]) -> Hits<'a> {
        let signs = [What::Separator, What::Dash, What::Capital, What::Scheme(0), What::Scheme(1)];
        let sources = signs.into_iter().chain((0..self.known.len()).map(What::Known));
        let next = sources.map(|what| Source { what, hit: None, searched: 0 }).collect();
        Hits { detector: self, text, next }
    }
}

/// The hits in a text, in order.
pub(super) struct Hits<'a> {
    detector: &'a Detector,
    text: &'a [u8],
    next: Vec<Source>,
}

/// The hits of one kind.
struct Source {
    what: What,
    /// The next one, if it was looked for.
    hit: Option<usize>,
    /// Nothing is left before here. Past the end if nothing is left at all.
    searched: usize,
}

impl Hits<'_> {
    /// The next one that begins at `from` or behind it.
    pub(super) fn next(&mut self, from: usize) -> Option<Hit> {
        let text = self.text;
        let mut first: Option<(usize, &mut Source)> = None;
        for source in &mut self.next {
            if source.hit.is_none_or(|at| at < from) {
                source.searched = source.searched.max(from);
                let Some(rest) = text.get(source.searched..) else { continue };
                let found = match source.what {
                    What::Separator => memchr3(b':', b'=', b'%', rest),
                    What::Dash => memchr3(b'-', b'_', b'.', rest),
                    What::Capital => memchr3(b'A', b'B', b'J', rest),
                    What::Scheme(index) => self.detector.schemes[index].find(rest),
                    What::Known(index) => self.detector.known[index].find(rest),
                };
                source.hit = found.map(|at| source.searched + at);
                source.searched = source.hit.unwrap_or(usize::MAX - 1) + 1;
            }
            if let Some(at) = source.hit
                && first.as_ref().is_none_or(|(best, _)| at < *best)
            {
                first = Some((at, source));
            }
        }
        first.map(|(at, source)| {
            source.hit = None;
            Hit { at, what: source.what }
        })
    }

    /// What is there. Nothing before `floor` is looked at; `more` says that the text goes on.
    pub(super) fn examine(&self, hit: Hit, floor: usize, more: bool) -> Found {
        let view = View { text: self.text, floor, more };
        match hit.what {
            What::Separator => view.separator(hit.at),
            What::Dash => view.dash(hit.at),
            What::Capital => view.capital(hit.at),
            What::Scheme(_) => view.scheme(hit.at),
            What::Known(index) => {
                let length = self.detector.known[index].needle().len();
                Found::whole(hit.at, hit.at + length, super::SecretKind::Known)
            }
        }
    }

    /// What is there, where it is known that the value behind this colon is a secret.
    pub(super) fn examine_value(&self, hit: Hit, floor: usize, more: bool) -> Found {
        View { text: self.text, floor, more }.secret_value(hit.at)
    }
}

/// All ways in which a secret is written: as it is, in strings of JSON in each other, and in a URL. Most have only one.
fn written(value: Vec<u8>) -> Vec<Vec<u8>> {
    let escaped = |text: &Vec<u8>| {
        let quoted = serde_json::Value::from(String::from_utf8_lossy(text)).to_string();
        Some(quoted.as_bytes()[1..quoted.len() - 1].to_vec())
    };
    let mut ways: Vec<Vec<u8>> = std::iter::successors(Some(value.clone()), escaped).take(DEEPEST).collect();
    // A program leaves as they are those signs that its language does; forms have a plus for a space.
    for (kept, space) in [("-_.~", "%20"), ("-_.~/", "%20"), ("-_.~!*'()", "%20"), ("-_.~", "+"), ("-_.*", "+")] {
        let encode = |byte: &u8| match byte {
            b' ' => space.to_owned(),
            byte if byte.is_ascii_alphanumeric() || kept.as_bytes().contains(byte) => char::from(*byte).into(),
            byte => format!("%{byte:02X}"),
        };
        ways.push(value.iter().map(encode).collect::<String>().into_bytes());
    }
    ways.sort_unstable();
    ways.dedup();
    ways
}

/// The shortest secret that is looked for everywhere: a shorter one stands anywhere by chance.
const LEAST_KNOWN: usize = 8;

/// Of less, nobody learns anything.
const LEAST_BEGUN: usize = 4;

/// The longest one: as much, and what escapes it, has to be held back of every piece.
const MOST_KNOWN: usize = 4 * 1024;

/// A message, JSON in it, and JSON in that.
const DEEPEST: usize = 4;

/// Every one of them is looked for in every line.
const MOST_VARIABLES: usize = 64;

/// `Bearer `, and what stands behind the first dash of a private key's head.
const LONGEST_WORD: usize = 8;
