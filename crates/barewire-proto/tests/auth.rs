//! Sign-in: transcripts of `testdata/auth`, and properties that hold for any bytes that a server sends.
//!
//! In a transcript, `@` is an event and `=` the effect that must follow it:
//!
//! - `@ sign-in KEY=VALUE…` creates a sign-in; `stored=yes` gives it the record of the previous one.
//! - `@ let NAME TEXT` names a text, which `$NAME` then stands for; `@ at SECONDS` sets the time.
//! - `@ challenge STATUS [nonce=N] HEADER`, `@ fetched STATUS BODY`, `@ posted STATUS [nonce=N] BODY`, `@ lost WHY`,
//!   `@ callback QUERY`, and `start`, `expired`, `accepted`, `waited`, `cancelled` are the events.
//! - `@ request URL` shows the headers of a request with the token, and `@ revoke` the request that ends the token.
//!
//! `<random:1>` is the first random number of a sign-in as text, and `<sha256:random:1>` its hash.

mod transcript_files;

use std::collections::BTreeMap;
use std::path::Path;

use barewire_proto::auth::{
    AddressKind, AuthChallenge, ClientAuthMethod, ClientIdentity, ConfiguredClient, Credentials, Crypto, DpopUse,
    IdentityProvider, NetworkPolicy, Overrides, Post, PostBody, ProofRequest, Scopes, SecretText, SignIn, SignInEffect,
    SignInEvent, SignInGrant, SignInSettings, SigningKey, Url,
};
use barewire_proto::mcp::Revision;
use barewire_proto::transcript::{Entry, Note, escape, read};
use proptest::prelude::*;
use transcript_files::{check_or_bless, files};

/// The public key of the sign-ins: RFC 9449, section 4.1.
const JWK: &str = concat!(
    r#"{"kty":"EC","x":"l8tFrhx-34tV3hRICRDY9zCkDlpBhF42UQUfWVAWBFs","#,
    r#""y":"9VE4jf_Ok_o64zbTTlcuNJajHmt6v9TDVrU0CdvGRDA","crv":"P-256"}"#
);

#[test]
fn transcripts() {
    let files = files("auth");
    assert!(files.len() >= 3);
    for file in files {
        let text = std::fs::read_to_string(&file).expect("readable");
        let entries = read(text.as_bytes()).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let mut runner = SignInRunner::default();
        let mut blessed = String::new();
        for entry in entries {
            let follows = match &entry {
                Entry::Expect(_) => continue,
                Entry::Event(event) => match &event.note {
                    Note::Other(text) => runner.event(std::str::from_utf8(text.as_bytes()).expect("UTF-8")),
                    note => panic!("{}: {note:?} is not an event of a sign-in", file.display()),
                },
                Entry::Comment(_) | Entry::Blank => Vec::new(),
                entry => panic!("{}: {entry:?} does not belong here", file.display()),
            };
            entry.write(&mut blessed);
            for line in follows {
                Entry::Expect(escape(line.as_bytes()).into()).write(&mut blessed);
            }
        }
        check_or_bless(&file, &text, &blessed);
    }
}

/// The client scenarios of the official conformance suite.
const SCENARIOS: [&str; 33] = [
    "metadata-default",
    "metadata-var1",
    "metadata-var2",
    "metadata-var3",
    "basic-cimd",
    "scope-from-www-authenticate",
    "scope-from-scopes-supported",
    "scope-omitted-when-undefined",
    "scope-step-up",
    "scope-retry-limit",
    "token-endpoint-auth-basic",
    "token-endpoint-auth-post",
    "token-endpoint-auth-none",
    "pre-registration",
    "resource-mismatch",
    "offline-access-scope",
    "offline-access-not-supported",
    "authorization-server-migration",
    "iss-supported",
    "iss-not-advertised",
    "iss-supported-missing",
    "iss-wrong-issuer",
    "iss-unexpected",
    "iss-normalized",
    "metadata-issuer-mismatch",
    "client-credentials-jwt",
    "client-credentials-basic",
    "enterprise-managed-authorization",
    "dpop",
    "dpop-nonce",
    "wif-jwt-bearer",
    "2025-03-26-oauth-metadata-backcompat",
    "2025-03-26-oauth-endpoint-fallback",
];

#[test]
fn each_scenario_of_the_conformance_suite_has_a_transcript() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/auth/conformance.wire");
    let text = std::fs::read_to_string(file).expect("readable");
    for name in SCENARIOS {
        assert_eq!(text.matches(&format!("# auth/{name}: ")).count(), 1, "{name}");
    }
}

/// Random numbers that are counted, and a hash that is no hash; both are shown by name.
#[derive(Default)]
struct CountedCrypto {
    count: u8,
    /// The text of each number and hash, and its name.
    names: Vec<(String, String)>,
}

impl Crypto for CountedCrypto {
    fn random(&mut self) -> [u8; 32] {
        self.count += 1;
        let bytes = [self.count; 32];
        self.names.push((base64url(&bytes), format!("random:{}", self.count)));
        bytes
    }

    fn sha256(&mut self, bytes: &[u8]) -> [u8; 32] {
        let text = String::from_utf8(bytes.to_vec()).expect("text");
        let known = self.names.iter().find(|(known, _)| *known == text).map(|(_, name)| name.clone());
        let name = format!("sha256:{}", known.unwrap_or_else(|| "jwk".into()));
        let mut hash = [b'#'; 32];
        hash.iter_mut().zip(bytes).for_each(|(out, byte)| *out ^= byte);
        self.names.push((base64url(&hash), name));
        hash
    }
}

fn base64url(bytes: &[u8]) -> String {
    // The signature part of a JWT is the public function of the crate that writes this alphabet.
    barewire_proto::auth::with_signature("", bytes)[1..].to_owned()
}

#[derive(Default)]
struct SignInRunner {
    sign_in: Option<SignIn>,
    crypto: CountedCrypto,
    texts: BTreeMap<String, String>,
    now: u64,
}

impl SignInRunner {
    fn event(&mut self, line: &str) -> Vec<String> {
        let line = self.filled_in(line);
        let (word, rest) = line.split_once(' ').unwrap_or((&line, ""));
        let number = |rest: &'_ str| -> (u16, String) {
            let (status, rest) = rest.split_once(' ').unwrap_or((rest, ""));
            (status.parse().expect("a status"), rest.to_owned())
        };
        let with_nonce = |rest: String| match rest.strip_prefix("nonce=") {
            Some(rest) => {
                let (nonce, rest) = rest.split_once(' ').unwrap_or((rest, ""));
                (Some(nonce.to_owned()), rest.to_owned())
            }
            None => (None, rest),
        };
        match word {
            "let" => {
                let (name, text) = rest.split_once(' ').expect("a name and a text");
                self.texts.insert(name.to_owned(), text.to_owned());
                Vec::new()
            }
            "at" => {
                self.now = rest.parse().expect("seconds");
                Vec::new()
            }
            "sign-in" => {
                let stored = self.sign_in.take().and_then(|sign_in| sign_in.credentials().cloned());
                // A store keeps the record as text.
                let stored = stored.map(|stored| Credentials::read(stored.write().as_bytes()).expect("a record"));
                self.crypto = CountedCrypto::default();
                self.sign_in = Some(new_sign_in(rest, stored));
                Vec::new()
            }
            "request" => {
                let sign_in = self.sign_in.as_ref().expect("a sign-in");
                let url = Url::parse(rest).expect("a URL");
                let authorization = sign_in.authorization(&url);
                let authorization = authorization.map_or("no token".into(), |value| value.expose().to_owned());
                let proof = sign_in.proof("POST", &url).map(|proof| shown_proof(&proof));
                std::iter::once(authorization).chain(proof).collect()
            }
            "revoke" => {
                let credentials = self.sign_in.as_ref().and_then(SignIn::credentials);
                let post = credentials.and_then(Credentials::revocation);
                post.map_or(vec!["nothing to revoke".into()], |post| shown_post(&post))
            }
            "challenge" => {
                let (status, rest) = number(rest);
                let (nonce, header) = with_nonce(rest);
                let mut headers = vec![("WWW-Authenticate", header)];
                headers.extend(nonce.map(|nonce| ("DPoP-Nonce", nonce)));
                // The request had the token, if there is one.
                let sent = self.sign_in.as_ref().and_then(|sign_in| sign_in.credentials()).map(|it| it.token_type);
                self.step(SignInEvent::Challenge(AuthChallenge::read_for(sent, status, &headers[..])))
            }
            "fetched" => {
                let (status, body) = number(rest);
                self.step(SignInEvent::Fetched { status, body: body.as_bytes() })
            }
            "posted" => {
                let (status, rest) = number(rest);
                let (nonce, body) = with_nonce(rest);
                self.step(SignInEvent::Posted { status, nonce: nonce.as_deref(), body: body.as_bytes() })
            }
            "lost" => self.step(SignInEvent::Failed { why: rest }),
            "callback" => self.step(SignInEvent::Callback { query: rest }),
            "start" => self.step(SignInEvent::Start),
            "expired" => self.step(SignInEvent::Expired),
            "accepted" => self.step(SignInEvent::Accepted),
            "waited" => self.step(SignInEvent::Waited),
            "cancelled" => self.step(SignInEvent::Cancelled),
            _ => panic!("unknown event: {line}"),
        }
    }

    /// Replaces `$NAME` and `<random:N>` by what they stand for.
    fn filled_in(&self, line: &str) -> String {
        // The longest names first, so that `$server` does not match the start of `$server2`.
        let texts = self.texts.iter().rev().map(|(name, text)| (format!("${name}"), text.clone()));
        let randoms = self.crypto.names.iter().map(|(text, name)| (format!("<{name}>"), text.clone()));
        texts.chain(randoms).fold(line.to_owned(), |line, (name, text)| line.replace(&name, &text))
    }

    fn step(&mut self, event: SignInEvent<'_>) -> Vec<String> {
        let debug = format!("{event:?}");
        assert!(["s3cret", "access_token", "code="].iter().all(|secret| !debug.contains(secret)), "{debug}");
        let sign_in = self.sign_in.as_mut().expect("a sign-in");
        let effect = sign_in.step(event, self.now, &mut self.crypto);
        let shown = shown_effect(&effect);
        assert!(!format!("{effect:?} {sign_in:?}").contains("s3cret"), "Debug shows a secret");
        let names = &self.crypto.names;
        let named =
            |line: String| names.iter().fold(line, |line, (text, name)| line.replace(text, &format!("<{name}>")));
        shown.into_iter().map(named).collect()
    }
}

fn new_sign_in(line: &str, stored: Option<Credentials>) -> SignIn {
    let options: BTreeMap<&str, &str> =
        line.split(' ').filter(|word| !word.is_empty()).map(|word| word.split_once('=').expect("KEY=VALUE")).collect();
    let known = [
        "server",
        "grant",
        "redirect",
        "revision",
        "client",
        "secret",
        "client-key",
        "issuer",
        "method",
        "document",
        "scope",
        "dpop",
        "key",
        "override",
        "network",
        "refresh",
        "stored",
        "idp",
        "idp-endpoint",
        "idp-secret",
    ];
    assert!(options.keys().all(|key| known.contains(key)), "unknown option: {line}");
    let get = |key: &str| options.get(key).copied();
    let url = |text: &str| Url::parse(text).unwrap_or_else(|why| panic!("{text}: {why}"));
    let redirect_uri = get("redirect").unwrap_or("http://127.0.0.1:7777/callback").to_owned();
    let grant = match get("grant").unwrap_or("code") {
        "code" => SignInGrant::AuthorizationCode { redirect_uri },
        "device" => SignInGrant::DeviceCode,
        "client" => SignInGrant::ClientCredentials,
        "workload" => SignInGrant::WorkloadIdentity { assertion: "workload-s3cret".into() },
        "enterprise" => {
            let mut client = ConfiguredClient::new("idp-client");
            client.secret = get("idp-secret").map(Into::into);
            let mut provider = IdentityProvider::new(get("idp").expect("idp"), client, "id-token-s3cret");
            provider.token_endpoint = get("idp-endpoint").map(url);
            SignInGrant::EnterpriseManaged(Box::new(provider))
        }
        other => panic!("unknown grant: {other}"),
    };
    let mut identity = ClientIdentity::new("Test client");
    identity.metadata_document = get("document").map(url);
    identity.configured = get("client").map(|id| {
        let mut client = ConfiguredClient::new(id);
        client.secret = get("secret").map(Into::into);
        client.key = get("client-key").map(|algorithm| SigningKey::new(algorithm, "key-s3cret"));
        client.issuer = get("issuer").map(str::to_owned);
        client.auth_method = get("method").map(|name| ClientAuthMethod::parse(name).expect("a method"));
        client
    });
    let server = url(get("server").unwrap_or("https://mcp.example.com/mcp"));
    let mut settings = SignInSettings::new(server, grant, identity);
    settings.revision = get("revision").map(|name| Revision::parse(name).expect("a revision"));
    settings.scopes = get("scope").map(|scopes| scopes.split(',').collect());
    settings.wants_refresh_token = get("refresh") != Some("no");
    settings.dpop = match get("dpop") {
        None => DpopUse::default(),
        Some("off") => DpopUse::Off,
        Some("required") => DpopUse::Required,
        Some(other) => panic!("unknown use of DPoP: {other}"),
    };
    let key = |algorithm| SigningKey::new(algorithm, "dpop-s3cret").public_jwk(JWK.to_owned());
    settings.dpop_key = get("key").map(key);
    settings.overrides = get("override").into_iter().fold(Overrides::default(), |overrides, name| match name {
        "issuer" => overrides.issuer_may_differ(true),
        "no-resource" => overrides.no_resource(true),
        "scope-on-refresh" => overrides.scope_on_refresh(true),
        "pkce" => overrides.pkce_unannounced(true),
        other => panic!("unknown override: {other}"),
    });
    settings.network = match get("network") {
        None => settings.network,
        Some("private") => settings.network.nearest(AddressKind::Private),
        Some("plain") => settings.network.plain_http(true),
        Some(other) => panic!("unknown network: {other}"),
    };
    SignIn::new(settings, stored.filter(|_| get("stored") == Some("yes")))
}

fn shown_effect(effect: &SignInEffect) -> Vec<String> {
    match effect {
        SignInEffect::Nothing => vec!["nothing".into()],
        SignInEffect::SendAgain => vec!["send again".into()],
        SignInEffect::IgnoreCallback => vec!["ignore callback".into()],
        SignInEffect::Fetch { url } => vec![format!("fetch {url}")],
        SignInEffect::Post(post) => shown_post(post),
        SignInEffect::OpenPage { url, redirect_uri } => {
            let pairs = url.query().unwrap_or_default().split('&').map(|pair| format!("  {}", decoded(pair)));
            let first = format!("open {} and return to {redirect_uri}", url.without_query());
            std::iter::once(first).chain(pairs).collect()
        }
        SignInEffect::ShowDeviceCode { user_code, page, page_with_code, expires_at, poll_after } => {
            let with_code = page_with_code.as_ref().map(|page| format!(" or {page}")).unwrap_or_default();
            vec![
                format!("show {user_code} at {page}{with_code}"),
                format!("  until {expires_at}, poll after {poll_after}"),
            ]
        }
        SignInEffect::Wait { seconds } => vec![format!("wait {seconds}")],
        SignInEffect::Token(credentials) => shown_credentials(credentials),
        SignInEffect::Stop(reason) => {
            let remedy = reason.remedy().map(|remedy| format!("  remedy {remedy:?}"));
            std::iter::once(format!("stop: {reason}")).chain(remedy).collect()
        }
        effect => panic!("unknown effect: {effect:?}"),
    }
}

fn shown_post(post: &Post) -> Vec<String> {
    let mut lines = vec![format!("post {}", post.url)];
    lines.extend(post.authorization.as_ref().map(|value| format!("  Authorization: {}", value.expose())));
    lines.extend(post.proof.as_ref().map(shown_proof));
    match &post.body {
        PostBody::Json(json) => lines.push(format!("  {json}")),
        PostBody::Form(pairs) => {
            lines.extend(pairs.iter().map(|(name, value)| format!("  {name}={}", value.expose())));
        }
        body => panic!("unknown body: {body:?}"),
    }
    lines.extend(post.assertion.as_ref().map(|assertion| {
        let (client, audience, algorithm) = (&assertion.client_id, &assertion.audience, &assertion.key.algorithm);
        format!("  client_assertion of {client} for {audience} signed with {algorithm}")
    }));
    lines
}

fn shown_proof(proof: &ProofRequest) -> String {
    let nonce = proof.nonce.as_ref().map(|nonce| format!(" nonce {nonce}")).unwrap_or_default();
    let token = proof.access_token.as_ref().map(|token| format!(" for {}", token.expose())).unwrap_or_default();
    format!("  DPoP: {} {}{nonce}{token} signed with {}", proof.method, proof.url, proof.key.algorithm)
}

fn shown_credentials(credentials: &Credentials) -> Vec<String> {
    let expires = credentials.expires_at.map_or("no end".into(), |at| format!("until {at}"));
    let refresh = credentials.refresh_token.as_ref().map_or("none", SecretText::expose);
    let client = &credentials.client;
    let method = client.auth_method.map_or("", ClientAuthMethod::as_str);
    let bound = credentials.dpop_key.as_ref().map(|key| format!(" bound to {} key", key.algorithm)).unwrap_or_default();
    vec![
        format!("token {} {expires}, refresh {refresh}{bound}", credentials.authorization().expose()),
        format!("  scopes \"{}\" of \"{}\"", credentials.scopes, credentials.requested_scopes),
        format!("  issuer {} for {}", credentials.issuer, credentials.resource.as_deref().unwrap_or("no resource")),
        format!("  client {} {:?} {method}", client.id, client.kind),
    ]
}

/// Decodes one pair of a query, for people.
fn decoded(pair: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = pair.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = match (first, tail) {
            (b'%', [high, low, tail @ ..]) => {
                let hex = String::from_utf8(vec![*high, *low]).expect("ASCII");
                bytes.push(u8::from_str_radix(&hex, 16).expect("two digits"));
                tail
            }
            (byte, tail) => {
                bytes.push(*byte);
                tail
            }
        };
    }
    String::from_utf8(bytes).expect("UTF-8")
}

/// Texts that resemble what servers send.
fn document_like() -> impl Strategy<Value = Vec<u8>> {
    let word = prop::sample::select(vec![
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"",
        "null",
        "true",
        "1",
        "-1e9",
        "\"resource\":\"https://mcp.example.com/mcp\",",
        "\"authorization_servers\":[\"https://auth.example.com\"],",
        "\"issuer\":\"https://auth.example.com\",",
        "\"authorization_endpoint\":\"https://auth.example.com/a\",",
        "\"token_endpoint\":\"https://auth.example.com/t\",",
        "\"registration_endpoint\":\"https://auth.example.com/r\",",
        "\"code_challenge_methods_supported\":[\"S256\"],",
        "\"access_token\":\"t\",",
        "\"token_type\":\"Bearer\",",
        "\"expires_in\":1,",
        "\"client_id\":\"c\",",
        "\"x\":0",
        "\"error\":\"invalid_grant\"",
        "code=c",
        "&",
        "state=",
        "%",
        "%41",
        "https://",
        "é",
        "\u{0}",
    ]);
    let words = prop::collection::vec(word, 0..30).prop_map(|words| words.concat().into_bytes());
    let object = prop::collection::vec(0..12usize, 0..12).prop_map(|members| {
        let known = [
            r#""resource":"https://mcp.example.com/mcp""#,
            r#""authorization_servers":["https://auth.example.com"]"#,
            r#""issuer":"https://auth.example.com""#,
            r#""authorization_endpoint":"https://auth.example.com/a""#,
            r#""token_endpoint":"https://auth.example.com/t""#,
            r#""registration_endpoint":"https://auth.example.com/r""#,
            r#""code_challenge_methods_supported":["S256"]"#,
            r#""access_token":"t""#,
            r#""token_type":"Bearer""#,
            r#""client_id":"c""#,
            r#""expires_in":9999999999999999999"#,
            r#""scope":"a b""#,
        ];
        format!("{{{}}}", members.iter().map(|at| known[*at]).collect::<Vec<_>>().join(",")).into_bytes()
    });
    prop_oneof![words, object, prop::collection::vec(any::<u8>(), 0..60)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    /// No text of a server makes the machine panic or run for ever; and it never asks for a URL that is neither `https`
    /// nor on the server's own machine.
    #[test]
    fn any_bytes_lead_to_an_effect(bodies in prop::collection::vec((document_like(), 0..6u8), 1..16)) {
        let mut crypto = CountedCrypto::default();
        let mut sign_in = new_sign_in("", None);
        sign_in.step(SignInEvent::Start, 0, &mut crypto);
        for (body, kind) in &bodies {
            let text = String::from_utf8_lossy(body);
            let status = if kind % 2 == 0 { 200 } else { 400 };
            let event = match kind {
                0 | 1 => SignInEvent::Fetched { status, body },
                2 | 3 => SignInEvent::Posted { status, nonce: Some(&text), body },
                4 => SignInEvent::Callback { query: &text },
                _ => SignInEvent::Challenge(AuthChallenge::read(401, &[("www-authenticate", body)][..])),
            };
            match sign_in.step(event, 0, &mut crypto) {
                SignInEffect::Fetch { url } | SignInEffect::OpenPage { url, .. } => prop_assert!(url.is_https()),
                SignInEffect::Post(post) => prop_assert!(post.url.is_https()),
                SignInEffect::Stop(reason) => {
                    let shown = reason.to_string();
                    prop_assert!(!shown.contains('\u{0}') && shown.len() < 20_000, "{shown}");
                    // A caller may begin again.
                    sign_in = new_sign_in("", None);
                    sign_in.step(SignInEvent::Start, 0, &mut crypto);
                }
                _ => {}
            }
        }
    }

    #[test]
    fn any_text_is_a_url_or_not(text in "(https?://)?[a-z0-9.:/?#@%\\[\\]é\\\\ -]{0,40}") {
        if let Ok(url) = Url::parse(&text) {
            prop_assert_eq!(url.as_str(), &*text);
            let again = Url::parse(&format!("{}{}", url.origin(), url.path())).expect("the parts are a URL");
            prop_assert!(again.is_same_origin(&url));
            prop_assert!(url.contains(&url));
            let _ = NetworkPolicy::for_server(&url).check_url(&url);
        }
    }

    #[test]
    fn scopes_of_any_text_are_separated_by_single_spaces(text in "\\PC{0,40}") {
        let scopes = Scopes::parse(&text);
        prop_assert_eq!(Scopes::parse(&scopes.to_string()), scopes);
    }
}
