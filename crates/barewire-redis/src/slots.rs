//! The answer to CLUSTER SLOTS -> which server of a Redis Cluster has which keys.

use redis::Value;

/// Slots that one server has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SlotRange {
    pub(crate) first: u16,
    pub(crate) last: u16,
    pub(crate) host: String,
    pub(crate) port: u16,
}

/// Returns the slot of a key: that of its hash tag, if it has one.
pub(crate) fn slot_of(key: &str) -> u16 {
    let tag = key.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map(|(tag, _)| tag);
    crc16(tag.filter(|tag| !tag.is_empty()).unwrap_or(key).as_bytes()) % SLOTS
}

/// Reads the answer to CLUSTER SLOTS, which leaves out the host of the server that was asked if it does not know it.
pub(crate) fn read_slots(answer: &Value, asked_host: &str) -> Option<Vec<SlotRange>> {
    let Value::Array(ranges) = answer else { return None };
    ranges.iter().map(|range| read_range(range, asked_host)).collect()
}

fn read_range(range: &Value, asked_host: &str) -> Option<SlotRange> {
    let Value::Array(parts) = range else { return None };
    let [first, last, Value::Array(primary), ..] = &parts[..] else { return None };
    let [host, port, ..] = &primary[..] else { return None };
    let host = match host {
        Value::BulkString(host) => std::str::from_utf8(host).ok()?,
        Value::SimpleString(host) => host,
        _ => "",
    };
    let host = if host.is_empty() || host == "?" { asked_host } else { host };
    Some(SlotRange { first: number(first)?, last: number(last)?, host: host.to_owned(), port: number(port)? })
}

fn number(value: &Value) -> Option<u16> {
    let Value::Int(number) = value else { return None };
    u16::try_from(*number).ok()
}

/// Returns the checksum by which Redis Cluster spreads keys: CRC-16/XMODEM.
fn crc16(bytes: &[u8]) -> u16 {
    let mut crc: u16 = 0;
    for byte in bytes {
        crc ^= u16::from(*byte) << 8;
        for _ in 0..8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 };
        }
    }
    crc
}

/// The number of slots of a Redis Cluster.
pub(crate) const SLOTS: u16 = 16384;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_the_slots_that_redis_gives_them() {
        assert_eq!(crc16(b"123456789"), 0x31C3);
        // As `CLUSTER KEYSLOT` answers.
        for (key, slot) in [("foo", 12182), ("{foo}:bar", 12182), ("a{foo}{bar}", 12182), ("", 0)] {
            assert_eq!(slot_of(key), slot, "{key}");
        }
        assert_eq!(slot_of("{}foo"), crc16(b"{}foo") % SLOTS, "an empty hash tag is none");
    }

    #[test]
    fn the_primaries_of_slots_are_read() {
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let server = |host: Value, port| Value::Array(vec![host, Value::Int(port), text("id"), Value::Array(vec![])]);
        let range = |first, last, primary| Value::Array(vec![Value::Int(first), Value::Int(last), primary, Value::Nil]);
        let answer = Value::Array(vec![
            range(0, 8191, server(text("10.0.0.1"), 7000)),
            range(8192, 16383, server(Value::Nil, 7001)),
        ]);
        let ranges = read_slots(&answer, "asked").expect("an answer");
        let facts: Vec<_> =
            ranges.iter().map(|range| (range.first, range.last, range.host.as_str(), range.port)).collect();
        assert_eq!(facts, [(0, 8191, "10.0.0.1", 7000), (8192, 16383, "asked", 7001)]);
        assert_eq!(read_slots(&Value::Array(vec![Value::Int(1)]), "asked"), None);
        assert_eq!(read_slots(&Value::Nil, "asked"), None);
    }
}
