//! What ends fields and rows, as options of statements and of the program write it. Format files have their own way.

/// The longest terminator.
const BYTES_MAX: usize = 64;

/// The bytes that a text stands for: `\t`, `\n`, `\r`, `\0` and `\\` are one byte each, `0x` is followed by bytes as
/// two hexadecimal digits, and all else is itself, a backslash too.
///
/// # Errors
/// What is wrong: no bytes, more than 64, or digits that are none.
pub fn terminator(written: &str) -> Result<Vec<u8>, &'static str> {
    let bytes = match written.strip_prefix("0x").or_else(|| written.strip_prefix("0X")) {
        Some(digits) => hexadecimal(digits).ok_or("0x is followed by two hexadecimal digits for each byte")?,
        None => unescaped(written),
    };
    match bytes.len() {
        0 => Err("it is empty"),
        1..=BYTES_MAX => Ok(bytes),
        _ => Err("it has more than 64 bytes"),
    }
}

fn hexadecimal(digits: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let bytes: Option<Vec<u8>> = pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect();
    bytes.filter(|_| rest.is_empty())
}

fn unescaped(written: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(written.len());
    let mut characters = written.chars();
    while let Some(character) = characters.next() {
        let meant = match (character, characters.clone().next()) {
            ('\\', Some('t')) => b'\t',
            ('\\', Some('n')) => b'\n',
            ('\\', Some('r')) => b'\r',
            ('\\', Some('0')) => 0,
            ('\\', Some('\\')) => b'\\',
            (other, _) => {
                bytes.extend_from_slice(other.encode_utf8(&mut [0; 4]).as_bytes());
                continue;
            }
        };
        characters.next();
        bytes.push(meant);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminators_have_escapes_and_bytes() {
        assert_eq!(terminator(r"|\t\r\n\0\\").as_deref(), Ok(b"|\t\r\n\0\\".as_slice()));
        assert_eq!(terminator("0x0d0A").as_deref(), Ok(b"\r\n".as_slice()));
        assert_eq!(terminator(r"a\x\").as_deref(), Ok(br"a\x\".as_slice()), "a backslash before another character");
        assert_eq!(terminator("ß").as_deref(), Ok("ß".as_bytes()));
        for wrong in ["", "0x", "0x1", "0xzz", &"x".repeat(65)] {
            assert!(terminator(wrong).is_err(), "{wrong}");
        }
        assert_eq!(terminator(&"x".repeat(64)).map(|bytes| bytes.len()), Ok(64));
    }
}
