#![no_main]

#[path = "../workbench/mod.rs"]
#[allow(dead_code)]
mod checks;

libfuzzer_sys::fuzz_target!(|data: &[u8]| checks::imports::check(data));
