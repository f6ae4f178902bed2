//! Terminators: how format files write them.
//!
//! | written | byte |
//! |---|---|
//! | `\t` `\n` `\r` `\0` | tab, line feed, carriage return, zero |
//! | `\\` `\"` | the backslash, the quote |
//! | `\xHH` | the byte with this hexadecimal number; hobt's own |
//! | `0xHH…`, as a whole | these bytes, as `FIELDTERMINATOR` has them |
//! | any other | itself, a backslash too |

/// The longest terminator; Microsoft says 10 characters.
const BYTES_MAX: usize = 128;

/// The bytes of a terminator as it is written, without quotes around it. Wide ones become UTF-16 unless they are that
/// already: bcp writes `\t\0`, format files by hand have `\t`, and numbers say whole characters. `None` if it is too
/// long.
pub(super) fn parse(written: &[u8], wide: bool) -> Option<Vec<u8>> {
    if written.len() > 4 * BYTES_MAX {
        return None;
    }
    let number = hexadecimal(written);
    let is_number = number.is_some();
    let bytes = number.unwrap_or_else(|| unescaped(written));
    let is_done = if is_number { bytes.len().is_multiple_of(2) } else { is_wide(&bytes) };
    let bytes = if wide && !is_done { widened(&bytes) } else { bytes };
    (bytes.len() <= BYTES_MAX).then_some(bytes)
}

/// `0x0D0A`.
fn hexadecimal(written: &[u8]) -> Option<Vec<u8>> {
    let digits = written.strip_prefix(b"0x").or_else(|| written.strip_prefix(b"0X"))?;
    if digits.is_empty() || !digits.len().is_multiple_of(2) {
        return None;
    }
    digits.chunks_exact(2).map(hex_byte).collect()
}

fn hex_byte(digits: &[u8]) -> Option<u8> {
    let [high, low] = *digits else { return None };
    let digit = |byte: u8| char::from(byte).to_digit(16);
    Some((digit(high)? * 16 + digit(low)?) as u8)
}

fn unescaped(written: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(written.len());
    let mut rest = written;
    while let [first, tail @ ..] = rest {
        let (byte, length) = match (first, tail) {
            (b'\\', [b't', ..]) => (b'\t', 2),
            (b'\\', [b'n', ..]) => (b'\n', 2),
            (b'\\', [b'r', ..]) => (b'\r', 2),
            (b'\\', [b'0', ..]) => (0, 2),
            (b'\\', [escaped @ (b'\\' | b'"'), ..]) => (*escaped, 2),
            (b'\\', [b'x' | b'X', high, low, ..]) => hex_byte(&[*high, *low]).map_or((b'\\', 1), |byte| (byte, 4)),
            _ => (*first, 1),
        };
        bytes.push(byte);
        rest = &rest[length..];
    }
    bytes
}

/// Whether bytes are ASCII in UTF-16.
fn is_wide(bytes: &[u8]) -> bool {
    bytes.len().is_multiple_of(2) && bytes.chunks_exact(2).all(|unit| unit[1] == 0)
}

fn widened(bytes: &[u8]) -> Vec<u8> {
    super::text(bytes).encode_utf16().flat_map(u16::to_le_bytes).collect()
}

/// A terminator as format files write it, in ASCII, without quotes around it.
pub(super) fn written(bytes: &[u8], wide: bool) -> String {
    let mut written = String::with_capacity(bytes.len() * 2);
    if wide && !is_wide(bytes) {
        written.push_str("0x");
        bytes.iter().for_each(|byte| written.push_str(&format!("{byte:02X}")));
        return written;
    }
    for (place, byte) in bytes.iter().enumerate() {
        match byte {
            b'\t' => written.push_str("\\t"),
            b'\n' => written.push_str("\\n"),
            b'\r' => written.push_str("\\r"),
            0 => written.push_str("\\0"),
            b'\\' => written.push_str("\\\\"),
            b'"' => written.push_str("\\\""),
            // A terminator that begins as a number does.
            b'x' | b'X' if place == 1 && bytes[0] == b'0' => written.push_str(&format!("\\x{byte:02X}")),
            b' '..=b'~' => written.push(char::from(*byte)),
            _ => written.push_str(&format!("\\x{byte:02X}")),
        }
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_bytes() {
        let cases: [(&str, &[u8]); 10] = [
            ("\\t", b"\t"),
            ("\\r\\n", b"\r\n"),
            ("\\\",\\\"", b"\",\""),
            ("\\\\", b"\\"),
            ("\\|", b"\\|"),
            ("0x0D0a", b"\r\n"),
            ("0x0", b"0x0"),
            ("\\xfe", b"\xFE"),
            ("\\xzz", b"\\xzz"),
            ("!!!\\r\\r\\n", b"!!!\r\r\n"),
        ];
        for (written, bytes) in cases {
            assert_eq!(parse(written.as_bytes(), false).as_deref(), Some(bytes), "{written}");
        }
        assert_eq!(parse(&[b'x'; 129], false), None);
    }

    #[test]
    fn wide_terminators_may_be_written_either_way() {
        for (written, bytes) in [("\\t", "\t\0"), ("\\t\\0", "\t\0"), ("\\r\\0\\n\\0", "\r\0\n\0"), ("\\0", "\0\0")] {
            assert_eq!(parse(written.as_bytes(), true).as_deref(), Some(bytes.as_bytes()), "{written}");
        }
        assert_eq!(parse("¶".as_bytes(), true), Some(vec![0xB6, 0]));
        assert_eq!(parse(b"\xB6", true), Some(vec![0xB6, 0]));
        assert_eq!(parse(b"0xAC20", true), Some(vec![0xAC, 0x20]));
        assert_eq!(parse(b"0x0A", true), Some(vec![b'\n', 0]));
    }

    #[test]
    fn any_bytes_are_written_so_that_they_are_read_again() {
        let all: Vec<u8> = (0..=255).collect();
        for bytes in all.chunks(100).chain([&b"0x00"[..], b"0X41", b"\\x41", b"\\\\t", b"0x"]) {
            for wide in [false, true].into_iter().take(1 + usize::from(bytes.len().is_multiple_of(2))) {
                assert_eq!(parse(written(bytes, wide).as_bytes(), wide).as_deref(), Some(bytes));
            }
        }
    }
}
