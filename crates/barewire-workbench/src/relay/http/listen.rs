//! A listening socket -> connections, each relayed, until a signal stops it.

use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::connection::{RelayContext, serve};

/// Accepts connections until `stop` is ready; then all open ones end.
pub(super) async fn listen(tcp: TcpListener, context: Arc<RelayContext>, stop: impl Future<Output = ()>) {
    let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
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
        let context = Arc::clone(&context);
        connections.spawn(async move {
            serve(client, context).await;
            drop(permit);
        });
    }
    drop(tcp);
    // Dropping an open connection records its end.
    connections.shutdown().await;
}

/// Accepts the next connection. Errors are temporary: the client has gone, or a resource is used up.
async fn accept(tcp: &TcpListener) -> TcpStream {
    loop {
        match tcp.accept().await {
            Ok((client, _)) => return client,
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

/// More than any host opens; each takes 64 KiB and two sockets. Further clients wait.
const MAX_CONNECTIONS: usize = 1000;
