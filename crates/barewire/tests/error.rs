//! The error for `main`: `?` converts every error of this crate to it, and a connection that ends in order is `Ok`.

use barewire::peer::{CallError, Connection, EndReason};
use barewire::transport::memory;
use barewire::{ClientError, Error};

/// Compiles only if `?` converts `E`.
fn converts<E: std::error::Error>(result: Result<(), E>) -> Result<(), Error>
where
    Error: From<E>,
{
    result?;
    Ok(())
}

#[test]
fn every_error_of_the_crate_converts_and_keeps_its_text() {
    let text = |result: Result<(), Error>| result.expect_err("an error").to_string();
    assert_eq!(text(converts(Err(CallError::TimedOut))), CallError::TimedOut.to_string());
    let params = || ClientError::Params("no object".to_owned());
    assert_eq!(text(converts(Err(params()))), params().to_string());
    assert_eq!(text(converts(Err(std::io::Error::other("full")))), "full");
    let json = || serde_json::from_str::<u8>("x").expect_err("no number");
    assert_eq!(text(converts(Err(json()).map(|_: u8| ()))), json().to_string());
    let _: fn(barewire::server::BadEntry) -> Error = Error::from;
    let _: fn(barewire::transport::SpawnError) -> Error = Error::from;
    #[cfg(feature = "http")]
    let _: fn(barewire::server::http::HttpError) -> Error = Error::from;
    #[cfg(feature = "http")]
    let _: fn(barewire::client::http::FetchError) -> Error = Error::from;
}

#[tokio::test]
async fn both_sides_of_an_orderly_end_are_ok_and_know_how_it_ended() {
    let (here, there) = memory(4096);
    let (other, running) = Connection::new(there).open();
    let running = tokio::spawn(running);
    let peer = Connection::new(here).spawn();
    assert!(peer.end().is_none());
    peer.shutdown().await.expect("we have shut it down");
    peer.closed().await.expect("it stays the same");
    running.await.expect("no panic").expect("the peer closed the connection");
    other.closed().await.expect("the same end");
    assert!(matches!(peer.end().expect("it is over").reason(), EndReason::Shutdown));
    let end = other.end().expect("it is over");
    assert!(matches!(end.reason(), EndReason::Eof) && end.is_orderly(), "{end}");
}

#[tokio::test(start_paused = true)]
async fn an_end_that_is_not_orderly_is_an_error_with_the_reason() {
    let (here, _there) = memory(4096);
    let mut limits = barewire::peer::ConnectionLimits::default();
    limits.idle_timeout = Some(std::time::Duration::from_secs(5));
    let (peer, running) = Connection::new(here).limits(limits).open();
    let error = running.await.expect_err("nothing came");
    assert_eq!(error.to_string(), "the connection was idle for 5s");
    assert_eq!(format!("{error:?}"), error.to_string(), "main prints it so that people can read it");
    let end = error.connection_end().expect("it is about the end of a connection");
    assert!(matches!(end.reason(), EndReason::IdleTimeout(_)), "{end}");
    peer.shutdown().await.expect_err("it did not end in order, and a shutdown afterwards changes nothing");
}
