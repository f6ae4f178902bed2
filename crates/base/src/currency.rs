//! The currency signs that can precede an amount of money.

/// Whether `character` is one of the signs that Microsoft's page "Using monetary data" lists.
pub const fn is_currency_sign(character: char) -> bool {
    matches!(
        character,
        '$' | '¢' | '£' | '¤' | '¥' | '\u{9F2}' | '\u{9F3}' | '\u{E3F}' | '\u{17DB}' | '\u{20A0}'
            ..='\u{20B1}' | '\u{FDFC}' | '\u{FE69}' | '\u{FF04}' | '\u{FFE0}' | '\u{FFE1}' | '\u{FFE5}' | '\u{FFE6}'
    )
}
