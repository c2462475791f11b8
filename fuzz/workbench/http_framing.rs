//! Checks the HTTP/1.1 decoder: any split of the bytes gives the same heads and bodies, and returns every byte once.

use barewire_workbench::http::decoder::{BodyLength, HttpDecoder, HttpFramingError, HttpPart};

use super::{setup, splits};

/// A part of the bytes in one direction of a connection. Adjacent parts of the same kind are joined.
#[derive(Debug, PartialEq)]
enum Cut {
    Head(Vec<u8>),
    Body(Vec<u8>),
    Framing(Vec<u8>),
    End,
    /// The head is refused, and nothing more is read.
    Refused,
    Broken(HttpFramingError),
}

/// The longest head that the decoder accepts, in bytes, as in `docs/limits.md`.
const HEAD_LIMIT: usize = 64 * 1024;

pub fn check(data: &[u8]) {
    let Some((options, cuts, stream)) = setup(data) else { return };
    any_split(stream, cuts);
    chunks(stream, cuts);
    if options == 0 {
        long_head(stream, cuts);
    }
}

/// Returns the length of the body after a head, from the first header that defines it; `None` refuses the head.
fn follows(head: &[u8]) -> Option<BodyLength> {
    let head = String::from_utf8_lossy(head).to_ascii_lowercase();
    for line in head.lines() {
        match line.split_once(':') {
            Some(("transfer-encoding", _)) => return Some(BodyLength::Chunked),
            // A length that is not a number is refused.
            Some(("content-length", length)) => return length.trim().parse().ok().map(BodyLength::Known),
            Some(("upgrade", _)) => return Some(BodyLength::UntilClose),
            _ => {}
        }
    }
    Some(BodyLength::None)
}

/// Checks that any split of the bytes gives the same parts, and that the parts together are the bytes.
fn any_split(stream: &[u8], cuts: u8) {
    let [whole, others @ ..] = splits(stream, cuts).map(|pieces| cut(&pieces, follows));
    for other in others {
        assert_eq!(other, whole);
    }
    let mut given = Vec::new();
    for part in &whole {
        match part {
            Cut::Head(bytes) | Cut::Body(bytes) | Cut::Framing(bytes) => given.extend_from_slice(bytes),
            Cut::End | Cut::Refused | Cut::Broken(_) => {}
        }
    }
    let Some(rest) = stream.strip_prefix(&given[..]) else { panic!("{whole:?}") };
    if !matches!(whole.last(), Some(Cut::Refused | Cut::Broken(_))) {
        let has = |end: &[u8]| rest.windows(end.len()).any(|it| it == end);
        assert!(!has(b"\n\n") && !has(b"\n\r\n"), "only a head that is not complete is held back");
    }
}

/// Decodes the pieces into parts. `follows` returns the length of the body after a head.
fn cut(pieces: &[&[u8]], follows: fn(&[u8]) -> Option<BodyLength>) -> Vec<Cut> {
    let (mut decoder, mut cut) = (HttpDecoder::new(), Vec::new());
    // The missing bytes of a body of known length, and the bytes that the decoder has taken but not returned yet.
    let (mut left, mut held) = (None, 0);
    for mut piece in pieces.iter().copied() {
        loop {
            let before = piece.len();
            let part = decoder.next(&mut piece);
            held += before - piece.len();
            match part {
                Ok(None) => {
                    assert!(piece.is_empty(), "None means that all was taken");
                    assert!(held <= HEAD_LIMIT, "{held} bytes are held");
                    break;
                }
                Ok(Some(HttpPart::Head(head))) => {
                    held -= head.len();
                    let next = follows(&head);
                    cut.push(Cut::Head(head));
                    match next {
                        Some(next) => {
                            left = match next {
                                BodyLength::None => Some(0),
                                BodyLength::Known(length) => Some(length),
                                BodyLength::Chunked | BodyLength::UntilClose => None,
                            };
                            decoder.set_body(next);
                        }
                        None => {
                            cut.push(Cut::Refused);
                            return cut;
                        }
                    }
                }
                Ok(Some(HttpPart::Body(bytes))) => {
                    held -= bytes.len();
                    if let Some(left) = &mut left {
                        *left = left.checked_sub(bytes.len() as u64).expect("a body is not longer than its length");
                    }
                    match cut.last_mut() {
                        Some(Cut::Body(body)) => body.extend_from_slice(bytes),
                        _ => cut.push(Cut::Body(bytes.to_vec())),
                    }
                }
                Ok(Some(HttpPart::Framing(bytes))) => {
                    held -= bytes.len();
                    match cut.last_mut() {
                        Some(Cut::Framing(framing)) => framing.extend_from_slice(bytes),
                        _ => cut.push(Cut::Framing(bytes.to_vec())),
                    }
                }
                Ok(Some(HttpPart::End)) => {
                    assert!(matches!(left, None | Some(0)), "{left:?} bytes are missing");
                    assert!(decoder.is_between());
                    cut.push(Cut::End);
                }
                Err(broken) => {
                    // How much of a broken chunk was already returned depends on the split, so it is not compared.
                    if matches!((broken, cut.last()), (HttpFramingError::Chunk, Some(Cut::Framing(_)))) {
                        cut.pop();
                    }
                    cut.push(Cut::Broken(broken));
                    return cut;
                }
            }
        }
    }
    cut
}

/// Checks that a body that is sent in chunks is returned unchanged, also if another message follows it.
fn chunks(body: &[u8], cuts: u8) {
    let mut wire = HEAD.to_vec();
    for chunk in body.chunks(usize::from(cuts) + 1) {
        wire.extend_from_slice(format!("{:X};a=\"b\"\r\n", chunk.len()).as_bytes());
        wire.extend_from_slice(chunk);
        wire.extend_from_slice(b"\r\n");
    }
    wire.extend_from_slice(b"0\r\na: b\r\n\r\n");
    wire.extend_from_slice(HEAD);
    for pieces in splits(&wire, cuts) {
        let cut = cut(&pieces, |_| Some(BodyLength::Chunked));
        let heads = cut.iter().filter(|part| **part == Cut::Head(HEAD.to_vec())).count();
        let bodies = cut.iter().filter_map(|part| if let Cut::Body(bytes) = part { Some(&bytes[..]) } else { None });
        assert_eq!((heads, bodies.collect::<Vec<_>>().concat()), (2, body.to_vec()));
        assert_eq!(cut.iter().filter(|part| **part == Cut::End).count(), 1);
    }
}

const HEAD: &[u8] = b"PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";

/// Checks that a head that does not end is refused when it exceeds the limit.
fn long_head(line: &[u8], cuts: u8) {
    let line: Vec<u8> = [b"x", line].concat().into_iter().filter(|byte| *byte != b'\n').collect();
    let endless = line.repeat(HEAD_LIMIT / line.len() + 1);
    for pieces in [vec![&endless[..]], endless.chunks(usize::from(cuts) + 64).collect()] {
        assert_eq!(cut(&pieces, |_| Some(BodyLength::None)), [Cut::Broken(HttpFramingError::LongHead)]);
    }
}
