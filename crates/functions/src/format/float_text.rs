//! Converts floating point to text with a given number of digits, as C's `%g` and `%e` do.

/// The decimal digits of `value`, rounded to `digits`, and the exponent of the first digit.
fn decimal_digits(value: f64, digits: usize) -> (String, i32) {
    let text = format!("{:.*e}", digits - 1, value.abs());
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    (mantissa.replace('.', ""), exponent.parse().unwrap_or(0))
}

/// Up to `digits` significant digits without trailing zeros. There is an exponent only if the number is below 10⁻⁴ or
/// has more than `digits` digits. `mark` is `e` (three exponent digits, as in `CONVERT`) or `E` (as in `sqlcmd`).
pub(crate) fn general(value: f64, digits: usize, mark: &str) -> String {
    if value == 0.0 {
        return "0".to_string();
    }
    let (all, exponent) = decimal_digits(value, digits);
    let sign = if value < 0.0 { "-" } else { "" };
    let significant = all.trim_end_matches('0');
    let limit = i32::try_from(digits).unwrap_or(i32::MAX);
    if exponent < -4 || exponent >= limit {
        return format!("{sign}{}", with_exponent(significant, exponent, mark));
    }
    if exponent < 0 {
        let zeros = "0".repeat(usize::try_from(-exponent - 1).unwrap_or(0));
        return format!("{sign}0.{zeros}{significant}");
    }
    let whole_length = usize::try_from(exponent).unwrap_or(0) + 1;
    let whole = &all[..whole_length];
    let fraction = significant.get(whole_length..).unwrap_or("");
    if fraction.is_empty() { format!("{sign}{whole}") } else { format!("{sign}{whole}.{fraction}") }
}

fn with_exponent(digits: &str, exponent: i32, mark: &str) -> String {
    let (first, rest) = digits.split_at(1);
    let point = if rest.is_empty() { "" } else { "." };
    let sign = if exponent < 0 { '-' } else { '+' };
    let exponent = exponent.unsigned_abs();
    if mark == "E" {
        format!("{first}{point}{rest}E{sign}{exponent:02}")
    } else {
        format!("{first}{point}{rest}{mark}{sign}{exponent:03}")
    }
}

/// Always with an exponent, with `digits` digits in all: styles 1 and 2 of `CONVERT`.
pub(crate) fn scientific(value: f64, digits: usize) -> String {
    let (all, exponent) = decimal_digits(value, digits);
    let exponent = if value == 0.0 { 0 } else { exponent };
    let sign = if value < 0.0 { "-" } else { "" };
    format!("{sign}{}", with_exponent(&all, exponent, "e"))
}

/// The number of digits that every `real` keeps: a whole number with no more digits is shown without an exponent.
const REAL_DIGITS: usize = 7;

/// The fewest digits that convert back to the same `real`.
pub(crate) fn shortest(value: f32) -> String {
    let digits = format!("{value:e}").split('e').next().map_or(0, |m| m.bytes().filter(u8::is_ascii_digit).count());
    general(f64::from(value), digits.max(REAL_DIGITS), "E")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_those_of_c() {
        assert_eq!(general(1_234_567.0, 6, "e"), "1.23457e+006");
        assert_eq!(general(0.1, 6, "e"), "0.1");
        assert_eq!(general(100.0, 6, "e"), "100");
        assert_eq!(general(-0.00001234, 6, "e"), "-1.234e-005");
        assert_eq!(general(0.0, 6, "e"), "0");
        assert_eq!(scientific(1234.5, 8), "1.2345000e+003");
        assert_eq!(scientific(1234.5, 16), "1.234500000000000e+003");
    }
}
