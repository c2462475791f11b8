//! Finds the places in a text that may be the start or the name of a secret, in order.

use std::ffi::{OsStr, OsString};

use memchr::memchr3;
use memchr::memmem::Finder;

use super::names::{self, NameContext};
use super::view::{SecretMatch, TextView};
use super::words::is_common_text;

/// Searches texts for a few characters and words that are near most secrets, and for secrets whose values are known.
pub(crate) struct Detector {
    known: Vec<Finder<'static>>,
    schemes: [Finder<'static>; 2],
}

/// A place that may be the start or the name of a secret.
#[derive(Clone, Copy)]
pub(super) struct Hit {
    pub(super) at: usize,
    kind: HitKind,
}

/// The character or word that was found.
#[derive(Clone, Copy)]
enum HitKind {
    /// `:` or `=`, or the `%` of an encoded `:` or `=` in a URL within a URL.
    Separator,
    /// `-`, `_` or `.`: may end the prefix of a token, or be part of an option or of the first line of a private key.
    Dash,
    /// `A`, `B` or `J`: may be in the prefix of an access key, in `Bearer` or `Basic`, or in `eyJ`, the start of a JSON
    /// object in Base64.
    Capital,
    /// `bearer` or `basic` in lower case. The capitalized words are found by their capital letter.
    Scheme(usize),
    /// A secret whose value is known.
    Known(usize),
}

impl Detector {
    /// Creates a detector that knows the values in `more` and the secrets in our environment variables, which the
    /// programs that we start inherit.
    pub(crate) fn new(more: impl IntoIterator<Item = Vec<u8>>) -> Self {
        Self::knowing(std::env::vars_os(), more)
    }

    pub(super) fn knowing(
        env: impl Iterator<Item = (OsString, OsString)>,
        more: impl IntoIterator<Item = Vec<u8>>,
    ) -> Self {
        let secret = |name: &OsStr| names::secret_class(name.as_encoded_bytes(), NameContext::Assigned);
        let of_env = env.filter_map(|(name, value)| {
            let (secret, value) = (secret(&name)?, value.into_encoded_bytes());
            (secret.fits(&value, NameContext::Assigned) && !is_common_text(&value)).then_some(value)
        });
        let known = more
            .into_iter()
            .chain(of_env)
            .filter(|value| (MIN_KNOWN_LENGTH..=MAX_KNOWN_LENGTH).contains(&value.len()))
            .take(MAX_KNOWN_SECRETS)
            .flat_map(spellings);
        let schemes = ["bearer", "basic"].map(Finder::new);
        Self { known: known.map(|text| Finder::new(&text).into_owned()).collect(), schemes }
    }

    /// Whether a complete text contains no secret.
    pub(super) fn finds_nothing(&self, text: &[u8]) -> bool {
        let mut hits = self.hits(text);
        while let Some(hit) = hits.next(0) {
            if hits.examine(hit, 0, false) != SecretMatch::Nothing {
                return false;
            }
        }
        true
    }

    /// Returns the length of the longest prefix of a known secret that the text ends with.
    pub(super) fn known_prefix_length(&self, text: &[u8]) -> usize {
        let length = |known: &[u8]| {
            let most = known.len().min(text.len());
            (MIN_KNOWN_PREFIX..=most).rev().find(|length| text.ends_with(&known[..*length]))
        };
        self.known.iter().filter_map(|finder| length(finder.needle())).max().unwrap_or(0)
    }

    /// Returns the number of bytes that must follow a place so that every keyword and known secret beginning there can
    /// be recognized.
    pub(super) fn lookahead(&self) -> usize {
        self.known.iter().map(|finder| finder.needle().len()).max().unwrap_or(0).max(MAX_KEYWORD)
    }

    pub(super) fn hits<'a>(&'a self, text: &'a [u8]) -> Hits<'a> {
        let signs = [HitKind::Separator, HitKind::Dash, HitKind::Capital, HitKind::Scheme(0), HitKind::Scheme(1)];
        let sources = signs.into_iter().chain((0..self.known.len()).map(HitKind::Known));
        let sources = sources.map(|kind| HitSource { kind, hit: None, searched: 0 }).collect();
        Hits { detector: self, text, sources }
    }
}

pub(super) struct Hits<'a> {
    detector: &'a Detector,
    text: &'a [u8],
    sources: Vec<HitSource>,
}

struct HitSource {
    kind: HitKind,
    /// The offset of the next hit, if it is already known.
    hit: Option<usize>,
    /// The offset up to which the text was searched; past the end if no hit is left.
    searched: usize,
}

impl Hits<'_> {
    /// Returns the next hit at or after `from`.
    pub(super) fn next(&mut self, from: usize) -> Option<Hit> {
        let text = self.text;
        let mut first: Option<(usize, &mut HitSource)> = None;
        for source in &mut self.sources {
            if source.hit.is_none_or(|at| at < from) {
                source.searched = source.searched.max(from);
                let Some(rest) = text.get(source.searched..) else { continue };
                let found = match source.kind {
                    HitKind::Separator => memchr3(b':', b'=', b'%', rest),
                    HitKind::Dash => memchr3(b'-', b'_', b'.', rest),
                    HitKind::Capital => memchr3(b'A', b'B', b'J', rest),
                    HitKind::Scheme(index) => self.detector.schemes[index].find(rest),
                    HitKind::Known(index) => self.detector.known[index].find(rest),
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
            Hit { at, kind: source.kind }
        })
    }

    /// Examines a hit. The text before `floor` is not read. `more` means that the text is not complete.
    pub(super) fn examine(&self, hit: Hit, floor: usize, more: bool) -> SecretMatch {
        let view = TextView { text: self.text, floor, more };
        match hit.kind {
            HitKind::Separator => view.separator(hit.at),
            HitKind::Dash => view.dash(hit.at),
            HitKind::Capital => view.capital(hit.at),
            HitKind::Scheme(_) => view.scheme(hit.at),
            HitKind::Known(index) => {
                let length = self.detector.known[index].needle().len();
                SecretMatch::whole(hit.at, hit.at + length, super::SecretKind::Known)
            }
        }
    }

    /// Examines the colon of a member whose value is known to be a secret.
    pub(super) fn examine_value(&self, hit: Hit, floor: usize, more: bool) -> SecretMatch {
        TextView { text: self.text, floor, more }.secret_value(hit.at)
    }
}

/// Returns all spellings of a secret: plain, escaped in nested JSON strings, and encoded in a URL. Most secrets have
/// only one spelling.
fn spellings(value: Vec<u8>) -> Vec<Vec<u8>> {
    let escaped = |text: &Vec<u8>| {
        let quoted = serde_json::Value::from(String::from_utf8_lossy(text)).to_string();
        Some(quoted.as_bytes()[1..quoted.len() - 1].to_vec())
    };
    let mut ways: Vec<Vec<u8>> = std::iter::successors(Some(value.clone()), escaped).take(MAX_JSON_DEPTH).collect();
    // Programming languages leave different characters unencoded, and forms encode a space as a plus.
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

/// The minimum length of a known secret: shorter texts occur by chance.
const MIN_KNOWN_LENGTH: usize = 8;

/// The minimum length of a known secret's prefix that is replaced: a shorter prefix reveals nothing.
const MIN_KNOWN_PREFIX: usize = 4;

/// The maximum length of a known secret: this many bytes, plus escapes, must be held back from every piece.
const MAX_KNOWN_LENGTH: usize = 4 * 1024;

/// The maximum nesting of JSON: a message, JSON in one of its strings, JSON in a string of that JSON, and so on.
const MAX_JSON_DEPTH: usize = 4;

/// The maximum number of known secrets, because each of them is searched for in every line.
const MAX_KNOWN_SECRETS: usize = 64;

/// The length of the longest keyword that decides about a hit: `Bearer `, or the text after the first dash in the first
/// line of a private key.
const MAX_KEYWORD: usize = 8;
