//! SQL Server's bytes of text: code page 1252 for `char` and `varchar`, UTF-16 little-endian for the national types.

use std::borrow::Cow;

use hobt_types::SqlType;

/// Code page 1252's characters 0x80 to 0x9F. The five unassigned ones keep their number, as in Windows.
const HIGH: [char; 32] = [
    '€', '\u{81}', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', '\u{8D}', 'Ž', '\u{8F}', '\u{90}', '‘', '’',
    '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', '\u{9D}', 'ž', 'Ÿ',
];

/// The byte of a character; `None` if the code page does not have it.
pub(crate) fn encode_char(character: char) -> Option<u8> {
    match character as u32 {
        code @ (0..=0x7F | 0xA0..=0xFF) => u8::try_from(code).ok(),
        _ => {
            let place = HIGH.iter().position(|known| *known == character)?;
            u8::try_from(0x80 + place).ok()
        }
    }
}

/// The character of a byte.
pub(crate) fn decode_byte(byte: u8) -> char {
    match byte {
        0x80..=0x9F => HIGH[usize::from(byte - 0x80)],
        _ => char::from(byte),
    }
}

/// Appends SQL Server's bytes of `text`, with `?` for characters that the code page does not have.
pub(crate) fn encode(text: &str, sql_type: SqlType, out: &mut Vec<u8>) {
    if sql_type.is_national() && text.is_ascii() {
        let start = out.len();
        out.resize(start + 2 * text.len(), 0);
        let (units, _) = out[start..].as_chunks_mut::<2>();
        units.iter_mut().zip(text.bytes()).for_each(|(unit, byte)| unit[0] = byte);
    } else if sql_type.is_national() {
        out.extend(text.encode_utf16().flat_map(u16::to_le_bytes));
    } else if text.is_ascii() {
        out.extend_from_slice(text.as_bytes());
    } else {
        out.extend(text.chars().map(|character| encode_char(character).unwrap_or(b'?')));
    }
}

/// The text of SQL Server's bytes. An odd last byte of UTF-16 is completed with 0; lone surrogates become U+FFFD.
pub(crate) fn decode(bytes: &[u8], sql_type: SqlType) -> String {
    if sql_type.is_national() {
        let units = bytes.chunks(2).map(|unit| u16::from_le_bytes([unit[0], unit.get(1).copied().unwrap_or(0)]));
        char::decode_utf16(units).map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
    } else {
        bytes.iter().map(|byte| decode_byte(*byte)).collect()
    }
}

/// The number of UTF-16 units of a text: `LEN`'s unit.
pub(crate) fn units(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.chars().map(char::len_utf16).sum() }
}

/// The byte offset of the character that contains unit `units`; the text's length if it is shorter. For a unit inside a
/// surrogate pair it is the start of the pair.
pub(crate) fn byte_of_unit(text: &str, units: usize) -> usize {
    if text.is_ascii() {
        return units.min(text.len());
    }
    let mut seen = 0;
    for (at, character) in text.char_indices() {
        if seen + character.len_utf16() > units {
            return at;
        }
        seen += character.len_utf16();
    }
    text.len()
}

/// Units `start..end` of a text. Half of a surrogate pair, which UTF-8 cannot represent, becomes U+FFFD.
pub(crate) fn slice_units(text: &str, start: usize, end: usize) -> Cow<'_, str> {
    if text.is_ascii() {
        let start = start.min(text.len());
        return Cow::Borrowed(&text[start..end.clamp(start, text.len())]);
    }
    let mut seen = 0;
    let (mut from, mut to, mut halves) = (text.len(), text.len(), (false, false));
    for (at, character) in text.char_indices() {
        let width = character.len_utf16();
        if seen >= start {
            from = from.min(at);
        } else if seen + width > start && end > start {
            // The second half of the pair.
            halves.0 = true;
        }
        if seen + width > end {
            (to, halves.1) = (at, seen < end && seen >= start);
            break;
        }
        seen += width;
    }
    let whole = &text[from.min(to)..to];
    if halves == (false, false) {
        return Cow::Borrowed(whole);
    }
    let half = |there: bool| if there { "\u{FFFD}" } else { "" };
    Cow::Owned([half(halves.0), whole, half(halves.1)].concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hobt_types::MaxLength;

    #[test]
    fn text_survives_its_bytes() {
        let narrow = SqlType::VarChar(MaxLength::Max);
        let wide = SqlType::NVarChar(MaxLength::Max);
        for (text, sql_type, bytes) in
            [("aé€", narrow, vec![0x61, 0xE9, 0x80]), ("a€", wide, vec![0x61, 0, 0xAC, 0x20]), ("", wide, vec![])]
        {
            let mut out = Vec::new();
            encode(text, sql_type, &mut out);
            assert_eq!(out, bytes);
            assert_eq!(decode(&out, sql_type), text);
        }
        let mut out = Vec::new();
        encode("漢", narrow, &mut out);
        assert_eq!(out, b"?");
        assert_eq!(decode(&[0x00, 0xD8], wide), "\u{FFFD}");
    }

    #[test]
    fn units_count_utf_16() {
        assert_eq!(units("a😀é"), 4);
        assert_eq!(byte_of_unit("a😀é", 1), 1);
        assert_eq!(byte_of_unit("a😀é", 2), 1);
        assert_eq!(byte_of_unit("a😀é", 3), 5);
        assert_eq!(byte_of_unit("abc", 9), 3);
    }

    #[test]
    fn a_slice_has_the_units_asked_for() {
        let text = "a😀é😀";
        let halves: Vec<u16> = text.encode_utf16().collect();
        for start in 0..=8 {
            for end in start..=8 {
                let wanted = &halves[start.min(6)..end.min(6)];
                assert_eq!(slice_units(text, start, end), String::from_utf16_lossy(wanted), "{start}..{end}");
            }
        }
        assert_eq!(slice_units("abc", 1, 9), "bc");
        assert_eq!(slice_units("abc", 7, 9), "");
    }
}
