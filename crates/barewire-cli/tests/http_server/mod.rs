//! A running `barewire serve --http`.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

pub(super) const PROGRAM: &str = env!("CARGO_BIN_EXE_barewire");
pub(super) const TOKEN: &str = "BAREWIRE_TEST_TOKEN";

/// A server that runs until it is dropped.
pub(super) struct HttpServer {
    pub(super) process: Child,
    pub(super) url: String,
    pub(super) announcement: Vec<String>,
}

impl HttpServer {
    pub(super) fn new(options: &[&str]) -> Self {
        let mut command = Command::new(PROGRAM);
        command.args(["serve", "--http", "127.0.0.1:0"]).args(options).env(TOKEN, "sesame");
        let mut process =
            command.stdin(Stdio::null()).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().expect("it runs");
        let stderr = BufReader::new(process.stderr.take().expect("piped"));
        let announcement: Vec<String> = stderr.lines().take(3).map(|line| line.expect("text")).collect();
        let url = announcement[0].split([' ', ',']).find(|word| word.starts_with("http://")).expect("a URL").to_owned();
        Self { process, url, announcement }
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
