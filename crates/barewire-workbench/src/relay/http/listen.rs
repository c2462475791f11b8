//! A socket of this machine -> connections, each passed on; until a signal ends it.

use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::connection::{Shared, serve};

/// Accepts until `stop` is ready; then everything that is open ends.
pub(super) async fn listen(tcp: TcpListener, shared: Arc<Shared>, stop: impl Future<Output = ()>) {
    let room = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    let mut connections = JoinSet::new();
    tokio::pin!(stop);
    loop {
        let next = async {
            let permit = Arc::clone(&room).acquire_owned().await.expect("it is never closed");
            (accept(&tcp).await, permit)
        };
        let (client, permit) = tokio::select! {
            () = &mut stop => break,
            Some(_) = connections.join_next() => continue,
            next = next => next,
        };
        let shared = Arc::clone(&shared);
        connections.spawn(async move {
            serve(client, shared).await;
            drop(permit);
        });
    }
    drop(tcp);
    // What is open is dropped, and says so.
    connections.shutdown().await;
}

/// The next connection. What fails is a client that is gone again, or a lack of something that others will give back.
async fn accept(tcp: &TcpListener) -> TcpStream {
    loop {
        match tcp.accept().await {
            Ok((client, _)) => return client,
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

/// More than any host opens; each takes 64 KiB and two sockets. Others wait.
const MOST_CONNECTIONS: usize = 1000;
