//! `barewire serve --http`, for the tests that ask it.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

pub(super) const PROGRAM: &str = env!("CARGO_BIN_EXE_barewire");
pub(super) const TOKEN: &str = "BAREWIRE_TEST_TOKEN";

/// A server that runs until it is dropped.
pub(super) struct Served {
    pub(super) process: Child,
    pub(super) url: String,
    #[allow(dead_code, reason = "not everybody reads what it says")]
    pub(super) said: Vec<String>,
}

impl Served {
    pub(super) fn new(options: &[&str]) -> Self {
        let mut command = Command::new(PROGRAM);
        command.args(["serve", "--http", "127.0.0.1:0"]).args(options).env(TOKEN, "sesame");
        let mut process =
            command.stdin(Stdio::null()).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().expect("it runs");
        let stderr = BufReader::new(process.stderr.take().expect("piped"));
        let said: Vec<String> = stderr.lines().take(3).map(|line| line.expect("text")).collect();
        let url = said[0].split([' ', ',']).find(|word| word.starts_with("http://")).expect("a URL").to_owned();
        Self { process, url, said }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
