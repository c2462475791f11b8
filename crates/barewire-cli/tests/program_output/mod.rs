//! The output and the exit code of the program.

use std::process::Output;

/// An address at which no server listens. A port that was free a moment ago may belong to another process now.
pub(super) const NO_SERVER: &str = "127.0.0.1:1";

/// Returns the lines of stderr without what our own server says of a machine that is too busy for it.
pub(super) fn without_slowness(stderr: &str) -> String {
    stderr.split_inclusive('\n').filter(|line| !line.contains("blocked its connection for")).collect()
}

#[derive(Debug)]
pub(super) struct ProgramOutput {
    pub(super) code: Option<i32>,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

impl ProgramOutput {
    pub(super) fn of(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
        let stderr = without_slowness(&text(output.stderr));
        Self { code: output.status.code(), stdout: text(output.stdout), stderr }
    }

    #[track_caller]
    pub(super) fn has(&self, code: i32, stdout: &str, stderr: &str) {
        assert_eq!((self.code, &*self.stdout, &*self.stderr), (Some(code), stdout, stderr));
    }
}
