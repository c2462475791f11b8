//! The cost of a call with a token beside one without: the CPU time of the server's thread. Linux only, which says how
//! long a thread has run.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc;
use std::time::Instant;

use barewire::server::http::AccessTokens;
use serde_json::json;

use crate::dpop::Holder;
use crate::issuer::TestIssuer;
use crate::keys::SigningKey;
use crate::{RESOURCE, wire};

/// The calls of a round, and the number of rounds.
const CALLS: usize = 700;
const ROUNDS: usize = 60;

/// The calls of a round that are not measured.
const WARM_UP: usize = 100;

/// Returns the nanoseconds that a thread has run.
fn ran(thread: &str) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/self/task/{thread}/schedstat")).expect("Linux");
    text.split(' ').next().and_then(|time| time.parse().ok()).expect("nanoseconds")
}

/// Starts a server on a thread of its own, and returns its address and its thread.
fn start(tokens: Option<AccessTokens>) -> (SocketAddr, String) {
    let (send, started) = mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let mut http = crate::server().http();
            if let Some(tokens) = tokens {
                http = http.authenticate(tokens);
            }
            let listener = http.bind("127.0.0.1:0").await.expect("bound");
            let link = std::fs::read_link("/proc/thread-self").expect("Linux");
            let thread = link.file_name().expect("a number").to_string_lossy().into_owned();
            send.send((listener.local_addr().expect("bound"), thread)).expect("received");
            listener.run().await;
        });
    });
    started.recv().expect("started")
}

/// Returns a call as it is sent, with these header lines.
fn request(headers: &[String]) -> Vec<u8> {
    let (mine, message) = wire::modern(1, "tools/call", json!({"name": "echo"}));
    let body = message.to_string();
    let common = ["Host: localhost", "Content-Type: application/json", wire::ACCEPT];
    let mut text = "POST /mcp HTTP/1.1\r\n".to_owned();
    for line in common.into_iter().chain(mine.iter().chain(headers).map(String::as_str)) {
        text.push_str(&format!("{line}\r\n"));
    }
    format!("{text}Content-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

/// Sends the requests, and returns the server's CPU time for one of them, in nanoseconds.
fn measure((addr, thread): &(SocketAddr, String), requests: impl Iterator<Item = Vec<u8>>) -> f64 {
    let mut stream = TcpStream::connect(addr).expect("connected");
    stream.set_nodelay(true).expect("set");
    let mut buffer = vec![0; 16 * 1024];
    let mut begun = 0;
    for (number, request) in requests.enumerate() {
        if number == WARM_UP {
            begun = ran(thread);
        }
        stream.write_all(&request).expect("sent");
        let read = stream.read(&mut buffer).expect("read");
        assert!(buffer[..read].starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&buffer[..read]));
        assert!(buffer[..read].ends_with(b"}"), "the response came in one piece");
    }
    (ran(thread) - begun) as f64 / (CALLS - WARM_UP) as f64
}

/// Returns the lowest value: whatever else runs on the machine only adds to it.
fn lowest(values: Vec<f64>) -> f64 {
    values.into_iter().fold(f64::INFINITY, f64::min)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement, for an optimised build"]
async fn a_remembered_token_costs_hardly_anything_and_a_proof_its_signature() {
    let issuer_key = SigningKey::rsa();
    let issuer = TestIssuer::start(vec![issuer_key.named("k1")]).await;
    let tokens = || AccessTokens::jwt(&issuer.url, RESOURCE);
    let (plain, jwt, dpop) = (start(None), start(Some(tokens())), start(Some(tokens())));
    let bearer = issuer_key.token(&json!({"alg": "RS256", "kid": "k1"}), &issuer.claims(RESOURCE));
    let holder = Holder::bound(&issuer_key, "RS256", &issuer, SigningKey::p256());
    let (mut without, mut with, mut proved) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let plain_request = request(&[]);
        without.push(measure(&plain, std::iter::repeat_n(plain_request, CALLS)));
        let with_token = request(&[format!("Authorization: Bearer {bearer}")]);
        with.push(measure(&jwt, std::iter::repeat_n(with_token, CALLS)));
        let proofs: Vec<_> = (0..CALLS)
            .map(|_| {
                let proof = holder.proof(&holder.claims());
                request(&[format!("Authorization: DPoP {}", holder.token), format!("DPoP: {proof}")])
            })
            .collect();
        proved.push(measure(&dpop, proofs.into_iter()));
    }
    let verification = verification();
    let (without, with, proved) = (lowest(without), lowest(with), lowest(proved));
    let report = format!(
        "CPU time of a call: {:.1} µs without a token; {:.1} µs with a remembered JWT, {:.3} times; {:.1} µs with DPoP, \
         {:.1} µs more, of which the signature takes {:.1} µs",
        without / 1000.0,
        with / 1000.0,
        with / without,
        proved / 1000.0,
        (proved - with) / 1000.0,
        verification / 1000.0,
    );
    std::io::stderr().write_all(format!("{report}\n").as_bytes()).expect("written");
    assert!(with / without < 1.1, "{report}");
    assert!(proved - with < 1.6 * verification, "{report}");
}

/// Returns the time of one ES256 verification, in nanoseconds.
fn verification() -> f64 {
    let SigningKey::P256(key) = SigningKey::p256() else { unreachable!("it is P-256") };
    let random = ring::rand::SystemRandom::new();
    let signature = key.sign(&random, &[7; 400]).expect("signed");
    let public = ring::signature::KeyPair::public_key(&key).as_ref().to_vec();
    let verify = || {
        let public = ring::signature::UnparsedPublicKey::new(&ring::signature::ECDSA_P256_SHA256_FIXED, &public);
        public.verify(&[7; 400], signature.as_ref()).expect("good");
    };
    let times = (0..500).map(|_| {
        let start = Instant::now();
        verify();
        start.elapsed().as_nanos() as f64
    });
    median(times.collect())
}
