//! Two peers in memory that call each other: the handler of `greet` asks its caller for a name before it answers.

#![allow(clippy::print_stderr, reason = "the example shows its result to people")]

use barewire::Failure;
use barewire::peer::{Connection, Context, Methods};
use barewire::transport::memory;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), barewire::Error> {
    let (here, there) = memory(64 * 1024);

    let greeter = Methods::new().on("greet", |context: Context, (): ()| async move {
        context.progress(serde_json::json!("asking for a name")).await?;
        let name: String = context.call("name", ()).await?;
        Ok::<_, Failure>(format!("hello, {name}"))
    });
    let there = tokio::spawn(Connection::new(there).methods(greeter).run());

    let named = Methods::new().on("name", |_: Context, (): ()| async move { Ok("world") });
    let peer = Connection::new(here).methods(named).spawn();
    let call = peer.call("greet", ()).on_progress(|progress| eprintln!("progress: {progress}"));
    let greeting: String = call.await?;
    eprintln!("{greeting}");

    peer.shutdown().await?;
    there.await.map_err(std::io::Error::other)?
}
