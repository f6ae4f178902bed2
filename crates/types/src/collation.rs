//! Collations: how text compares.
//!
//! A key is bytes whose order and equality are those of the collation. Joins, groups, sorts and distinct counts compare
//! keys, never the text itself. Trailing spaces do not count in any collation (the shorter string is padded, as SQL-92
//! specifies).
//!
//! The key of the linguistic collations has up to three levels, as in the Unicode Collation Algorithm (UTS #10), over a
//! weight table of its own for ASCII and Latin-1:
//!
//! ```text
//! primary weights [ 01 accents [ 01 case ]]        a level that is empty to the end is left out
//! ```
//!
//! - Primary: one byte for a character of ASCII or Latin-1 (space, then control characters, punctuation, digits,
//!   letters; case and accent removed; `ß` as `ss`, `æ` as `ae`). Every other character is four bytes, `E0` and its
//!   lower-case code point, so that other scripts follow Latin in code-point order.
//! - Accents: one byte for each primary weight, up to the last that is not plain.
//! - Case, only if case counts: as for accents. Lower case comes before upper case.
//!
//! So an ASCII string under the default collation has a key of its own length: its bytes, mapped.
//!
//! The weights are not SQL Server's own: order within punctuation follows code points, and the hyphen and the
//! apostrophe are treated like other punctuation.

use std::cmp::Ordering;
use std::fmt;

/// A collation of columns and expressions.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Collation {
    /// `SQL_Latin1_General_CP1_CI_AS`, the default: case does not count, accents do.
    #[default]
    Latin1GeneralCiAs,
    /// `Latin1_General_CS_AS`: case and accents count.
    Latin1GeneralCsAs,
    /// `Latin1_General_BIN2`: code points.
    Latin1GeneralBin2,
}

/// A collation's key of one string; see the module.
pub type CollationKey = Vec<u8>;

/// Separates the levels of a key: below every weight.
const LEVEL: u8 = 0x01;
/// The lead byte of a primary weight that holds a code point.
const OTHER: u8 = 0xE0;
/// The accent or case weight of a plain lower-case letter.
const PLAIN: u8 = 0x02;
/// The case weight of an upper-case letter.
const UPPER: u8 = 0x03;
/// The primary weight of `0`.
const DIGIT: u8 = 0x88;
/// The primary weight of `a`. Letters are three apart: `ð` and `þ` follow `d` and `t`.
const LETTER: u8 = 0x92;
/// The primary weight of U+0080, the first of Latin-1's controls and punctuation.
const LATIN1_SIGN: u8 = 0x46;

/// Base letters of U+00C0 to U+00FF in lower case; 0 if the character has none.
const LATIN1_BASE: &[u8; 64] = b"aaaaaa\0ceeeeiiii\0nooooo\0ouuuuy\0\0aaaaaa\0ceeeeiiii\0nooooo\0ouuuuy\0y";
/// Their accents, for both cases: grave 10, acute 11, circumflex 12, tilde 13, diaeresis 14, ring 15, cedilla 16,
/// stroke 17.
const LATIN1_ACCENT: [u8; 32] = [
    0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0, 0x16, 0x10, 0x11, 0x12, 0x14, 0x10, 0x11, 0x12, 0x14, 0, 0x13, 0x10, 0x11,
    0x12, 0x13, 0x14, 0, 0x17, 0x10, 0x11, 0x12, 0x14, 0x11, 0, 0x14,
];

const _: () = assert!(LATIN1_SIGN + 66 <= DIGIT && DIGIT + 10 <= LETTER && LETTER + 3 * 26 <= OTHER, "weights overlap");

/// The primary weights of ASCII without case: the whole key of an ASCII string.
static ASCII_PRIMARY: [u8; 128] = ascii_primary();

const fn ascii_primary() -> [u8; 128] {
    let mut table = [0; 128];
    let mut sign = 0x24;
    let mut byte = 0u8;
    while byte < 128 {
        table[byte as usize] = match byte {
            0..=31 => 0x04 + byte,
            b' ' => 0x03,
            b'0'..=b'9' => DIGIT + (byte - b'0'),
            b'a'..=b'z' => LETTER + 3 * (byte - b'a'),
            b'A'..=b'Z' => LETTER + 3 * (byte - b'A'),
            _ => {
                sign += 1;
                sign - 1
            }
        };
        byte += 1;
    }
    assert!(sign < LATIN1_SIGN, "ASCII's punctuation runs into Latin-1's");
    table
}

/// The weights of one character.
struct Weights {
    /// Up to four bytes of primary weight, of which `len` are used.
    primary: [u8; 4],
    len: u8,
    /// The number of its accent and case weights: one for each letter that it stands for.
    units: u8,
    accent: u8,
    case: u8,
}

impl Weights {
    const fn one(primary: u8, accent: u8, case: u8) -> Weights {
        Weights { primary: [primary, 0, 0, 0], len: 1, units: 1, accent, case }
    }

    const fn two(first: u8, second: u8, case: u8) -> Weights {
        Weights { primary: [first, second, 0, 0], len: 2, units: 2, accent: PLAIN, case }
    }

    fn of(character: char) -> Weights {
        let code = character as u32;
        let letter = |byte: u8| ASCII_PRIMARY[byte as usize];
        match code {
            0..=127 => {
                let byte = code as u8;
                let case = if byte.is_ascii_uppercase() { UPPER } else { PLAIN };
                Weights::one(ASCII_PRIMARY[byte as usize], PLAIN, case)
            }
            0x80..=0xBF => Weights::one(LATIN1_SIGN + (code - 0x80) as u8, PLAIN, PLAIN),
            0xC0..=0xFF => {
                let case = if code < 0xDF { UPPER } else { PLAIN };
                match character {
                    'Æ' | 'æ' => Weights::two(letter(b'a'), letter(b'e'), case),
                    'ß' => Weights::two(letter(b's'), letter(b's'), PLAIN),
                    'Ð' | 'ð' => Weights::one(letter(b'd') + 1, PLAIN, case),
                    'Þ' | 'þ' => Weights::one(letter(b't') + 1, PLAIN, case),
                    '×' => Weights::one(LATIN1_SIGN + 64, PLAIN, PLAIN),
                    '÷' => Weights::one(LATIN1_SIGN + 65, PLAIN, PLAIN),
                    _ => {
                        let base = LATIN1_BASE[(code - 0xC0) as usize];
                        Weights::one(letter(base), LATIN1_ACCENT[(code & 0x1F) as usize], case)
                    }
                }
            }
            _ => {
                // Folded to lower case if that is one character. If it is several (İ), the character is kept.
                let mut lower = character.to_lowercase();
                let folded = match (lower.next(), lower.next()) {
                    (Some(only), None) => only,
                    _ => character,
                };
                let [_, high, middle, low] = (folded as u32).to_be_bytes();
                let case = if folded == character { PLAIN } else { UPPER };
                Weights { primary: [OTHER, high, middle, low], len: 4, units: 1, accent: PLAIN, case }
            }
        }
    }
}

/// Appends `weights` without the plain ones at their end. Returns whether anything was appended.
fn push_level(out: &mut Vec<u8>, weights: &[u8]) -> bool {
    let end = weights.iter().rposition(|weight| *weight != PLAIN).map_or(0, |last| last + 1);
    out.extend_from_slice(&weights[..end]);
    end > 0
}

/// Appends the key of any text in a linguistic collation.
fn push_key(text: &str, with_case: bool, out: &mut Vec<u8>) {
    let (mut accents, mut cases) = (Vec::new(), Vec::new());
    for character in text.chars() {
        let weights = Weights::of(character);
        out.extend_from_slice(&weights.primary[..usize::from(weights.len)]);
        for _ in 0..weights.units {
            accents.push(weights.accent);
            cases.push(weights.case);
        }
    }
    let primary_end = out.len();
    out.push(LEVEL);
    let mut keep = if push_level(out, &accents) { out.len() } else { primary_end };
    if with_case {
        out.push(LEVEL);
        if push_level(out, &cases) {
            keep = out.len();
        }
    }
    out.truncate(keep);
}

fn trim(text: &str) -> &str {
    text.trim_end_matches(' ')
}

impl Collation {
    /// Appends the key of `text` to `out`.
    pub fn sort_key(self, text: &str, out: &mut Vec<u8>) {
        let text = trim(text);
        match self {
            Collation::Latin1GeneralCiAs => {
                if text.is_ascii() {
                    out.extend(text.bytes().map(|byte| ASCII_PRIMARY[usize::from(byte & 0x7F)]));
                } else {
                    push_key(text, false, out);
                }
            }
            Collation::Latin1GeneralCsAs => push_key(text, true, out),
            Collation::Latin1GeneralBin2 => out.extend_from_slice(text.as_bytes()),
        }
    }

    /// Appends the common beginning of the keys of all strings that begin with `prefix`: its primary weights.
    pub fn sort_key_prefix(self, prefix: &str, out: &mut Vec<u8>) {
        match self {
            Collation::Latin1GeneralBin2 => out.extend_from_slice(prefix.as_bytes()),
            Collation::Latin1GeneralCiAs | Collation::Latin1GeneralCsAs => {
                for weights in prefix.chars().map(Weights::of) {
                    out.extend_from_slice(&weights.primary[..usize::from(weights.len)]);
                }
            }
        }
    }

    /// The key of a string of at most twelve bytes, both in the form of Arrow's views: the length in the lowest four
    /// bytes, and then the bytes. `None` if the key does not have a byte for each of the string's, which are not all
    /// ASCII, say. This is the fast path for a column of short strings: no allocation, no second level.
    #[inline]
    pub fn short_key(self, view: u128) -> Option<u128> {
        // The bits of a view that no ASCII character has.
        const OTHER: u128 = 0x8080_8080_8080_8080_8080_8080 << 32;
        let mut length = view as u32;
        debug_assert!(length <= 12, "a short string");
        while length > 0 && (view >> (24 + 8 * length)) as u8 == b' ' {
            length -= 1;
        }
        let mask = u128::MAX >> (96 - 8 * length);
        match self {
            Collation::Latin1GeneralCiAs if view & OTHER == 0 => {
                let text = view.to_le_bytes();
                let mut key = [0; 16];
                // A fixed number of bytes, so that the loop is unrolled.
                for (key, byte) in key[4..].iter_mut().zip(&text[4..]) {
                    *key = ASCII_PRIMARY[usize::from(*byte & 0x7F)];
                }
                Some(u128::from_le_bytes(key) & mask | u128::from(length))
            }
            Collation::Latin1GeneralCiAs | Collation::Latin1GeneralCsAs => None,
            Collation::Latin1GeneralBin2 => Some(view & mask & !0xFFFF_FFFF | u128::from(length)),
        }
    }

    /// The weights of ASCII characters, if the key of an ASCII string is just the weights of its characters without the
    /// trailing spaces. No weight is 0, but that of NUL where the weights are the characters.
    pub fn ascii_weights(self) -> Option<&'static [u8; 128]> {
        static CHARACTERS: [u8; 128] = {
            let mut table = [0; 128];
            let mut byte = 0;
            while byte < 128 {
                table[byte] = byte as u8;
                byte += 1;
            }
            table
        };
        match self {
            Collation::Latin1GeneralCiAs => Some(&ASCII_PRIMARY),
            Collation::Latin1GeneralBin2 => Some(&CHARACTERS),
            Collation::Latin1GeneralCsAs => None,
        }
    }

    /// The ASCII string that has this key, in lower case if case does not count; `None` if no ASCII string has it.
    pub fn ascii_of_key(self, key: &[u8]) -> Option<Vec<u8>> {
        if self == Collation::Latin1GeneralBin2 {
            return key.is_ascii().then(|| key.to_vec());
        }
        let of_weight = |weight: &u8| {
            let place = ASCII_PRIMARY.iter().rposition(|known| known == weight)?;
            u8::try_from(place).ok()
        };
        let end = key.iter().position(|byte| *byte == LEVEL).unwrap_or(key.len());
        let mut text = key[..end].iter().map(of_weight).collect::<Option<Vec<u8>>>()?;
        match (self, &key[end..]) {
            (_, []) => {}
            (Collation::Latin1GeneralCsAs, [LEVEL, LEVEL, cases @ ..]) => {
                let upper = text.iter_mut().zip(cases).filter(|(_, case)| **case == UPPER);
                upper.for_each(|(byte, _)| byte.make_ascii_uppercase());
            }
            _ => return None,
        }
        Some(text)
    }

    /// A number for the first four bytes of a string of `length` bytes (zeros if it is shorter). If one string's number
    /// is below another's, so is its key. Equal numbers imply nothing. `None` if the bytes do not decide: one is not
    /// ASCII, is NUL, or is a space under a binary collation.
    ///
    /// In other collations a space counts as 0, because it may be a trailing one, which does not count. A space has the
    /// lowest weight, so this keeps the order.
    #[inline]
    pub fn prefix_weight(self, prefix: [u8; 4], length: usize) -> Option<u32> {
        let is_binary = self == Collation::Latin1GeneralBin2;
        let undecided = |byte: &u8| *byte >= 128 || *byte == 0 || (is_binary && *byte == b' ');
        if prefix[..length.min(4)].iter().any(undecided) {
            return None;
        }
        let weight = |byte: u8| match byte {
            0 | b' ' => 0,
            byte if is_binary => byte,
            byte => ASCII_PRIMARY[usize::from(byte & 0x7F)],
        };
        Some(u32::from_be_bytes(prefix.map(weight)))
    }

    /// The order of two strings.
    pub fn compare(self, left: &str, right: &str) -> Ordering {
        let (left, right) = (trim(left), trim(right));
        match self {
            Collation::Latin1GeneralBin2 => left.cmp(right),
            Collation::Latin1GeneralCiAs if left.is_ascii() && right.is_ascii() => {
                let weight = |byte: u8| ASCII_PRIMARY[usize::from(byte & 0x7F)];
                left.bytes().map(weight).cmp(right.bytes().map(weight))
            }
            _ => {
                let (mut left_key, mut right_key) = (Vec::new(), Vec::new());
                self.sort_key(left, &mut left_key);
                self.sort_key(right, &mut right_key);
                left_key.cmp(&right_key)
            }
        }
    }

    /// Whether two strings are equal.
    pub fn equal(self, left: &str, right: &str) -> bool {
        self.compare(left, right) == Ordering::Equal
    }

    /// Whether upper and lower case are equal.
    pub const fn ignores_case(self) -> bool {
        matches!(self, Collation::Latin1GeneralCiAs)
    }

    /// The name in SQL Server.
    pub const fn name(self) -> &'static str {
        match self {
            Collation::Latin1GeneralCiAs => "SQL_Latin1_General_CP1_CI_AS",
            Collation::Latin1GeneralCsAs => "Latin1_General_CS_AS",
            Collation::Latin1GeneralBin2 => "Latin1_General_BIN2",
        }
    }

    /// The collation with this name, in any case. For an unknown Latin1 collation, the nearest: binary, case-sensitive
    /// or case-insensitive. `None` for other names and for collations that ignore accents.
    pub fn from_name(name: &str) -> Option<Collation> {
        let name = name.to_ascii_uppercase();
        if name == "DATABASE_DEFAULT" || name == "CATALOG_DEFAULT" {
            return Some(Collation::default());
        }
        let options = name.strip_prefix("SQL_LATIN1_GENERAL_").or_else(|| name.strip_prefix("LATIN1_GENERAL_"))?;
        let mut collation = None;
        let mut accents = true;
        for option in options.split('_') {
            match option {
                "BIN" | "BIN2" => collation = Some(Collation::Latin1GeneralBin2),
                "CI" => collation = Some(Collation::Latin1GeneralCiAs),
                "CS" => collation = Some(Collation::Latin1GeneralCsAs),
                "AI" => accents = false,
                "AS" | "KS" | "WS" | "SC" | "UTF8" | "100" | "90" | "CP1" | "CP437" | "CP850" | "VSS" => {}
                _ => return None,
            }
        }
        collation.filter(|_| accents)
    }
}

impl fmt::Display for Collation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CI: Collation = Collation::Latin1GeneralCiAs;
    const CS: Collation = Collation::Latin1GeneralCsAs;
    const BIN: Collation = Collation::Latin1GeneralBin2;

    #[test]
    fn keys_of_strings_begin_as_their_beginnings_say() {
        let texts = ["abc", "ABCD", "abc d", "ab c", "été", "ÉTÉ2", "straße", "x Ωmega", "  lead"];
        for collation in [CI, CS, BIN] {
            for text in texts {
                let mut key = Vec::new();
                collation.sort_key(text, &mut key);
                for (end, _) in text.char_indices() {
                    let mut prefix = Vec::new();
                    collation.sort_key_prefix(&text[..end], &mut prefix);
                    assert!(key.starts_with(&prefix), "{collation} {text} to {end}");
                }
            }
        }
        let mut prefix = Vec::new();
        CI.sort_key_prefix("É", &mut prefix);
        let mut other = Vec::new();
        CI.sort_key("dx", &mut other);
        assert!(!other.starts_with(&prefix));
    }

    #[test]
    fn case_and_trailing_spaces_do_not_count_by_default() {
        assert!(CI.equal("Smith  ", "sMITH"));
        assert!(!CI.equal(" Smith", "Smith"));
        assert!(CI.equal("ÉTÉ", "été"));
        assert!(!CI.equal("ete", "été"));
        assert!(CI.equal("straße", "STRASSE"));
        assert!(!CS.equal("a", "A"));
        assert!(!BIN.equal("a", "A"));
        assert!(BIN.equal("a", "a "));
        assert!(CI.equal("ΑΒΓ", "αβγ"));
    }

    #[test]
    fn the_order_is_signs_digits_letters_others() {
        let sorted = ["", " x", "_x", "~", "£", "0", "9", "a", "á", "ab", "Z", "α", "я", "漢"];
        for pair in sorted.windows(2) {
            for collation in [CI, CS] {
                assert_eq!(collation.compare(pair[0], pair[1]), Ordering::Less, "{pair:?} under {collation}");
            }
        }
        assert_eq!(CS.compare("a", "A"), Ordering::Less);
        assert_eq!(CS.compare("A", "b"), Ordering::Less);
        assert_eq!(BIN.compare("B", "a"), Ordering::Less);
    }

    #[test]
    fn accents_decide_only_between_equal_letters() {
        assert_eq!(CI.compare("pêche", "pechf"), Ordering::Less);
        assert_eq!(CI.compare("peche", "pêche"), Ordering::Less);
    }

    #[test]
    fn comparison_and_keys_agree() {
        let texts = ["", "a", "A", "a ", "é", "E", "b", "ß", "ss", "sS", "中", "1", "-", "Ω", "ω", "þ", "ÿ", "y", "×"];
        for collation in [CI, CS, BIN] {
            for left in texts {
                for right in texts {
                    let (mut left_key, mut right_key) = (Vec::new(), Vec::new());
                    collation.sort_key(left, &mut left_key);
                    collation.sort_key(right, &mut right_key);
                    assert_eq!(left_key.cmp(&right_key), collation.compare(left, right), "{left:?} {right:?}");
                }
            }
        }
    }

    #[test]
    fn the_short_path_gives_the_same_key() {
        let view = |bytes: &[u8]| {
            let mut view = [0; 16];
            view[4..4 + bytes.len()].copy_from_slice(bytes);
            u128::from_le_bytes(view) | bytes.len() as u128
        };
        for text in ["", "   ", "Hello  ", "x_1", "twelve bytes", "twelve byte ", "a\0", "é", "aé", "éa  "] {
            for collation in [CI, CS, BIN] {
                let mut key = Vec::new();
                collation.sort_key(text, &mut key);
                let is_quick = collation == BIN || (collation == CI && text.is_ascii());
                let expected = is_quick.then(|| view(&key));
                assert_eq!(collation.short_key(view(text.as_bytes())), expected, "{text:?} under {collation}");
            }
        }
    }

    #[test]
    fn a_key_tells_its_ascii_string() {
        for text in ["", "hello", "x_1 ~{", "a\tb", "Mixed CASE", "it's 5%"] {
            for collation in [CI, CS, BIN] {
                let mut key = Vec::new();
                collation.sort_key(text, &mut key);
                let expected = if collation.ignores_case() { text.to_ascii_lowercase() } else { text.to_owned() };
                assert_eq!(collation.ascii_of_key(&key), Some(expected.into_bytes()), "{text:?} under {collation}");
            }
        }
        let mut key = Vec::new();
        CI.sort_key("straße", &mut key);
        assert_eq!(CI.ascii_of_key(&key), Some(b"strasse".to_vec()));
        for text in ["é", "Ω", "£5"] {
            for collation in [CI, CS, BIN] {
                let mut key = Vec::new();
                collation.sort_key(text, &mut key);
                assert_eq!(collation.ascii_of_key(&key), None, "{text:?} under {collation}");
            }
        }
    }

    #[test]
    fn prefixes_never_contradict_keys() {
        let texts = ["", "a", "A b", "ab", "a\0", "abcd", "abce", "B", "1", " x", "a\t"];
        for collation in [CI, CS, BIN] {
            for left in texts {
                for right in texts {
                    let weight = |text: &str| {
                        let mut prefix = [0; 4];
                        prefix[..text.len()].copy_from_slice(text.as_bytes());
                        collation.prefix_weight(prefix, text.len())
                    };
                    if let (Some(own), Some(other)) = (weight(left), weight(right))
                        && own < other
                    {
                        assert_eq!(collation.compare(left, right), Ordering::Less, "{left:?} {right:?}");
                    }
                }
            }
        }
        assert_eq!(CI.prefix_weight([b'a', 0xC3, 0xA9, 0], 3), None);
    }

    #[test]
    fn names_map_to_the_nearest_collation() {
        assert_eq!(Collation::from_name("latin1_general_100_ci_as"), Some(CI));
        assert_eq!(Collation::from_name("Latin1_General_CS_AS"), Some(CS));
        assert_eq!(Collation::from_name("Latin1_General_BIN"), Some(BIN));
        assert_eq!(Collation::from_name("Latin1_General_CI_AI"), None);
        assert_eq!(Collation::from_name("Finnish_Swedish_CI_AS"), None);
        for collation in [CI, CS, BIN] {
            assert_eq!(Collation::from_name(collation.name()), Some(collation));
        }
    }
}
