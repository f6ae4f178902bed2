//! Encodings of text files, and how they become UTF-8.
//!
//! A file in UTF-8, or in a code page of single bytes whose first 128 characters are ASCII's, is cut into stretches as
//! it is: terminators and quotes are ASCII. Its text is decoded stretch by stretch, by the workers. UTF-16 and code
//! pages of several bytes, in which a byte of a character may look like a terminator, are decoded while they are read.

use std::borrow::Cow;
use std::io::{self, Read};
use std::sync::LazyLock;

use encoding_rs::{Decoder, DecoderResult, Encoding};

/// Bytes that are read from the file at a time.
const READ_BYTES: usize = 64 << 10;

/// The encoding of a text file.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum CodePage {
    /// 65001; a byte order mark is skipped.
    #[default]
    Utf8,
    /// Code page 437, that of the American DOS: `OEM`.
    Oem,
    /// Any other.
    Other(&'static Encoding),
}

impl CodePage {
    /// UTF-16, little-endian: `DATAFILETYPE = 'widechar'`.
    pub const WIDE: CodePage = CodePage::Other(encoding_rs::UTF_16LE);

    /// The code page of a `CODEPAGE` option: `ACP`, `OEM`, `RAW` or a number. `None` if it is not known.
    pub fn named(name: &str) -> Option<CodePage> {
        Some(match name.trim().to_ascii_uppercase().as_str() {
            // `RAW` converts nothing; what is stored are the bytes of code page 1252.
            "ACP" | "RAW" => CodePage::Other(encoding_rs::WINDOWS_1252),
            "OEM" | "437" => CodePage::Oem,
            "65001" | "UTF-8" | "UTF8" => CodePage::Utf8,
            other => CodePage::Other(Encoding::for_label(label(other)?.as_bytes())?),
        })
    }

    /// Whether terminators can be found in the file's own bytes.
    pub(crate) fn is_cut_undecoded(self) -> bool {
        match self {
            CodePage::Utf8 | CodePage::Oem => true,
            CodePage::Other(encoding) => encoding.is_single_byte(),
        }
    }

    /// Whether what is cut is UTF-8: the file is, or it is decoded while it is read.
    pub(crate) fn is_utf8_when_cut(self) -> bool {
        self == CodePage::Utf8 || !self.is_cut_undecoded()
    }

    /// The text of a stretch. One of an encoding that is decoded while it is read is UTF-8 already.
    ///
    /// # Errors
    /// The position of the first byte that is not of the encoding.
    pub(crate) fn text(self, bytes: &[u8]) -> Result<Cow<'_, str>, usize> {
        match self {
            _ if self.is_utf8_when_cut() => {
                std::str::from_utf8(bytes).map(Cow::Borrowed).map_err(|error| error.valid_up_to())
            }
            _ if bytes.is_ascii() => Ok(Cow::Borrowed(std::str::from_utf8(bytes).expect("ASCII is UTF-8"))),
            CodePage::Other(encoding) => self.field_text(bytes).ok_or_else(|| {
                bytes.iter().position(|byte| encoding.decode_without_bom_handling(&[*byte]).1).unwrap_or(0)
            }),
            CodePage::Utf8 | CodePage::Oem => self.field_text(bytes).ok_or(0),
        }
    }

    /// The text of a field whose bytes are those of the file; `None` if they are not of the encoding.
    pub(crate) fn field_text(self, bytes: &[u8]) -> Option<Cow<'_, str>> {
        match self {
            CodePage::Utf8 => std::str::from_utf8(bytes).map(Cow::Borrowed).ok(),
            CodePage::Oem => Some(Cow::Owned(bytes.iter().map(|byte| OEM[usize::from(*byte)]).collect())),
            CodePage::Other(encoding) => encoding.decode_without_bom_handling_and_without_replacement(bytes),
        }
    }
}

/// The name by which `encoding_rs` knows a code page's number.
fn label(number: &str) -> Option<String> {
    let number: u32 = number.parse().ok()?;
    Some(match number {
        874 => "windows-874".to_owned(),
        866 => "ibm866".to_owned(),
        932 => "shift_jis".to_owned(),
        936 => "gbk".to_owned(),
        949 => "euc-kr".to_owned(),
        950 => "big5".to_owned(),
        1200 => "utf-16le".to_owned(),
        1201 => "utf-16be".to_owned(),
        1250..=1258 => format!("windows-{number}"),
        20866 => "koi8-r".to_owned(),
        28591..=28606 => format!("iso-8859-{}", number - 28590),
        54936 => "gb18030".to_owned(),
        _ => return None,
    })
}

/// Code page 437's characters 0x80 to 0xFF.
const OEM_HIGH: &str = "ÇüéâäàåçêëèïîìÄÅÉæÆôöòûùÿÖÜ¢£¥₧ƒáíóúñÑªº¿⌐¬½¼¡«»░▒▓│┤╡╢╖╕╣║╗╝╜╛┐└┴┬├─┼╞╟╚╔╩╦╠═╬╧╨╤╥╙╘╒╓╫╪┘┌█▄▌▐▀αßΓπΣσµτΦΘΩδ∞φε∩≡±≥≤⌠⌡÷≈°∙·√ⁿ²■\u{A0}";

/// Code page 437's characters, by their bytes.
static OEM: LazyLock<Vec<char>> = LazyLock::new(|| (0..0x80_u8).map(char::from).chain(OEM_HIGH.chars()).collect());

/// Reads a file of another encoding as UTF-8. A byte order mark at the start is skipped.
pub(crate) struct Utf8Reader<R> {
    inner: R,
    decoder: Decoder,
    raw: Vec<u8>,
    /// What is decoded, and how much of it has been given.
    text: Vec<u8>,
    given: usize,
    at_end: bool,
}

impl<R: Read> Utf8Reader<R> {
    pub(crate) fn new(inner: R, encoding: &'static Encoding) -> Utf8Reader<R> {
        let decoder = encoding.new_decoder_with_bom_removal();
        Utf8Reader { inner, decoder, raw: vec![0; READ_BYTES], text: Vec::new(), given: 0, at_end: false }
    }

    /// Decodes the next bytes of the file.
    fn decode(&mut self) -> io::Result<()> {
        let read = self.inner.read(&mut self.raw)?;
        self.at_end = read == 0;
        let room = self.decoder.max_utf8_buffer_length_without_replacement(read).unwrap_or(4 * READ_BYTES);
        self.text.resize(room, 0);
        let (result, _, written) =
            self.decoder.decode_to_utf8_without_replacement(&self.raw[..read], &mut self.text, self.at_end);
        self.text.truncate(written);
        self.given = 0;
        match result {
            DecoderResult::InputEmpty => Ok(()),
            _ => Err(io::Error::new(io::ErrorKind::InvalidData, NOT_OF_ENCODING)),
        }
    }
}

impl<R: Read> Read for Utf8Reader<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.given == self.text.len() && !self.at_end {
            self.decode()?;
        }
        let rest = &self.text[self.given..];
        let count = rest.len().min(out.len());
        out[..count].copy_from_slice(&rest[..count]);
        self.given += count;
        Ok(count)
    }
}

/// The text of the error for bytes that an encoding does not have.
pub(crate) const NOT_OF_ENCODING: &str = "it has bytes that are no characters of its encoding";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_of_code_pages_are_known() {
        for name in ["ACP", "oem", "RAW", "65001", "1252", "1250", "932", "1200", "28591", "437"] {
            assert!(CodePage::named(name).is_some(), "{name}");
        }
        assert_eq!(CodePage::named("12345"), None);
        assert_eq!(CodePage::named("x"), None);
    }

    #[test]
    fn bytes_become_text_by_their_code_page() {
        let latin = CodePage::named("1252").expect("known");
        assert_eq!(latin.text(b"caf\xE9 \x80").expect("text"), "café €");
        assert_eq!(CodePage::Oem.text(b"caf\x82").expect("text"), "café");
        assert_eq!(CodePage::Utf8.text(b"ab\xFFc"), Err(2));
        assert_eq!(OEM.len(), 256);
    }

    #[test]
    fn wide_text_is_read_as_utf_8_across_reads_of_odd_length() {
        let text = "\u{FEFF}a,ü,😀\n".repeat(9000);
        let bytes: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
        struct Odd<'b>(&'b [u8]);
        impl Read for Odd<'_> {
            fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
                let count = out.len().min(self.0.len()).min(333);
                out[..count].copy_from_slice(&self.0[..count]);
                self.0 = &self.0[count..];
                Ok(count)
            }
        }
        let mut read = String::new();
        Utf8Reader::new(Odd(&bytes), encoding_rs::UTF_16LE).read_to_string(&mut read).expect("text");
        assert_eq!(read, text.strip_prefix('\u{FEFF}').expect("a mark"));
        let cut = &bytes[..bytes.len() - 1];
        assert!(Utf8Reader::new(cut, encoding_rs::UTF_16LE).read_to_string(&mut String::new()).is_err());
    }
}
