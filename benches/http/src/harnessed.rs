//! The protocol between a measured server and the harness: the server prints its port on stdout, and exits at the end
//! of its stdin.

use std::io::{self, Read, Write};
use std::net::SocketAddr;

/// The address that every server listens on.
pub const LISTEN_ADDRESS: &str = "127.0.0.1:0";

/// Prints the port, and exits at the end of stdin.
pub fn begin(addr: SocketAddr) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{}", addr.port())?;
    out.flush()?;
    std::thread::spawn(|| {
        // An end or an error of stdin both mean that the measurement is over.
        let _ = io::stdin().lock().read(&mut [0]);
        std::process::exit(0);
    });
    Ok(())
}
