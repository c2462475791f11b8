//! Finds the places in a text that may be the start or the name of a secret, in order.
//!
//! A text is read as words and signs, in one pass: each sign that may separate a name from its value is a hit, and each
//! word that may begin with a keyword. Keywords are the prefixes of tokens and a few words before secrets. Almost all
//! words are rejected by their first three bytes.

use std::ffi::{OsStr, OsString};

use memchr::memmem::Finder;

use super::decode::PlainText;
use super::formats::TOKEN_FORMATS;
use super::names::{self, NameContext};
use super::view::{SecretMatch, TextView};
use super::words::is_common_text;

/// Searches texts for places that may be secrets, and for secrets whose values are known.
pub(crate) struct Detector {
    known: Vec<Finder<'static>>,
}

/// A place that may be the start or the name of a secret.
#[derive(Clone, Copy)]
pub(super) struct Hit {
    pub(super) at: usize,
    kind: HitKind,
}

#[derive(Clone, Copy)]
enum HitKind {
    Sign,
    /// A word that may begin with a keyword.
    Word,
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
        Self { known: known.map(|text| Finder::new(&text).into_owned()).collect() }
    }

    /// Whether a complete text contains no secret.
    pub(super) fn finds_nothing(&self, text: &[u8]) -> bool {
        let plain = PlainText::decode(text, true);
        let mut hits = self.hits(&plain);
        while let Some(hit) = hits.next(0, 0) {
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

    pub(super) fn hits<'a>(&'a self, plain: &'a PlainText<'a>) -> Hits<'a> {
        let known = self.known.iter().map(|_| KnownSearch { hit: None, searched: 0 }).collect();
        Hits { detector: self, plain, text: &plain.text, searched: 0, hit: None, known }
    }
}

pub(super) struct Hits<'a> {
    detector: &'a Detector,
    plain: &'a PlainText<'a>,
    text: &'a [u8],
    /// The offset up to which the text was searched for signs and words.
    searched: usize,
    /// The next sign or word, if it was found but not returned because a known secret comes before it.
    hit: Option<Hit>,
    known: Vec<KnownSearch>,
}

struct KnownSearch {
    /// The offset of the next known secret, if it was already found.
    hit: Option<usize>,
    /// The offset up to which the text was searched; past the end if no known secret is left.
    searched: usize,
}

impl Hits<'_> {
    /// Returns the next hit at or after `from`. The text before `floor` does not belong to a word at `floor`.
    pub(super) fn next(&mut self, from: usize, floor: usize) -> Option<Hit> {
        if self.hit.is_none_or(|hit| hit.at < from) {
            self.searched = self.searched.max(from);
            self.hit = self.next_sign_or_word(floor);
        }
        let text = self.text;
        let mut first = self.hit;
        for (index, search) in self.known.iter_mut().enumerate() {
            if search.hit.is_none_or(|at| at < from) {
                search.searched = search.searched.max(from);
                let Some(rest) = text.get(search.searched..) else { continue };
                search.hit = self.detector.known[index].find(rest).map(|at| search.searched + at);
                search.searched = search.hit.unwrap_or(usize::MAX - 1) + 1;
            }
            if let Some(at) = search.hit
                && first.is_none_or(|first| at < first.at)
            {
                first = Some(Hit { at, kind: HitKind::Known(index) });
            }
        }
        match first?.kind {
            HitKind::Known(index) => self.known[index].hit = None,
            HitKind::Sign | HitKind::Word => self.hit = None,
        }
        first
    }

    fn next_sign_or_word(&mut self, floor: usize) -> Option<Hit> {
        let text = self.text;
        let mut at = self.searched;
        while let Some(byte) = text.get(at) {
            match BYTES[usize::from(*byte)] {
                ByteKind::Other => at += 1,
                ByteKind::Sign if is_after_harmless_string(text, at, floor) => at += 1,
                ByteKind::Sign => {
                    self.searched = at + 1;
                    return Some(Hit { at, kind: HitKind::Sign });
                }
                ByteKind::Word => {
                    let is_inside = at > floor && is_word(text[at - 1]);
                    if !is_inside && may_begin_keyword(&text[at..]) {
                        self.searched = at + 1;
                        return Some(Hit { at, kind: HitKind::Word });
                    }
                    let rest = &text[at..];
                    at += rest.iter().position(|byte| !is_word(*byte)).unwrap_or(rest.len());
                }
            }
        }
        self.searched = at;
        None
    }

    pub(super) fn view(&self, floor: usize, more: bool) -> TextView<'_> {
        TextView { plain: self.plain, text: self.text, floor, more }
    }

    /// Examines a hit. The text before `floor` is not read. `more` means that the text is not complete.
    pub(super) fn examine(&self, hit: Hit, floor: usize, more: bool) -> SecretMatch {
        let view = self.view(floor, more);
        match hit.kind {
            HitKind::Sign => view.sign(hit.at),
            HitKind::Word => view.word(hit.at),
            HitKind::Known(index) => {
                let length = self.detector.known[index].needle().len();
                SecretMatch::whole(hit.at, hit.at + length, super::SecretKind::Known)
            }
        }
    }
}

/// A word that is examined for another reason than a token's prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WordRule {
    /// The index of a token format.
    Format(usize),
    Scheme,
    Option,
    Jwt,
    PemHeader,
    BotToken,
    /// `password` in a netrc file.
    Netrc,
    /// A command that is followed by a name and a value.
    Setter,
    /// `-u user:password`.
    UserOption,
    /// `user:password@tcp(…)`.
    NetworkAddress,
    /// `jdbc:oracle:thin:user/password@…`.
    OracleAddress,
    /// `sshpass -p password`.
    ShellPassword,
    /// `mysql -ppassword`.
    ClientPassword,
}

/// Returns the rules whose keyword begins this text, longest keyword first.
pub(super) fn rules(text: &[u8]) -> impl Iterator<Item = (WordRule, usize)> {
    let mut found: Vec<(WordRule, usize)> = Vec::new();
    let mut groups = keyword_groups(text);
    while groups != 0 {
        let group = groups.trailing_zeros() as usize;
        groups &= groups - 1;
        for index in (group..KEYWORD_COUNT).step_by(GROUPS) {
            let (keyword, rule) = keyword(index);
            let is_any_case = rule == WordRule::Scheme;
            if text[1] != keyword.as_bytes()[1] && !is_any_case {
                continue;
            }
            let begin = text.get(..keyword.len());
            if begin.is_some_and(|it| {
                it == keyword.as_bytes() || is_any_case && it.eq_ignore_ascii_case(keyword.as_bytes())
            }) {
                found.push((rule, keyword.len()));
            }
        }
    }
    found.sort_by_key(|(_, length)| std::cmp::Reverse(*length));
    found.into_iter()
}

/// Whether a keyword may begin this text. This quick test reads three bytes, and fails for almost every word.
fn may_begin_keyword(text: &[u8]) -> bool {
    match text {
        [first, second, third, ..] => {
            let hash = hash(*first, *second, *third);
            KEYWORD_HASHES[hash / 64] >> (hash % 64) & 1 != 0
        }
        _ => false,
    }
}

/// Returns the groups of keywords that may begin this text, as bits.
fn keyword_groups(text: &[u8]) -> u64 {
    match text {
        [first, second, third, ..] => {
            let [firsts, seconds, thirds] = &KEYWORD_BYTES;
            firsts[usize::from(*first)] & seconds[usize::from(*second)] & thirds[usize::from(*third)]
        }
        _ => 0,
    }
}

const fn keyword(index: usize) -> (&'static str, WordRule) {
    match index.checked_sub(TOKEN_FORMATS.len()) {
        None => (TOKEN_FORMATS[index].begins, WordRule::Format(index)),
        Some(index) => WORDS[index],
    }
}

/// The keywords that are no prefix of a token.
#[rustfmt::skip] // a table
const WORDS: &[(&str, WordRule)] = &[
    ("bearer", WordRule::Scheme), ("basic", WordRule::Scheme), ("--", WordRule::Option), ("eyJ", WordRule::Jwt),
    ("-----BEGIN ", WordRule::PemHeader), ("password", WordRule::Netrc), ("setenv ", WordRule::Setter),
    ("setx ", WordRule::Setter), ("set -", WordRule::Setter), ("ENV ", WordRule::Setter), ("ARG ", WordRule::Setter),
    ("configure set ", WordRule::Setter), ("-u ", WordRule::UserOption),
    ("tcp(", WordRule::NetworkAddress), ("unix(", WordRule::NetworkAddress),
    ("thin:", WordRule::OracleAddress), ("oci:", WordRule::OracleAddress), ("sshpass -p ", WordRule::ShellPassword),
    ("mysql", WordRule::ClientPassword), ("mariadb", WordRule::ClientPassword),
    // The first bytes of a number in Base64: the id of a bot.
    ("MT", WordRule::BotToken), ("Mz", WordRule::BotToken), ("Mj", WordRule::BotToken), ("ND", WordRule::BotToken),
    ("NT", WordRule::BotToken), ("Nj", WordRule::BotToken), ("Nz", WordRule::BotToken), ("OD", WordRule::BotToken),
    ("OT", WordRule::BotToken), ("MD", WordRule::BotToken),
];

const KEYWORD_COUNT: usize = TOKEN_FORMATS.len() + WORDS.len();

/// The number of groups: one for each bit of a word.
const GROUPS: usize = u64::BITS as usize;

/// For each of the first three bytes of a keyword, the groups that have the byte there.
static KEYWORD_BYTES: [[u64; 256]; 3] = {
    let (mut bytes, mut index) = ([[0; 256]; 3], 0);
    while index < KEYWORD_COUNT {
        let (keyword, rule) = keyword(index);
        let (keyword, group) = (keyword.as_bytes(), 1 << (index % GROUPS));
        let mut place = 0;
        while place < 3 {
            if place < keyword.len() {
                bytes[place][keyword[place] as usize] |= group;
                if let WordRule::Scheme = rule {
                    bytes[place][keyword[place].to_ascii_uppercase() as usize] |= group;
                }
            } else {
                let mut byte = 0;
                while byte < 256 {
                    bytes[place][byte] |= group;
                    byte += 1;
                }
            }
            place += 1;
        }
        index += 1;
    }
    bytes
};

/// A bit for each hash of the first three bytes of a keyword.
static KEYWORD_HASHES: [u64; HASHES / 64] = {
    let (mut hashes, mut index) = ([0; HASHES / 64], 0);
    while index < KEYWORD_COUNT {
        let (keyword, rule) = keyword(index);
        let keyword = keyword.as_bytes();
        // Every spelling of a scheme, and every third byte after a keyword of two bytes.
        let (mut case, mut third) = (0, 0_u8);
        loop {
            let mut begin = [keyword[0], keyword[1], if keyword.len() > 2 { keyword[2] } else { third }];
            let mut place = 0;
            while place < 3 {
                if case >> place & 1 != 0 {
                    begin[place] = begin[place].to_ascii_uppercase();
                }
                place += 1;
            }
            let hash = hash(begin[0], begin[1], begin[2]);
            hashes[hash / 64] |= 1 << (hash % 64);
            if let (WordRule::Scheme, 0..7) = (rule, case) {
                case += 1;
            } else if keyword.len() == 2 && third < u8::MAX {
                third += 1;
                // A word follows.
                while third < u8::MAX && !third.is_ascii_alphanumeric() {
                    third += 1;
                }
            } else {
                break;
            }
        }
        index += 1;
    }
    hashes
};

/// The number of hashes: about thirty times the number of beginnings of keywords.
const HASHES: usize = 1 << 15;

const fn hash(first: u8, second: u8, third: u8) -> usize {
    let bytes = u32::from_le_bytes([first, second, third, 0]);
    (bytes.wrapping_mul(0x9e37_79b1) >> (32 - HASHES.trailing_zeros())) as usize
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ByteKind {
    Other,
    /// `:` and `=`, the `%` of an encoded `:` or `=` in a URL within a URL, the `,` between a name and its value in a
    /// list, the `>` of an XML element, the `~` and `|` in tokens of some services, and the `$` of a password's hash.
    Sign,
    Word,
}

static BYTES: [ByteKind; 256] = {
    let (mut bytes, mut byte) = ([ByteKind::Other; 256], 0_u8);
    loop {
        bytes[byte as usize] = match byte {
            b':' | b'=' | b'%' | b',' | b'>' | b'~' | b'|' | b'$' => ByteKind::Sign,
            b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | b'_' | b'-' => ByteKind::Word,
            _ => ByteKind::Other,
        };
        if byte == u8::MAX {
            break bytes;
        }
        byte += 1;
    }
};

/// Whether the sign at `at` follows a string that is no secret name, as in `"method":` and `"text",`. Most signs of a
/// message do, and this test reads five bytes.
fn is_after_harmless_string(text: &[u8], at: usize, floor: usize) -> bool {
    let [.., first, second, b'"'] = &text[floor.min(at)..at] else { return false };
    let is_separator = match text[at] {
        b',' => true,
        b':' => text.get(at + 1).is_some_and(|next| *next != b'/'),
        _ => false,
    };
    is_separator && !names::may_be_secret(&[*first, *second])
}

fn is_word(byte: u8) -> bool {
    BYTES[usize::from(byte)] == ByteKind::Word
}

/// Returns all spellings of a secret in a plain text: as it is, and encoded in a URL. Most secrets have only one
/// spelling.
fn spellings(value: Vec<u8>) -> Vec<Vec<u8>> {
    // A backslash in the secret may look like an escape, in the secret and in the text alike.
    let mut ways: Vec<Vec<u8>> = vec![PlainText::decode(&value, true).text.into_owned()];
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

/// The maximum number of known secrets, because each of them is searched for in every line.
const MAX_KNOWN_SECRETS: usize = 64;

/// The length of the longest keyword: `access_token$production$`.
pub(super) const MAX_KEYWORD: usize = 24;
