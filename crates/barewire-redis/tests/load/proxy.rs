//! The network between a node and its store: it passes bytes on, late or not at all.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// A network to one port of this machine.
pub(crate) struct Network {
    pub(crate) port: u16,
    state: watch::Sender<NetworkState>,
    accepting: JoinHandle<()>,
}

/// What happens to the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NetworkState {
    Well,
    /// Each byte arrives this much later, in each direction.
    Slow(Duration),
    /// Nothing arrives, and no connection is closed: as if a cable were cut.
    Cut,
}

impl Network {
    pub(crate) async fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let own_port = listener.local_addr().expect("it is bound").port();
        let state = watch::Sender::new(NetworkState::Well);
        let sender = state.clone();
        let accepting = tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                // If nothing listens there, the connection is closed.
                let Ok(far) = TcpStream::connect(("127.0.0.1", port)).await else { continue };
                for stream in [&near, &far] {
                    stream.set_nodelay(true).expect("it is open");
                }
                let ((near_read, near_write), (far_read, far_write)) = (near.into_split(), far.into_split());
                tokio::spawn(pass(near_read, far_write, sender.subscribe()));
                tokio::spawn(pass(far_read, near_write, sender.subscribe()));
            }
        });
        Self { port: own_port, state, accepting }
    }

    pub(crate) fn set(&self, state: NetworkState) {
        self.state.send_replace(state);
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Passes bytes on in one direction, until an end closes.
async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut state: watch::Receiver<NetworkState>) {
    let (parts, mut late) = mpsc::channel::<(Instant, Vec<u8>)>(1024);
    let mut read_state = state.clone();
    let reading = tokio::spawn(async move {
        let mut buffer = vec![0; 1 << 16];
        while let Ok(length @ 1..) = from.read(&mut buffer).await {
            let latency = match *read_state.borrow_and_update() {
                NetworkState::Slow(latency) => latency,
                NetworkState::Well | NetworkState::Cut => Duration::ZERO,
            };
            if parts.send((Instant::now() + latency, buffer[..length].to_vec())).await.is_err() {
                return;
            }
        }
    });
    while let Some((at, part)) = late.recv().await {
        tokio::time::sleep_until(at).await;
        let is_open = state.wait_for(|state| *state != NetworkState::Cut).await.is_ok();
        if !is_open || to.write_all(&part).await.is_err() {
            break;
        }
    }
    reading.abort();
}
