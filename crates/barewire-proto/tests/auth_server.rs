//! The decisions of a server about tokens and proofs: `testdata/auth/server`, one case in each `>` line.

use std::fs;
use std::path::PathBuf;

use barewire_proto::auth::server::{
    Claims, Confirmation, ExpectedClaims, Jws, NonceState, Proof, ProofExpectations, TokenForm, base64url, credentials,
    normal_url,
};
use proptest::prelude::*;

/// Runs the cases of a file: `decide` gets a `>` or `@` line, and returns the `=` line of a `>` line.
fn run(file: &str, mut decide: impl FnMut(char, &str) -> Option<String>) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/auth/server").join(file);
    let text = fs::read_to_string(&path).expect("the cases");
    let (mut actual, mut cases) = (String::new(), 0);
    for line in text.lines().filter(|line| !line.starts_with("= ")) {
        actual.push_str(line);
        actual.push('\n');
        let case = line.split_at_checked(2).filter(|(mark, _)| matches!(*mark, "> " | "@ "));
        if let Some((mark, case)) = case
            && let Some(decision) = decide(if mark == "> " { '>' } else { '@' }, case)
        {
            actual.push_str(&format!("= {decision}\n"));
            cases += 1;
        }
    }
    assert!(cases > 20, "{cases} cases were found in {file}");
    if std::env::var_os("BLESS").is_some() {
        fs::write(&path, &actual).expect("written");
    }
    for (expected, actual) in text.lines().zip(actual.lines()) {
        assert_eq!(expected, actual, "in {file}");
    }
    assert_eq!(text.lines().count(), actual.lines().count(), "in {file}");
}

#[test]
fn tokens_are_accepted_or_refused_by_their_claims() {
    let audiences = ["https://mcp.example.com/mcp".to_owned()];
    run("claims.txt", |_, case| {
        let (form, claims) = case.split_once(' ').expect("a form and claims");
        let typ = form.trim_start_matches('!');
        let only_access_tokens = typ != form;
        let form = match form {
            "active" => TokenForm::Introspection,
            "-" => TokenForm::Jwt { typ: None, only_access_tokens },
            _ => TokenForm::Jwt { typ: Some(typ), only_access_tokens },
        };
        let claims = match Claims::parse(claims.as_bytes()) {
            Ok(claims) => claims,
            Err(bad) => return Some(format!("unreadable: {bad}")),
        };
        let expected = ExpectedClaims::new("https://issuer.example", &audiences, 1_000_000, 60);
        if let Err(refusal) = claims.check(form, &expected) {
            return Some(format!("refused: {refusal}"));
        }
        let mut accepted = format!("accepted {}", claims.name().expect("checked"));
        if !claims.scopes.is_empty() {
            accepted.push_str(&format!(" with {}", claims.scopes.join(" ")));
        }
        if let Confirmation::Dpop(key) = &claims.confirmation {
            accepted.push_str(&format!(" bound to {key}"));
        }
        Some(accepted)
    });
}

/// A key in the form of a JWK, which is never used for a verification here.
fn key() -> String {
    let coordinate = base64url(&[7; 32]);
    format!(r#"{{"kty":"EC","crv":"P-256","x":"{coordinate}","y":"{coordinate}"}}"#)
}

#[test]
fn proofs_are_accepted_or_refused_by_their_claims() {
    let (mut nonce, mut thumbprint) = (NonceState::NotRequired, "t");
    run("proofs.txt", |mark, case| {
        if mark == '@' {
            match case {
                "nonce stale" => (nonce, thumbprint) = (NonceState::Stale, "t"),
                "nonce valid" => (nonce, thumbprint) = (NonceState::Valid, "t"),
                "bound to another key" => thumbprint = "other",
                other => panic!("unknown setting: {other}"),
            }
            return None;
        }
        let case = case.replace("KEY", &key());
        let end = case.rfind("} {").expect("a header and claims") + 1;
        let (header, claims) = (&case[..end], case[end..].trim());
        let text = format!("{}.{}.AA", base64url(header.as_bytes()), base64url(claims.as_bytes()));
        let expected = ProofExpectations::new("POST", "https://mcp.example.com/mcp", "h")
            .bound_to("t")
            .thumbprint(thumbprint)
            .nonce(nonce)
            .now(1_000_000);
        let checked = Proof::parse(text.as_bytes()).and_then(|proof| proof.check(&expected));
        Some(match checked {
            Ok(()) => "accepted".to_owned(),
            Err(refusal) => format!("{}: {refusal}", refusal.error()),
        })
    });
}

proptest! {
    #[test]
    fn no_input_makes_a_decision_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), text in ".{0,80}") {
        let _ = Jws::parse(&bytes);
        let _ = Proof::parse(&bytes);
        let _ = Claims::parse(&bytes);
        let _ = credentials(&[("authorization", &bytes)][..]);
        let _ = normal_url(&text);
        let token = format!("{}.{}.{}", base64url(text.as_bytes()), base64url(&bytes), base64url(&bytes));
        let _ = Jws::parse(token.as_bytes());
        let _ = Proof::parse(token.as_bytes());
    }

    /// A URL that has a normal form is equal to its normal form, however often it is made.
    #[test]
    fn the_normal_form_of_a_url_is_stable(path in "(/[a-zA-Z0-9%.~_-]{0,6}){0,5}", host in "[a-zA-Z]{1,8}") {
        if let Some(normal) = normal_url(&format!("HTTPS://{host}{path}")) {
            prop_assert_eq!(normal_url(&normal), Some(normal));
        }
    }
}
