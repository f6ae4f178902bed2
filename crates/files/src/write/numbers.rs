//! Numbers, moments and bytes as ASCII text, into a [`Buffer`].
//!
//! Eight digits are made at once, in the lanes of a 64-bit word, and appended as one word. All functions need room: 64
//! bytes are enough for each value but a binary one.

use hobt_functions::carrier::guid_from_sort_order;

use super::buffer::Buffer;

/// The largest number of eight digits, and one.
const EIGHT: u64 = 100_000_000;
/// The digit 0 in each byte.
const ZEROS: u64 = 0x3030_3030_3030_3030;
/// 100 ns in a second and in a day.
const TICKS_PER_SECOND: i64 = 10_000_000;
const TICKS_PER_DAY: i64 = 86_400 * TICKS_PER_SECOND;
/// The first and the last day of SQL Server's calendar, in days since 1970-01-01.
const DAYS: (i32, i32) = (-719_162, 2_932_896);
/// Days from 0000-03-01 to 1970-01-01.
const DAYS_TO_1970: i32 = 719_468;

/// The eight decimal digits of a number below 10⁸, as numbers, the first in the lowest byte.
#[inline]
fn eight_digits(number: u32) -> u64 {
    // Two lanes of four digits, then four of two, then eight of one: each step divides all lanes by a multiplication.
    let fours = u64::from(number / 10_000) | u64::from(number % 10_000) << 32;
    let hundreds = ((fours * 10_486) >> 20) & 0x0000_007F_0000_007F;
    let twos = hundreds | (fours - 100 * hundreds) << 16;
    let tens = ((twos * 103) >> 10) & 0x000F_000F_000F_000F;
    tens | (twos - 10 * tens) << 8
}

/// A whole number.
#[inline]
pub(super) fn unsigned(out: &mut Buffer, number: u64) {
    if number >= EIGHT {
        unsigned(out, number / EIGHT);
        return out.word(eight_digits((number % EIGHT) as u32) | ZEROS, 8);
    }
    let digits = eight_digits(number as u32);
    // The last digit is always shown.
    let leading = ((digits | 1 << 63).trailing_zeros() / 8) as usize;
    out.word((digits | ZEROS) >> (8 * leading), 8 - leading);
}

/// A whole number with its sign.
#[inline]
pub(super) fn integer(out: &mut Buffer, number: i64) {
    if number < 0 {
        out.byte(b'-');
    }
    unsigned(out, number.unsigned_abs());
}

/// A number with exactly `count` digits, zeros first; at most 20.
#[inline]
fn padded(out: &mut Buffer, number: u64, count: usize) {
    if count > 8 {
        padded(out, number / EIGHT, count - 8);
        return out.word(eight_digits((number % EIGHT) as u32) | ZEROS, 8);
    }
    let digits = eight_digits((number % EIGHT) as u32) | ZEROS;
    if count > 0 {
        out.word(digits >> (8 * (8 - count)), count);
    }
}

/// Powers of ten up to the largest in 64 bits.
const POWERS: [u64; 20] = {
    let mut powers = [1; 20];
    let mut place = 1;
    while place < powers.len() {
        powers[place] = powers[place - 1] * 10;
        place += 1;
    }
    powers
};

/// A decimal of `scale` digits behind the point, with all of them; at least one before it.
#[inline]
pub(super) fn decimal(out: &mut Buffer, unscaled: i128, scale: u8) {
    if unscaled < 0 {
        out.byte(b'-');
    }
    let magnitude = unscaled.unsigned_abs();
    let scale = usize::from(scale);
    match u64::try_from(magnitude) {
        Ok(small) if scale == 0 => unsigned(out, small),
        Ok(small) if scale == 2 => fixed(out, small / 100, small % 100, 2),
        Ok(small) if scale < POWERS.len() => fixed(out, small / POWERS[scale], small % POWERS[scale], scale),
        _ => large_decimal(out, magnitude, scale),
    }
}

#[inline]
fn fixed(out: &mut Buffer, whole: u64, fraction: u64, scale: usize) {
    unsigned(out, whole);
    out.byte(b'.');
    padded(out, fraction, scale);
}

/// A decimal of more than 64 bits, or with more digits behind the point than those have.
#[cold]
fn large_decimal(out: &mut Buffer, magnitude: u128, scale: usize) {
    let unit = 10_u128.pow(scale.min(38) as u32);
    let (whole, fraction) = (magnitude / unit, magnitude % unit);
    let digits = if whole == 0 { 1 } else { whole.ilog10() as usize + 1 };
    large_padded(out, whole, digits);
    if scale > 0 {
        out.byte(b'.');
        large_padded(out, fraction, scale);
    }
}

/// A number with exactly `count` digits, zeros first; at most 39.
fn large_padded(out: &mut Buffer, number: u128, count: usize) {
    let low = (number % u128::from(POWERS[16])) as u64;
    if count > 16 {
        large_padded(out, number / u128::from(POWERS[16]), count - 16);
        return padded(out, low, 16);
    }
    padded(out, low, count);
}

/// A `float` or `real`: the fewest digits that read back as the same number, and no `.0`.
#[inline]
pub(super) fn float(out: &mut Buffer, number: impl zmij::Float) {
    let mut text = zmij::Buffer::new();
    let text = text.format(number);
    out.slice(text.strip_suffix(".0").unwrap_or(text).as_bytes());
}

/// A date, `2020-01-31`. Days outside of the calendar, which no column has, are moved into it.
#[inline]
pub(super) fn date(out: &mut Buffer, days: i32) {
    let (year, month, day) = civil(days.clamp(DAYS.0, DAYS.1));
    let digits = eight_digits(year * 10_000 + month * 100 + day) | ZEROS;
    let dashes = u128::from(b'-') << 32 | u128::from(b'-') << 56;
    let (year, month, day) = (digits & 0xFFFF_FFFF, digits >> 32 & 0xFFFF, digits >> 48);
    out.long_word(u128::from(year) | u128::from(month) << 40 | u128::from(day) << 64 | dashes, 10);
}

/// Year, month and day of a day since 1970-01-01, in years that begin in March, so that the leap day is the last.
#[inline]
fn civil(days: i32) -> (u32, u32, u32) {
    // Not negative: the calendar begins after 0000-03-01.
    let quarters = (days + DAYS_TO_1970) as u32 * 4 + 3;
    let (century, in_century) = (quarters / 146_097, quarters % 146_097 / 4);
    let quarters = in_century * 4 + 3;
    let (year, in_year) = (quarters / 1461, quarters % 1461 / 4);
    let fifths = in_year * 5 + 2;
    let (month, day) = (fifths / 153, fifths % 153 / 5 + 1);
    let is_next_year = month >= 10;
    let year = century * 100 + year + u32::from(is_next_year);
    (year, if is_next_year { month - 9 } else { month + 3 }, day)
}

/// A time of day in 100 ns, `23:59:59.1234567` with `scale` digits behind the second.
#[inline]
pub(super) fn time(out: &mut Buffer, ticks: i64, scale: u8) {
    let ticks = ticks.clamp(0, TICKS_PER_DAY - 1);
    let (seconds, rest) = ((ticks / TICKS_PER_SECOND) as u32, (ticks % TICKS_PER_SECOND) as u64);
    let digits = eight_digits(seconds / 3600 * 10_000 + seconds / 60 % 60 * 100 + seconds % 60) | ZEROS;
    let colons = u64::from(b':') << 16 | u64::from(b':') << 40;
    out.word(digits >> 16 & 0xFFFF | (digits >> 32 & 0xFFFF) << 24 | (digits >> 48) << 48 | colons, 8);
    if scale > 0 {
        let scale = usize::from(scale.min(7));
        out.byte(b'.');
        padded(out, rest / POWERS[7 - scale], scale);
    }
}

/// A moment in 100 ns since 1970-01-01: date, `between`, time.
#[inline]
pub(super) fn moment(out: &mut Buffer, ticks: i64, scale: u8, between: u8) {
    // The calendar has fewer days than 32 bits; what is outside is moved into it.
    date(out, ticks.div_euclid(TICKS_PER_DAY).clamp(DAYS.0.into(), DAYS.1.into()) as i32);
    out.byte(between);
    time(out, ticks.rem_euclid(TICKS_PER_DAY), scale);
}

/// The two upper-case hexadecimal digits of a byte, the first in the lower byte.
const HEX: [[u8; 2]; 256] = {
    let digits = b"0123456789ABCDEF";
    let mut table = [[0; 2]; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = [digits[byte >> 4], digits[byte & 15]];
        byte += 1;
    }
    table
};

/// Bytes as `0x…`. Makes room itself.
pub(super) fn hexadecimal(out: &mut Buffer, bytes: &[u8]) {
    out.reserve(2 + 2 * bytes.len());
    out.slice(b"0x");
    for byte in bytes {
        out.slice(&HEX[usize::from(*byte)]);
    }
}

/// The bytes of a guid in the order of its text (RFC 9562), from those of its carrier.
pub(super) fn guid_in_text_order(sorted: [u8; 16]) -> [u8; 16] {
    let mut bytes = guid_from_sort_order(sorted);
    // The first three groups are stored with their lowest byte first.
    bytes[..4].reverse();
    bytes[4..6].reverse();
    bytes[6..8].reverse();
    bytes
}

/// A `uniqueidentifier`, given in its carrier's order.
pub(super) fn guid(out: &mut Buffer, sorted: [u8; 16]) {
    for (place, byte) in guid_in_text_order(sorted).into_iter().enumerate() {
        if matches!(place, 4 | 6 | 8 | 10) {
            out.byte(b'-');
        }
        out.slice(&HEX[usize::from(byte)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(write: impl FnOnce(&mut Buffer)) -> String {
        let mut out = Buffer::default();
        out.reserve(64);
        write(&mut out);
        String::from_utf8(out.as_slice().to_vec()).expect("ASCII")
    }

    #[test]
    fn whole_numbers_are_as_the_standard_library_prints_them() {
        let mut numbers: Vec<u64> = (0..2000).chain(99_990_000..100_010_000).collect();
        numbers.extend((0..64).flat_map(|bit| [(1_u64 << bit) - 1, 1 << bit, (1 << bit) + 1]));
        numbers.extend(POWERS.iter().flat_map(|power| [power - 1, *power, power + 1]));
        numbers.push(u64::MAX);
        for number in numbers {
            assert_eq!(text(|out| unsigned(out, number)), number.to_string());
            let signed = number as i64;
            assert_eq!(text(|out| integer(out, signed)), signed.to_string());
        }
    }

    #[test]
    fn decimals_have_all_their_digits() {
        let limit = 10_i128.pow(38) - 1;
        for (unscaled, scale, wanted) in [
            (0, 0, "0".to_owned()),
            (0, 2, "0.00".to_owned()),
            (-5, 2, "-0.05".to_owned()),
            (123_456, 2, "1234.56".to_owned()),
            (-1, 38, format!("-0.{}1", "0".repeat(37))),
            (limit, 38, format!("0.{}", "9".repeat(38))),
            (-limit, 0, format!("-{}", "9".repeat(38))),
            (limit, 19, format!("{}.{}", "9".repeat(19), "9".repeat(19))),
            (i128::from(u64::MAX), 19, "1.8446744073709551615".to_owned()),
            (i128::from(u64::MAX) + 1, 1, "1844674407370955161.6".to_owned()),
            (10_i128.pow(37), 0, format!("1{}", "0".repeat(37))),
            (7, 19, format!("0.{}7", "0".repeat(18))),
        ] {
            assert_eq!(text(|out| decimal(out, unscaled, scale)), wanted);
        }
    }

    #[test]
    fn every_day_follows_the_one_before() {
        let is_leap = |year: u32| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
        let (mut year, mut month, mut day) = (1, 1, 1);
        for days in DAYS.0..=DAYS.1 {
            assert_eq!(civil(days), (year, month, day), "{days}");
            let length = match month {
                2 => 28 + u32::from(is_leap(year)),
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            (month, day) = if day == length { (month + 1, 1) } else { (month, day + 1) };
            (year, month) = if month == 13 { (year + 1, 1) } else { (year, month) };
        }
        assert_eq!((year, month, day), (10_000, 1, 1));
        assert_eq!(text(|out| date(out, 18_292)), "2020-01-31");
        assert_eq!(text(|out| date(out, i32::MIN)), "0001-01-01");
    }

    #[test]
    fn times_have_the_digits_of_their_scale() {
        let ticks = TICKS_PER_DAY - 1;
        assert_eq!(text(|out| time(out, ticks, 0)), "23:59:59");
        assert_eq!(text(|out| time(out, ticks, 7)), "23:59:59.9999999");
        assert_eq!(text(|out| time(out, 37_230_012_345, 3)), "01:02:03.001");
        assert_eq!(text(|out| moment(out, -1, 7, b' ')), "1969-12-31 23:59:59.9999999");
        assert_eq!(text(|out| moment(out, 0, 0, b'T')), "1970-01-01T00:00:00");
    }

    #[test]
    fn floats_read_back_the_same() {
        for number in [0.1, -2.5, 5.0, 1e300, f64::MIN_POSITIVE, f64::MAX, 0.0, 1.0 / 3.0, 123_456_789.0] {
            let written = text(|out| float(out, number));
            assert_eq!(written.parse::<f64>().expect("a number"), number, "{written}");
        }
        assert_eq!(text(|out| float(out, 5.0)), "5");
        assert_eq!(text(|out| float(out, 0.1_f32)), "0.1");
    }
}
