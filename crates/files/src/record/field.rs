//! One field of a record: how its end is found.

use memchr::memmem::Finder;

use super::{CutError, FieldSpan};
use crate::format_file::{FileField, HostType};

/// How a field lies in its record.
#[derive(Clone, Debug)]
pub struct FieldLayout {
    host: HostType,
    column: Option<u32>,
    form: Form,
    terminator: Terminator,
}

/// What says how many bytes a field has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Form {
    /// So many.
    Fixed(usize),
    /// A number in front, of so many bytes.
    Prefix(u8),
    /// The terminator.
    Terminated,
}

/// A terminator, ready to be looked for.
#[derive(Clone, Debug)]
struct Terminator {
    bytes: Box<[u8]>,
    /// For two bytes and more.
    finder: Option<Finder<'static>>,
    /// Whether it stands at whole characters of UTF-16.
    wide: bool,
}

/// A field and the position behind it, or how many bytes the slice lacks at least.
type Found = Result<(FieldSpan, usize), usize>;

impl Terminator {
    fn new(bytes: &[u8], wide: bool) -> Terminator {
        let finder = (bytes.len() > 1).then(|| Finder::new(bytes).into_owned());
        Terminator { bytes: bytes.into(), finder, wide }
    }

    /// The first place of the terminator.
    fn find(&self, bytes: &[u8]) -> Option<usize> {
        let Some(finder) = &self.finder else { return memchr::memchr(self.bytes[0], bytes) };
        let mut from = 0;
        loop {
            let place = from + finder.find(&bytes[from..])?;
            if !self.wide || place.is_multiple_of(2) {
                return Some(place);
            }
            from = place + 1;
        }
    }
}

impl FieldLayout {
    /// The layout of a field; `None` if nothing ends it.
    pub(super) fn new(field: &FileField) -> Option<FieldLayout> {
        let wide = field.host == HostType::NChar && field.terminator.len().is_multiple_of(2);
        let form = match (field.prefix_length, field.fixed_bytes()) {
            (0, Some(0)) => return None,
            (0, Some(bytes)) => Form::Fixed(bytes),
            (0, None) if field.terminator.is_empty() => return None,
            (0, None) => Form::Terminated,
            (length @ (1 | 2 | 4 | 8), _) => Form::Prefix(length),
            _ => return None,
        };
        let terminator = Terminator::new(&field.terminator, wide);
        Some(FieldLayout { host: field.host, column: field.column, form, terminator })
    }

    /// The type of its bytes.
    pub fn host(&self) -> HostType {
        self.host
    }

    /// The column that it fills, counted from 1; `None` if it is skipped.
    pub fn column(&self) -> Option<u32> {
        self.column
    }

    /// Bytes of the length in front of it; 0 if there is none.
    pub(super) fn prefix_length(&self) -> u8 {
        if let Form::Prefix(length) = self.form { length } else { 0 }
    }

    /// Its bytes, if they are the same for all values.
    pub(super) fn fixed_bytes(&self) -> Option<usize> {
        if let Form::Fixed(bytes) = self.form { Some(bytes) } else { None }
    }

    pub(super) fn terminator(&self) -> &[u8] {
        &self.terminator.bytes
    }

    /// Finds the field that starts at `start`, which is in the slice or at its end. `at_end` says that nothing follows
    /// it in the file and in its record.
    pub(super) fn find(&self, bytes: &[u8], start: usize, at_end: bool, limit: usize) -> Result<Found, CutError> {
        match self.form {
            // Most fields of native files.
            Form::Fixed(length) if self.terminator.bytes.is_empty() && length <= limit => {
                let (end, rest) = (start + length, bytes.len() - start);
                Ok(if rest >= length { Ok((FieldSpan { start, end }, end)) } else { Err(length - rest) })
            }
            Form::Fixed(length) => {
                let rest = &bytes[start..];
                if length > limit {
                    return Err(CutError::TooLong);
                }
                if rest.len() < length {
                    return Ok(Err(length - rest.len()));
                }
                self.behind(bytes, start, start + length, at_end)
            }
            Form::Prefix(length) => self.find_prefixed(bytes, start, usize::from(length), at_end, limit),
            Form::Terminated => self.find_terminated(bytes, start, at_end, limit),
        }
    }

    /// The field between two positions, whose terminator must follow.
    fn behind(&self, bytes: &[u8], start: usize, end: usize, at_end: bool) -> Result<Found, CutError> {
        let span = FieldSpan { start, end };
        let (terminator, rest) = (&*self.terminator.bytes, &bytes[end..]);
        if rest.starts_with(terminator) {
            return Ok(Ok((span, end + terminator.len())));
        }
        match terminator.starts_with(rest) {
            true if rest.is_empty() && at_end => Ok(Ok((span, end))),
            true => Ok(Err(terminator.len() - rest.len())),
            false => Err(CutError::TooLong),
        }
    }

    fn find_prefixed(
        &self,
        bytes: &[u8],
        start: usize,
        width: usize,
        at_end: bool,
        limit: usize,
    ) -> Result<Found, CutError> {
        let rest = &bytes[start..];
        let Some((prefix, rest)) = rest.split_at_checked(width) else { return Ok(Err(width - rest.len())) };
        let mut number = [0; 8];
        number[..width].copy_from_slice(prefix);
        let (number, content) = (u64::from_le_bytes(number), start + width);
        let length = match self.length(number, prefix, limit)? {
            Some(length) => length,
            None => {
                return Ok(self.behind(bytes, content, content, at_end)?.map(|(_, end)| (FieldSpan::NULL, end)));
            }
        };
        if self.host.is_text() && !self.terminator.bytes.is_empty() {
            // What comes first ends it.
            let both = length + self.terminator.bytes.len();
            if let Some(place) = self.terminator.find(&rest[..both.min(rest.len())]) {
                let end = content + place;
                return Ok(Ok((FieldSpan { start: content, end }, end + self.terminator.bytes.len())));
            }
            // Its last bytes may begin a terminator that goes on behind the slice.
            let is_known = rest.len() >= both || (at_end && rest.len() >= length);
            let end = content + length;
            return Ok(if is_known { Ok((FieldSpan { start: content, end }, end)) } else { Err(both - rest.len()) });
        }
        if rest.len() < length {
            return Ok(Err(length - rest.len()));
        }
        self.behind(bytes, content, content + length, at_end)
    }

    /// The length that a prefix says; `None` for NULL.
    fn length(&self, number: u64, prefix: &[u8], limit: usize) -> Result<Option<usize>, CutError> {
        if prefix.iter().all(|byte| *byte == 0xFF) {
            return Ok(None);
        }
        // Only prefixes of four and eight bytes can be negative otherwise, and all of those are beyond the limit.
        let length = usize::try_from(number).ok().filter(|length| *length <= limit).ok_or(CutError::TooLong)?;
        match self.host.bytes() {
            Some(_) if length == 0 => Ok(None),
            Some(bytes) if length > bytes => Err(CutError::TooLong),
            // Decimals may leave their leading zeros out.
            Some(bytes) if length < bytes && !matches!(self.host, HostType::Decimal | HostType::Numeric) => {
                Err(CutError::BadLength)
            }
            None if self.host == HostType::NChar && !length.is_multiple_of(2) => Err(CutError::OddBytes),
            _ => Ok(Some(length)),
        }
    }

    fn find_terminated(&self, bytes: &[u8], start: usize, at_end: bool, limit: usize) -> Result<Found, CutError> {
        let rest = &bytes[start..];
        let length = self.terminator.bytes.len();
        // A field as long as it may be, with its terminator.
        let most = limit.saturating_add(length);
        let (end, next) = match self.terminator.find(&rest[..most.min(rest.len())]) {
            Some(place) => (start + place, start + place + length),
            None if rest.len() >= most => return Err(CutError::TooLong),
            None if at_end => (bytes.len(), bytes.len()),
            None => return Ok(Err(1)),
        };
        let content = &bytes[start..end];
        let is_wide = self.host == HostType::NChar;
        if is_wide && !content.len().is_multiple_of(2) {
            return Err(CutError::OddBytes);
        }
        let span = match content {
            [] => FieldSpan::NULL,
            // bcp writes empty text so, because no bytes at all are NULL.
            [0] if self.host == HostType::Char => FieldSpan { start, end: start },
            [0, 0] if is_wide => FieldSpan { start, end: start },
            _ => FieldSpan { start, end },
        };
        Ok(Ok((span, next)))
    }
}
