//! Frames near the limit and beyond it, and the memory after them.

use std::io::Write;
use std::thread;

use super::eventually::eventually_blocking;
use super::process::{Program, rss};
use super::wire::{id, is_result, request, shown};

const MIB: usize = 1 << 20;

#[test]
fn memory_comes_back_after_a_frame_of_60_mib_and_after_one_that_is_too_long() {
    for mut program in [Program::echo(), Program::role("yields")] {
        let mut stdin = program.stdin.take().expect("piped");
        stdin.write_all(&request(0, 1000)).expect("it reads");
        assert!(is_result(program.line().as_bytes()));
        let before = rss(program.pid());

        for (number, bytes) in [(1, 60 * MIB), (2, 60 * MIB), (3, 70 * MIB)] {
            let line = request(number, bytes);
            let (length, mut to) = (line.len(), stdin);
            let sending = thread::spawn(move || {
                to.write_all(&line).expect("it reads");
                to
            });
            let answer = program.line();
            stdin = sending.join().expect("no panic");
            assert_eq!(id(answer.as_bytes()), number, "{}", shown(answer.as_bytes()));
            if bytes < 64 * MIB {
                // `method` and `params` make room for `result`.
                assert!(is_result(answer.as_bytes()) && answer.len() + 13 == length, "{}", answer.len());
            } else {
                assert!(answer.contains("-32600") && answer.contains("too-long"), "{}", shown(answer.as_bytes()));
            }
            let pid = program.pid();
            let what = format!("after a frame of {bytes} bytes the memory is {before} KiB again");
            eventually_blocking(&what, || rss(pid) < before + 4096);
            let after = rss(pid);
            let _ = writeln!(std::io::stderr(), "frame of {bytes} bytes: {before} KiB before, {after} KiB after");
        }
        drop(stdin);
        assert_eq!(program.ends().code(), Some(0));
    }
}
