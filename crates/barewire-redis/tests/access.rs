//! Who may connect, and what those are told who may not.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::{Duration, Instant};

use barewire::server::http::cluster::{ClusterStore, check_store};
use barewire_redis::{Redis, RedisBuilder, RedisError};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

use crate::copies::eventually;
use crate::redis_server::{RedisServer, free_port, new_folder, patient};

/// Fails to connect, without the password in any text.
async fn refused(url: &str) -> RedisError {
    refused_with(patient(), url).await
}

/// Fails to connect to a server that does not answer, in reasonable time.
async fn refused_in_time(url: &str) -> RedisError {
    let start = Instant::now();
    let error = refused_with(Redis::builder(), url).await;
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
    error
}

async fn refused_with(builder: RedisBuilder, url: &str) -> RedisError {
    let error = builder.connect(url).await.map(|node| node.node()).expect_err("it cannot be connected");
    for text in [error.to_string(), format!("{error:?}")] {
        assert!(!text.contains("secret"), "{text}");
    }
    error
}

#[tokio::test]
async fn a_password() {
    let server = RedisServer::start(&["--requirepass", "p@ss/secret"]);
    let address = format!("127.0.0.1:{}", server.port());
    let node = patient().connect(&format!("redis://:p%40ss%2Fsecret@{address}")).await.expect("the password is right");
    assert!(!format!("{node:?}").contains("secret"), "{node:?}");
    assert_eq!(node.nodes().await, Ok(vec![node.node()]));
    let error = refused(&format!("redis://:wrong-secret@{address}")).await;
    assert!(matches!(&error, RedisError::Denied { .. }) && error.to_string().contains("is wrong"), "{error}");
    let error = refused(&server.url()).await;
    assert!(matches!(&error, RedisError::Denied { .. }), "{error}");
    assert!(error.to_string().contains("write redis://USER:PASSWORD@HOST"), "{error}");
}

/// The commands that the crate's documentation lists are enough.
#[tokio::test]
async fn a_user_of_an_acl() {
    let server = RedisServer::start(&[]);
    add_user(&server, &[]);
    let url = format!("redis://node:secret@127.0.0.1:{}", server.port());
    check_store(async || patient().connect(&url).await.expect("the user is known")).await;
    let node = patient().prefix("elsewhere").connect(&url).await;
    let error = node.map(|node| node.node()).expect_err("the user may not use these keys");
    assert!(matches!(&error, RedisError::Denied { .. }) && error.to_string().contains("documentation"), "{error}");
}

/// Adds a user with the commands that the crate's documentation lists, and these. Its URL begins with `node:secret@`.
pub(crate) fn add_user(server: &RedisServer, more: &[&str]) {
    let documentation = include_str!("../src/lib.rs");
    let start = documentation.find("`+ping").expect("the list of commands") + 1;
    let end = start + documentation[start..].find('`').expect("the end of the list");
    let commands = documentation[start..end].replace("//!", "");
    let rule: Vec<&str> = commands.split_whitespace().collect();
    let user = ["ACL", "SETUSER", "node", "on", ">secret", "~barewire:*"];
    assert_eq!(server.command(&[&user[..], &rule[..], more].concat()), "+OK\r\n");
}

#[tokio::test]
async fn tls() {
    let folder = new_folder();
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("an authority");
    let key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new(vec!["localhost".into()]).expect("a name");
    let certificate = params.signed_by(&key, &authority).expect("a certificate");
    let path = |name: &str| folder.join(name).to_str().expect("a path of text").to_owned();
    let (authority_path, certificate_path, key_path) =
        (path("authority.pem"), path("certificate.pem"), path("key.pem"));
    let authority_pem = pem("CERTIFICATE", authority.der());
    fs::write(&authority_path, &authority_pem).expect("a file");
    fs::write(&certificate_path, pem("CERTIFICATE", certificate.der())).expect("a file");
    fs::write(&key_path, pem("PRIVATE KEY", &key.serialize_der())).expect("a file");
    #[rustfmt::skip]
    let options = ["--port", "0", "--tls-port", "PORT", "--tls-auth-clients", "no", "--requirepass", "secret",
        "--tls-ca-cert-file", &authority_path, "--tls-cert-file", &certificate_path, "--tls-key-file", &key_path];
    let server = RedisServer::start_in(folder.clone(), &options);
    let url = format!("rediss://:secret@localhost:{}", server.port());
    let builder = || patient().certificate_authority(authority_pem.as_str());
    check_store(async || builder().connect(&url).await.expect("the certificate is right")).await;

    let error = refused(&url).await;
    assert!(matches!(&error, RedisError::Tls { .. }) && error.to_string().contains("SSL_CERT_FILE"), "{error}");
    let error = builder().connect(&url.replace("localhost", "127.0.0.1")).await.map(|node| node.node());
    let error = error.expect_err("the certificate has another name");
    assert!(matches!(&error, RedisError::Tls { .. }) && error.to_string().contains("certificate"), "{error}");
    let error = refused(&url.replace("rediss", "redis")).await;
    assert!(error.to_string().contains("if the server expects TLS, the URL begins with rediss://"), "{error}");

    // A Redis Cluster of one server, which tells the port with TLS to those who have asked with TLS.
    let folder = new_folder();
    let slots =
        format!("{:040} :0@0 myself,master - 0 0 1 connected 0-16383\nvars currentEpoch 1 lastVoteEpoch 0\n", 1);
    fs::write(folder.join("nodes.conf"), slots).expect("a file");
    let cluster = ["--cluster-enabled", "yes", "--cluster-port", "BUS", "--tls-cluster", "yes"];
    let server = RedisServer::start_in(folder, &[&options[..], &cluster].concat());
    let url = format!("rediss-cluster://:secret@localhost:{}", server.port());
    // A primary that has just started waits for two seconds before it serves.
    eventually("it serves", async || builder().connect(&url).await.is_ok()).await;
    check_store(async || builder().connect(&url).await.expect("the certificate is right")).await;
}

#[tokio::test]
async fn tls_with_a_server_that_has_none() {
    let server = RedisServer::start(&[]);
    let error = refused_in_time(&server.url().replace("redis:", "rediss:")).await;
    assert!(matches!(&error, RedisError::Unreachable { .. }), "{error}");
    assert!(error.to_string().contains("without TLS the URL begins with redis://"), "{error}");
}

#[tokio::test]
async fn a_server_that_is_not_there() {
    let error = refused(&format!("redis://:secret@127.0.0.1:{}", free_port())).await;
    assert!(matches!(&error, RedisError::Unreachable { .. }), "{error}");
    assert!(error.to_string().contains("no server listens there"), "{error}");
    let error = refused_in_time("redis://:secret@redis.invalid").await;
    assert!(matches!(&error, RedisError::Unreachable { .. }), "{error}");
    // A machine without name servers says it later than others.
    assert!(error.to_string().contains("no such host") || error.to_string().contains("no answer"), "{error}");
    // A server that accepts and is silent.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let error = refused_in_time(&format!("redis://:secret@{}", listener.local_addr().expect("bound"))).await;
    assert!(error.to_string().contains("no answer within"), "{error}");
}

/// A server that knows no command of Redis 6.2, and one that is not Redis at all.
#[tokio::test]
async fn a_server_that_is_too_old() {
    let old: fn(&str) -> &'static str = |request| match request {
        _ if request.contains("PING") => "+PONG\r\n",
        _ if request.contains("INFO") => "$22\r\nredis_version:6.0.16\r\n\r\n",
        _ => "-ERR unknown command `GETEX`, with args beginning with: `secret`\r\n",
    };
    let error = refused(&serve(old)).await;
    assert!(matches!(&error, RedisError::TooOld { .. }), "{error}");
    assert!(error.to_string().contains("is 6.0.16; install Redis 6.2 or later, or Valkey"), "{error}");
    let error = refused(&serve(|_| "HTTP/1.1 400 Bad Request\r\n\r\n")).await;
    assert!(matches!(&error, RedisError::Unreachable { .. }), "{error}");
}

#[tokio::test]
async fn a_replica() {
    let primary = RedisServer::start(&[]);
    let replica = RedisServer::start(&["--replicaof", "127.0.0.1", &primary.port().to_string()]);
    let follows = || replica.command(&["INFO", "replication"]).contains("master_link_status:up");
    eventually("the replica follows its primary", async || follows()).await;
    let error = refused(&replica.url()).await;
    assert!(matches!(&error, RedisError::Refused { .. }) && error.to_string().contains("primary"), "{error}");
}

#[tokio::test]
async fn a_prefix_that_cannot_be_used() {
    let connected = Redis::builder().prefix("{a}").connect("redis://127.0.0.1").await.map(|node| node.node());
    assert!(matches!(connected, Err(RedisError::Setting(_))), "{connected:?}");
}

fn pem(kind: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let lines: Vec<&str> = text.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).expect("Base64")).collect();
    format!("-----BEGIN {kind}-----\n{}\n-----END {kind}-----\n", lines.join("\n"))
}

/// Answers each read with a text. Returns the URL.
fn serve(answer: fn(&str) -> &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("redis://{}", listener.local_addr().expect("bound"));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            std::thread::spawn(move || {
                let mut request = [0; 4096];
                while let Ok(length @ 1..) = stream.read(&mut request) {
                    let request = String::from_utf8_lossy(&request[..length]);
                    if stream.write_all(answer(&request).as_bytes()).is_err() {
                        return;
                    }
                }
            });
        }
    });
    url
}
