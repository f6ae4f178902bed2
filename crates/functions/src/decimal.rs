//! Scaled 128-bit integers: powers of ten, rescaling, text.
//!
//! A decimal of precision 38 fills 127 bits. So products and shifted dividends are computed in 256 bits if the
//! precisions allow longer ones.

use arrow::datatypes::i256;

/// 10⁰ to 10³⁸.
pub(crate) const POWERS: [i128; 39] = powers();

const fn powers() -> [i128; 39] {
    let mut table = [1; 39];
    let mut exponent = 1;
    while exponent < 39 {
        table[exponent] = table[exponent - 1] * 10;
        exponent += 1;
    }
    table
}

/// 10 to the power of `exponent`, which is at most 38.
pub(crate) fn power(exponent: u8) -> i128 {
    POWERS[usize::from(exponent)]
}

/// Whether `value` has at most `precision` digits.
pub(crate) fn fits(value: i128, precision: u8) -> bool {
    let bound = power(precision.min(38));
    value < bound && value > -bound
}

/// `value / divisor`, rounded half away from zero; `divisor` is positive.
pub(crate) fn divide_round(value: i128, divisor: i128) -> i128 {
    // Division of 128 bits takes several times as long.
    let (quotient, remainder) = match (i64::try_from(value), i64::try_from(divisor)) {
        (Ok(value), Ok(divisor)) => (i128::from(value / divisor), i128::from(value % divisor)),
        _ => (value / divisor, value % divisor),
    };
    if remainder.unsigned_abs() >= divisor.unsigned_abs().div_ceil(2) { quotient + value.signum() } else { quotient }
}

/// `value` of scale `from` at scale `to`, rounded; `None` above 128 bits.
pub(crate) fn rescale(value: i128, from: u8, to: u8) -> Option<i128> {
    if to >= from { value.checked_mul(power(to - from)) } else { Some(divide_round(value, power(from - to))) }
}

/// `left × right / 10^down`, rounded, computed in 256 bits if 128 are not enough; `None` if the result exceeds 128
/// bits.
pub(crate) fn multiply_wide(left: i128, right: i128, down: u8) -> Option<i128> {
    match left.checked_mul(right) {
        Some(product) if usize::from(down) < POWERS.len() => Some(divide_round(product, power(down))),
        _ => multiply_in_256_bits(left, right, down),
    }
}

fn multiply_in_256_bits(left: i128, right: i128, down: u8) -> Option<i128> {
    let product = i256::from_i128(left).checked_mul(i256::from_i128(right))?;
    let mut rest = down;
    let mut value = product;
    // 10^38 is the largest power available. A larger division takes two steps, and only the last one rounds.
    while rest > 38 {
        value = value.checked_div(i256::from_i128(power(38)))?;
        rest -= 38;
    }
    let divisor = i256::from_i128(power(rest));
    let quotient = value.checked_div(divisor)?;
    let remainder = value.checked_rem(divisor)?.to_i128()?;
    let quotient = quotient.to_i128()?;
    let round_up = rest > 0 && remainder.unsigned_abs() >= power(rest).unsigned_abs() / 2;
    if round_up { quotient.checked_add(remainder.signum()) } else { Some(quotient) }
}

/// `left × 10^up / right`, truncated; `None` above 128 bits. `right` is not 0.
pub(crate) fn divide_wide(left: i128, right: i128, up: u8) -> Option<i128> {
    let shifted = POWERS.get(usize::from(up)).and_then(|power| left.checked_mul(*power));
    shifted.map_or_else(|| divide_in_256_bits(left, right, up), |shifted| shifted.checked_div(right))
}

fn divide_in_256_bits(left: i128, right: i128, up: u8) -> Option<i128> {
    let mut shifted = i256::from_i128(left);
    let mut rest = up;
    while rest > 0 {
        let step = rest.min(38);
        shifted = shifted.checked_mul(i256::from_i128(power(step)))?;
        rest -= step;
    }
    shifted.checked_div(i256::from_i128(right))?.to_i128()
}

/// Appends `value` with `scale` digits after the point: `-0.05`.
pub(crate) fn to_text(value: i128, scale: u8, out: &mut String) {
    use std::fmt::Write;
    if value < 0 {
        out.push('-');
    }
    let magnitude = value.unsigned_abs();
    let unit = power(scale).unsigned_abs();
    let _ = write!(out, "{}", magnitude / unit);
    if scale > 0 {
        let _ = write!(out, ".{:0width$}", magnitude % unit, width = usize::from(scale));
    }
}

/// Why a text is not a valid decimal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DecimalError {
    /// Not a number.
    Syntax,
    /// It has more than 38 digits before or after rounding.
    Overflow,
}

/// The number in `text` (sign, digits, one point; no exponent), rounded to `scale` digits after the point.
pub(crate) fn parse(text: &str, scale: u8) -> Result<i128, DecimalError> {
    let (negative, digits) = match text.as_bytes() {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    let (mut value, mut after, mut in_fraction, mut seen, mut round) = (0i128, 0u8, false, false, false);
    for byte in digits {
        match byte {
            b'.' if !in_fraction => in_fraction = true,
            b'0'..=b'9' => {
                seen = true;
                let digit = byte - b'0';
                if in_fraction && after == scale {
                    if !round && after != u8::MAX {
                        round = digit >= 5;
                        // Later digits do not matter: this moves `after` beyond the scale.
                        after = u8::MAX;
                    }
                } else if !in_fraction || after < scale {
                    value = value
                        .checked_mul(10)
                        .and_then(|value| value.checked_add(i128::from(digit)))
                        .ok_or(DecimalError::Overflow)?;
                    after += u8::from(in_fraction);
                }
            }
            _ => return Err(DecimalError::Syntax),
        }
    }
    if !seen {
        return Err(DecimalError::Syntax);
    }
    let present = if after == u8::MAX { scale } else { after };
    let value = value.checked_mul(power(scale - present)).and_then(|value| value.checked_add(i128::from(round)));
    let value = value.ok_or(DecimalError::Overflow)?;
    Ok(if negative { -value } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_value_agree() {
        for (text, scale, value) in
            [("-0.05", 2, -5), ("1.005", 2, 101), ("+7", 1, 70), (".5", 0, 1), ("12.", 1, 120), ("1.0449", 2, 104)]
        {
            assert_eq!(parse(text, scale), Ok(value), "{text}");
        }
        assert_eq!(parse("", 2), Err(DecimalError::Syntax));
        assert_eq!(parse("1e5", 2), Err(DecimalError::Syntax));
        assert_eq!(parse("1.2.3", 2), Err(DecimalError::Syntax));
        assert_eq!(parse(&"9".repeat(50), 2), Err(DecimalError::Overflow));
        assert_eq!(parse(&format!("{}.9", i128::MAX), 0), Err(DecimalError::Overflow));
        assert_eq!(parse(&format!("-{}.9", i128::MAX), 0), Err(DecimalError::Overflow));
        let mut text = String::new();
        to_text(-5, 2, &mut text);
        assert_eq!(text, "-0.05");
    }

    #[test]
    fn wide_steps_round_and_cut_as_documented() {
        assert_eq!(multiply_wide(power(37), power(30), 60), Some(power(7)));
        assert_eq!(multiply_wide(15, 1, 1), Some(2));
        assert_eq!(multiply_wide(-15, 1, 1), Some(-2));
        assert_eq!(divide_wide(2, 3, 6), Some(666_666));
        assert_eq!(divide_round(-25, 10), -3);
        assert_eq!(divide_round(24, 10), 2);
    }

    #[test]
    fn short_ways_give_what_256_bits_give() {
        let mut random = hobt_base::SplitMix64::new(11);
        let mut value = || {
            let digits = random.next_u64() % 39;
            let bits = i128::from(random.next_u64().cast_signed()) << 64 | i128::from(random.next_u64());
            bits % power(digits as u8)
        };
        for round in 0..200_000_u32 {
            let (left, right, places) = (value(), value(), (round % 50) as u8);
            assert_eq!(
                multiply_wide(left, right, places),
                multiply_in_256_bits(left, right, places),
                "{left} {right} {places}"
            );
            if right != 0 {
                assert_eq!(
                    divide_wide(left, right, places),
                    divide_in_256_bits(left, right, places),
                    "{left} / {right}, {places}"
                );
            }
            let divisor = power(places % 39);
            let wide = multiply_in_256_bits(left, 1, places % 39);
            assert_eq!(Some(divide_round(left, divisor)), wide, "{left} / {divisor}");
        }
    }
}
