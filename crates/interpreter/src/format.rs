//! The `printf` of `RAISERROR` and `FORMATMESSAGE`: `%[flags][width][.precision][h|l|I64]type`.

/// One argument, as formats use it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum FormatArgument {
    /// NULL, printed as `(null)`.
    Null,
    /// An integer type.
    Int(i64),
    /// A text type.
    Text(String),
}

/// An error in a format or its arguments.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum FormatError {
    /// 2786: the argument with this number (from 1) does not have the type that its conversion requires.
    WrongType(usize),
    /// 2787: the conversion specification that begins here is invalid.
    Specification(String),
}

/// The longest message in characters; longer ones end in an ellipsis.
const MAX_CHARACTERS: usize = 2047;

#[derive(Default)]
struct Specification {
    left: bool,
    plus: bool,
    zero: bool,
    alternate: bool,
    blank: bool,
    width: usize,
    precision: Option<usize>,
}

/// Formats `arguments` with `format`. Missing arguments are printed as `(null)`.
pub(super) fn format_message(format: &str, arguments: &[FormatArgument]) -> Result<String, FormatError> {
    let mut text = String::new();
    let mut rest = format.chars().peekable();
    let mut next_argument = 0;
    let mut take = || {
        next_argument += 1;
        (next_argument, arguments.get(next_argument - 1).unwrap_or(&FormatArgument::Null))
    };
    while let Some(character) = rest.next() {
        if character != '%' {
            text.push(character);
            continue;
        }
        if rest.next_if_eq(&'%').is_some() {
            text.push('%');
            continue;
        }
        let tail: String = std::iter::once('%').chain(rest.clone()).collect();
        let mut specification = Specification::default();
        while let Some(flag) = rest.next_if(|c| matches!(c, '-' | '+' | '0' | '#' | ' ')) {
            match flag {
                '-' => specification.left = true,
                '+' => specification.plus = true,
                '0' => specification.zero = true,
                '#' => specification.alternate = true,
                _ => specification.blank = true,
            }
        }
        let mut size = |rest: &mut std::iter::Peekable<std::str::Chars<'_>>| -> Result<Option<usize>, FormatError> {
            if rest.next_if_eq(&'*').is_some() {
                return match take() {
                    (_, FormatArgument::Int(size)) => {
                        Ok(usize::try_from(*size).ok().map(|size| size.min(MAX_CHARACTERS)))
                    }
                    (place, _) => Err(FormatError::WrongType(place)),
                };
            }
            let mut digits = None;
            while let Some(digit) = rest.peek().and_then(|c| c.to_digit(10)) {
                digits = Some((digits.unwrap_or(0) * 10 + digit as usize).min(MAX_CHARACTERS));
                rest.next();
            }
            Ok(digits)
        };
        specification.width = size(&mut rest)?.unwrap_or(0);
        if rest.next_if_eq(&'.').is_some() {
            specification.precision = Some(size(&mut rest)?.unwrap_or(0));
        }
        let mut wide = false;
        if rest.next_if_eq(&'I').is_some() {
            wide = rest.next_if_eq(&'6').is_some() && rest.next_if_eq(&'4').is_some();
            if !wide {
                return Err(FormatError::Specification(tail));
            }
        } else {
            rest.next_if(|c| matches!(c, 'h' | 'l'));
        }
        let Some(kind @ ('d' | 'i' | 'o' | 's' | 'u' | 'x' | 'X')) = rest.next() else {
            return Err(FormatError::Specification(tail));
        };
        text.push_str(&specification.print(kind, wide, take())?);
    }
    if text.chars().count() > MAX_CHARACTERS {
        text = text.chars().take(MAX_CHARACTERS - 3).chain("...".chars()).collect();
    }
    Ok(text)
}

impl Specification {
    fn print(
        &self,
        kind: char,
        wide: bool,
        (place, argument): (usize, &FormatArgument),
    ) -> Result<String, FormatError> {
        let body = match (kind, argument) {
            (_, FormatArgument::Null) => "(null)".to_owned(),
            ('s', FormatArgument::Text(text)) => text.chars().take(self.precision.unwrap_or(usize::MAX)).collect(),
            ('s', FormatArgument::Int(_)) | (_, FormatArgument::Text(_)) => return Err(FormatError::WrongType(place)),
            (_, FormatArgument::Int(value)) => {
                if !wide && i32::try_from(*value).is_err() {
                    return Err(FormatError::WrongType(place));
                }
                self.print_integer(kind, wide, *value)
            }
        };
        let missing = self.width.saturating_sub(body.chars().count());
        Ok(match () {
            () if missing == 0 => body,
            () if self.left => body + &" ".repeat(missing),
            () => " ".repeat(missing) + &body,
        })
    }

    fn print_integer(&self, kind: char, wide: bool, value: i64) -> String {
        // The unsigned forms print two's complement of the argument's width.
        let unsigned = if wide { value as u64 } else { u64::from(value as i32 as u32) };
        let digits = match kind {
            'o' => format!("{unsigned:o}"),
            'x' => format!("{unsigned:x}"),
            'X' => format!("{unsigned:X}"),
            'u' => unsigned.to_string(),
            _ => value.unsigned_abs().to_string(),
        };
        let signed = matches!(kind, 'd' | 'i');
        let sign = match kind {
            'x' if self.alternate && value != 0 => "0x",
            'X' if self.alternate && value != 0 => "0X",
            'o' if self.alternate => "0",
            _ if signed && value < 0 => "-",
            _ if signed && self.plus => "+",
            _ if signed && self.blank => " ",
            _ => "",
        };
        let zeros = if self.zero && !self.left && self.precision.is_none() {
            self.width.saturating_sub(sign.len())
        } else {
            self.precision.unwrap_or(0)
        };
        format!("{sign}{digits:0>zeros$}")
    }
}

#[cfg(test)]
mod tests {
    use super::FormatArgument::{Int, Null, Text};
    use super::*;

    #[test]
    fn the_examples_of_the_manual() {
        // RAISERROR's page: both print "<<    abc>>".
        let abc = Text("abcde".to_owned());
        assert_eq!(format_message("<<%7.3s>>", std::slice::from_ref(&abc)).unwrap(), "<<    abc>>");
        assert_eq!(format_message("<<%*.*s>>", &[Int(7), Int(3), abc]).unwrap(), "<<    abc>>");
        assert_eq!(
            format_message("This is message %s %d.", &[Text("number".into()), Int(5)]).unwrap(),
            "This is message number 5."
        );
    }

    #[test]
    fn numbers_have_flags_and_bases() {
        assert_eq!(
            format_message("%+d|%05d|%-5d|%#x|%o|%u", &[Int(7), Int(-42), Int(3), Int(255), Int(8), Int(-1)]).unwrap(),
            "+7|-0042|3    |0xff|10|4294967295"
        );
        assert_eq!(format_message("%I64d 100%%", &[Int(1 << 40)]).unwrap(), "1099511627776 100%");
    }

    #[test]
    fn wrong_arguments_are_told_by_their_number() {
        assert_eq!(format_message("%d", &[Text("x".into())]), Err(FormatError::WrongType(1)));
        assert_eq!(format_message("%s %s", &[Null]).unwrap(), "(null) (null)");
        assert!(matches!(format_message("%q", &[]), Err(FormatError::Specification(_))));
        assert!(matches!(format_message("%", &[]), Err(FormatError::Specification(_))));
        assert_eq!(format_message("%999999999999s", &[Text("x".into())]).unwrap().chars().count(), 2047);
    }
}
