//! A server that is measured: it says its port on stdout, and ends when its stdin does.

use std::io::{self, Read, Write};
use std::net::SocketAddr;

/// Where every server listens.
pub const ANYWHERE: &str = "127.0.0.1:0";

/// Says where it listens, and sees to its end.
pub fn begin(addr: SocketAddr) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{}", addr.port())?;
    out.flush()?;
    std::thread::spawn(|| {
        // However it ends, nobody measures any more.
        let _ = io::stdin().lock().read(&mut [0]);
        std::process::exit(0);
    });
    Ok(())
}
