//! Accepts connections on a listening socket and relays each, until the relay is stopped.

use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::connection::{RelayContext, serve};

/// Accepts connections until `stop` is ready, and then closes all open ones.
pub(super) async fn listen(tcp: TcpListener, context: Arc<RelayContext>, stop: impl Future<Output = ()>) {
    let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut connections = JoinSet::new();
    tokio::pin!(stop);
    loop {
        let next = async {
            let permit = Arc::clone(&room).acquire_owned().await.expect("the semaphore is never closed");
            (accept(&tcp).await, permit)
        };
        let (client, permit) = tokio::select! {
            () = &mut stop => break,
            Some(_) = connections.join_next() => continue,
            next = next => next,
        };
        let context = Arc::clone(&context);
        connections.spawn(async move {
            serve(client, context).await;
            drop(permit);
        });
    }
    drop(tcp);
    // Dropping the state of a connection records the end of its exchanges.
    connections.shutdown().await;
}

/// Accepts the next connection. Errors are retried because they are temporary: the client has disconnected, or a
/// resource is used up.
async fn accept(tcp: &TcpListener) -> TcpStream {
    loop {
        match tcp.accept().await {
            Ok((client, _)) => return client,
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

/// The maximum number of connections: more than any host opens. Each takes 64 KiB and two sockets. Further clients must
/// wait.
const MAX_CONNECTIONS: usize = 1000;
