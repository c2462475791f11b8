//! A whole wire -> its figures: what there was, how long it took, what failed, and who spoke.

mod collect;
mod figures;
mod json;
mod text;

use super::Args;
use crate::output::Output;
use crate::{Exit, Failure};
use barewire_workbench::frames::FrameReader;
use collect::Collect;

pub(super) fn run(args: &Args, reading: &FrameReader<'_>, output: &mut Output) -> Result<Exit, Failure> {
    let mut collect = Collect::default();
    reading.each(&mut collect)?;
    let summary = collect.finish();
    if args.json {
        json::write(output, &summary)?
    } else {
        text::write(output, &summary)?
    }
    Ok(if summary.invalid() == 0 { Exit::Clean } else { Exit::No })
}
