//! Finds secrets by their shape: a token, a private key, a password in a URL or in an address.

use memchr::{memchr, memchr_iter, memrchr};

use super::SecretKind;
use super::ending::SecretEnd;
use super::formats::{FormatMatch, TOKEN_FORMATS, TokenFormat};
use super::hits::{WordRule, rules};
use super::shapes::{
    self, APPLICATION_TOKEN, AZURE, BASIC, BEARER, BOT_TOKEN, JWT, MAX_SCHEME, PASSWORD_IN_URL, PRIVATE_KEY, WEBHOOK,
    is_base64, is_key, is_token, looks_random, separates,
};
use super::view::{AfterSecret, MAX_RUN, SecretMatch, TextView};

impl TextView<'_> {
    /// Examines a word that may begin with a keyword.
    pub(super) fn word(&self, at: usize) -> SecretMatch {
        for (rule, length) in rules(&self.text[at..]) {
            let behind = at + length;
            let found = match rule {
                WordRule::Format(index) => self.format(at, &TOKEN_FORMATS[index]),
                WordRule::Scheme => self.scheme(at),
                WordRule::Option => self.option(at + 1),
                WordRule::Jwt => self.jwt(at),
                WordRule::PemHeader => self.private_key(behind),
                WordRule::BotToken => self.bot_token(at),
                WordRule::Netrc => self.netrc(at, behind),
                WordRule::Setter => self.setter(behind),
                WordRule::UserOption => self.user_option(behind),
                WordRule::NetworkAddress => self.network_address(at),
                WordRule::OracleAddress => self.oracle_address(behind),
                WordRule::ShellPassword => self.shell_password(behind),
                WordRule::ClientPassword => self.client_password(behind),
            };
            if found != SecretMatch::Nothing {
                return found;
            }
        }
        SecretMatch::Nothing
    }

    /// Examines a possible token of this format that begins at `start`.
    fn format(&self, start: usize, format: &TokenFormat) -> SecretMatch {
        if self.is_in_base64(start) {
            return SecretMatch::Nothing;
        }
        let body = start + format.begins.len();
        match format.read(&self.text[body..], self.more) {
            FormatMatch::No => SecretMatch::Nothing,
            FormatMatch::Wait => SecretMatch::Wait,
            FormatMatch::Fits(length) if length >= MAX_RUN => {
                let (ending, after) = (SecretEnd::Separator, AfterSecret::Nothing);
                SecretMatch::Open { start, ending, after, kind: format.kind() }
            }
            FormatMatch::Fits(length) => {
                // The first part of a token of Terraform is before its keyword.
                let before =
                    if format.begins == "atlasv1." { self.back(start, 16, |b| is_key(b) || b == b'.') } else { start };
                SecretMatch::whole(before, body + length, format.kind())
            }
        }
    }

    fn jwt(&self, at: usize) -> SecretMatch {
        if self.is_in_base64(at) {
            return SecretMatch::Nothing;
        }
        let dots = |run: &[u8]| run.len() >= 30 && memchr_iter(b'.', run).count() >= 2;
        self.run(at, |b| is_key(b) || b == b'.', dots, |start, end| SecretMatch::whole(start, end, JWT))
    }

    /// Examines `ID.TIME.HMAC`, the token of a bot: the id is a number in Base64.
    fn bot_token(&self, at: usize) -> SecretMatch {
        let is_one = |run: &[u8]| {
            let mut parts = run.split(|b| *b == b'.').map(<[u8]>::len);
            let lengths = (parts.next(), parts.next(), parts.next(), parts.next());
            matches!(lengths, (Some(22..=28), Some(6..=7), Some(27..=42), None))
        };
        self.run(at, |b| is_key(b) || b == b'.', is_one, |start, end| SecretMatch::whole(start, end, BOT_TOKEN))
    }

    /// Examines `-----BEGIN … PRIVATE KEY-----` from after its first space.
    fn private_key(&self, behind: usize) -> SecretMatch {
        let end = self.skip(behind, MAX_PEM_HEAD, |b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b' ');
        let start = self.skip(end, 5, |b| b == b'-');
        if start >= self.text.len() && self.more && start - behind < MAX_PEM_HEAD {
            return SecretMatch::Wait;
        }
        let head = &self.text[behind..end];
        if !(head.ends_with(b"PRIVATE KEY") || head.ends_with(b"PRIVATE KEY BLOCK")) || start - end < 5 {
            return SecretMatch::Nothing;
        }
        let word = self.gap(start);
        let length = self.skip(word, MIN_KEY_WORD, is_base64) - word;
        // In prose, a few words follow the header.
        if word > start && length < MIN_KEY_WORD && word + length < self.text.len() {
            return SecretMatch::Nothing;
        }
        if word + length >= self.text.len() && self.more && length < MIN_KEY_WORD && word > start {
            return SecretMatch::Wait;
        }
        SecretMatch::Open { start, ending: SecretEnd::Pem, after: AfterSecret::KeyLine, kind: PRIVATE_KEY }
    }

    /// Examines `Bearer …` and `Basic …`, in upper or lower case. An unusual spelling may begin prose, so then the
    /// token must look more random.
    fn scheme(&self, at: usize) -> SecretMatch {
        let rest = &self.text[at..];
        let is_bearer = matches!(rest[1], b'e' | b'E');
        let end = at + if is_bearer { b"bearer".len() } else { b"basic".len() };
        let start = self.gap(end);
        if start == end && start < self.text.len() {
            return SecretMatch::Nothing;
        }
        if !is_bearer {
            return self.run(start, is_token, shapes::is_basic, |start, end| SecretMatch::whole(start, end, BASIC));
        }
        let is_usual = rest.starts_with(b"Bearer");
        let random = |run: &[u8]| match is_usual {
            true => run.len() >= 24 || looks_random(run),
            false => shapes::has_random_word(run),
        };
        self.run(start, is_token, random, |start, end| SecretMatch::whole(start, end, BEARER))
    }

    /// Examines `$id$…`, the hash of a password as in `/etc/shadow`, an htpasswd file or a table of users.
    pub(super) fn password_hash(&self, at: usize) -> SecretMatch {
        let id = self.skip(at + 1, MAX_HASH_ID, |b| b.is_ascii_alphanumeric() || b == b'-');
        if id >= self.text.len() {
            return self.wait();
        }
        if self.text[id] != b'$' || !HASH_IDS.contains(&&self.text[at + 1..id]) {
            return SecretMatch::Nothing;
        }
        let part = |b: u8| is_base64(b) || matches!(b, b'$' | b'.' | b',' | b'-' | b'_');
        let is_hash = |run: &[u8]| run.len() >= MIN_HASH;
        self.run(at, part, is_hash, |start, end| SecretMatch::whole(start, end, shapes::PASSWORD_HASH))
    }

    /// Returns the start of a URL's authority if two slashes begin at `at`.
    pub(super) fn authority(&self, at: usize) -> Option<usize> {
        self.text.get(at..)?.starts_with(b"//").then_some(at + 2)
    }

    /// Examines `user:password@` in a URL, and the secret path of a webhook. A user name without a password is a secret
    /// only if it looks like a token.
    pub(super) fn url(&self, start: usize) -> SecretMatch {
        let is_part = |b: u8| b != b'"' && b > b' ';
        let is_authority = |b: u8| is_part(b) && !matches!(b, b'/' | b'?' | b'#' | b'\\');
        let end = self.skip(start, MAX_RUN, is_authority);
        if end >= self.text.len() && self.more && end - start < MAX_RUN {
            return SecretMatch::Wait;
        }
        let mut url = &self.text[start..end];
        let host = WEBHOOKS.iter().any(|(host, _)| url.ends_with(host));
        // The password of a database may contain a slash that is not encoded.
        let scheme = &self.text[self.back(start - 3, MAX_SCHEME, is_key)..start - 3];
        let is_web = scheme.is_empty() || WEB_SCHEMES.contains(&scheme);
        let has_path = host || !is_web && memchr(b'@', url).is_none() && memchr(b':', url).is_some();
        if has_path {
            let whole = self.skip(start, MAX_URL, is_part);
            if whole >= self.text.len() && self.more && whole - start < MAX_URL {
                return SecretMatch::Wait;
            }
            url = &self.text[start..whole.max(end)];
            if let Some(secret) = webhook_secret(&self.text[start..end], &self.text[end..whole.max(end)]) {
                let until = self.skip(end + secret, MAX_URL, |b| !separates(b) && b != b'?');
                return SecretMatch::whole(end + secret, until, WEBHOOK);
            }
            if host {
                url = &self.text[start..end];
            }
            let last = url.iter().position(|b| matches!(b, b',' | b'\'' | b')')).unwrap_or(url.len());
            url = &url[..last];
        }
        let Some(at) = memrchr(b'@', url) else { return SecretMatch::Nothing };
        let from = match memchr(b':', &url[..at]) {
            Some(colon) => colon + 1,
            None if looks_random(&url[..at]) => 0,
            None => return SecretMatch::Nothing,
        };
        let value = &url[from..at];
        // In a list of hosts, the text after a colon is a port and the next host.
        let is_port = value.split(|b| *b == b',').next().is_some_and(|port| port.iter().all(u8::is_ascii_digit));
        if value.contains(&b',') && is_port || shapes::is_placeholder(value) || matches!(value[0], b'$' | b'{') {
            return SecretMatch::Nothing;
        }
        SecretMatch::whole(start + from, start + at, PASSWORD_IN_URL)
    }

    /// Examines `user:password@tcp(host)`, an address without a scheme.
    fn network_address(&self, at: usize) -> SecretMatch {
        if !self.text[self.floor..at].ends_with(b"@") {
            return SecretMatch::Nothing;
        }
        let start = self.back(at - 1, MAX_ADDRESS, |b| b > b' ' && !matches!(b, b'"' | b'\'' | b'='));
        match memchr(b':', &self.text[start..at - 1]) {
            Some(colon) if start + colon + 1 < at - 1 => SecretMatch::whole(start + colon + 1, at - 1, PASSWORD_IN_URL),
            _ => SecretMatch::Nothing,
        }
    }

    /// Examines `user/password@host`.
    fn oracle_address(&self, start: usize) -> SecretMatch {
        let end = self.skip(start, MAX_ADDRESS, |b| b > b' ' && !matches!(b, b'"' | b'\''));
        if end >= self.text.len() && self.more && end - start < MAX_ADDRESS {
            return SecretMatch::Wait;
        }
        let address = &self.text[start..end];
        match (memchr(b'/', address), memrchr(b'@', address)) {
            (Some(slash), Some(at)) if slash + 1 < at => {
                SecretMatch::whole(start + slash + 1, start + at, PASSWORD_IN_URL)
            }
            _ => SecretMatch::Nothing,
        }
    }

    /// Examines the `|` of `ID|TOKEN`, a token of an application of Facebook.
    pub(super) fn application_token(&self, at: usize) -> SecretMatch {
        let start = self.back(at, 18, is_key);
        let id = &self.text[start..at];
        if !(15..=16).contains(&id.len()) || !id.iter().all(u8::is_ascii_digit) {
            return SecretMatch::Nothing;
        }
        let is_one = |run: &[u8]| (27..=40).contains(&run.len()) && shapes::has_random_word(run);
        self.run(at + 1, is_key, is_one, |_, end| SecretMatch::whole(start, end, APPLICATION_TOKEN))
    }

    /// Examines the `~` of a client secret of Azure: three characters, a digit, `Q~` and a random text.
    pub(super) fn azure_secret(&self, at: usize) -> SecretMatch {
        let part = |b: u8| is_key(b) || matches!(b, b'.' | b'~');
        let start = self.back(at, 8, part);
        let end = self.skip(at + 1, 48, part);
        if end >= self.text.len() && self.more && end - at < 48 {
            return SecretMatch::Wait;
        }
        match &self.text[start..at] {
            [_, _, _, b'0'..=b'9', b'Q'] if (30..=36).contains(&(end - at - 1)) => {
                SecretMatch::whole(start, end, AZURE)
            }
            _ => SecretMatch::Nothing,
        }
    }

    /// Examines the colon of `ID:TOKEN`, the token of a bot.
    pub(super) fn numbered_token(&self, colon: usize) -> Option<SecretMatch> {
        if self.text.get(colon + 1) != Some(&b'A') {
            return None;
        }
        let start = self.back(colon, 17, is_key);
        let id = &self.text[start..colon];
        if !(8..=16).contains(&id.len()) || !id.iter().all(u8::is_ascii_digit) {
            return None;
        }
        let is_one = |run: &[u8]| (34..=36).contains(&run.len()) && shapes::has_random_word(run);
        let kind: SecretKind = BOT_TOKEN;
        Some(self.run(colon + 1, is_key, is_one, |_, end| SecretMatch::whole(start, end, kind)))
    }

    /// Whether the text before `at` is Base64, in which prefixes of tokens occur by chance; a path or a URL does not
    /// count as Base64.
    fn is_in_base64(&self, at: usize) -> bool {
        let before = &self.text[at.saturating_sub(24).max(self.floor)..at];
        before.len() == 24 && before.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/'))
    }
}

/// Returns the offset in the path at which the secret of a webhook begins.
fn webhook_secret(authority: &[u8], path: &[u8]) -> Option<usize> {
    let is_one = |(host, begin): &&(&[u8], &[u8])| authority.ends_with(host) && path.starts_with(begin);
    let (_, begin) = WEBHOOKS.iter().find(is_one)?;
    (path.len() >= begin.len() + MIN_WEBHOOK_SECRET).then_some(begin.len())
}

/// The hosts of webhooks, and the beginnings of their paths.
const WEBHOOKS: &[(&[u8], &[u8])] = &[
    (b"hooks.slack.com", b"/services/"),
    (b"hooks.slack.com", b"/workflows/"),
    (b"hooks.slack.com", b"/triggers/"),
    (b"discord.com", b"/api/webhooks/"),
    (b"discordapp.com", b"/api/webhooks/"),
    (b".webhook.office.com", b"/webhookb2/"),
    (b"outlook.office.com", b"/webhook/"),
    (b"hooks.zapier.com", b"/hooks/catch/"),
    (b"api.telegram.org", b"/bot"),
    (b"chat.googleapis.com", b"/v1/spaces/"),
];

/// The minimum length of the secret part of a webhook's URL.
const MIN_WEBHOOK_SECRET: usize = 16;

/// The maximum length of a key's first line: longer than `ENCRYPTED PRIVATE KEY`.
const MAX_PEM_HEAD: usize = 64;

/// The minimum length of the first word of a key in the same line as its header.
const MIN_KEY_WORD: usize = 16;

/// The schemes of URLs that often have a colon and an `@` after their host.
const WEB_SCHEMES: &[&[u8]] = &[b"http", b"https", b"ws", b"wss", b"ftp", b"file"];

/// The maximum length of a URL whose path is read.
const MAX_URL: usize = 512;

/// The maximum length of a user and a password before a network address.
const MAX_ADDRESS: usize = 256;

/// The names of password hashes: the functions of `crypt`, and those that web frameworks write in the same form.
#[rustfmt::skip] // a table
const HASH_IDS: &[&[u8]] = &[
    b"1", b"2a", b"2b", b"2x", b"2y", b"5", b"6", b"7", b"y", b"gy", b"apr1", b"argon2i", b"argon2d", b"argon2id",
    b"scrypt", b"pbkdf2", b"pbkdf2-sha1", b"pbkdf2-sha256", b"pbkdf2-sha512", b"P", b"H",
];

/// The maximum length of such a name.
const MAX_HASH_ID: usize = 16;

/// The minimum length of a password's hash with its salt.
const MIN_HASH: usize = 24;
