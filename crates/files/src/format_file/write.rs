//! Format files are written, in both notations.

use std::fmt::Write as _;

use super::xml::{BULK_NAMESPACE, XSI_NAMESPACE};
use super::{FileField, FormatFile, HostType, terminator, xml_column};

/// The version that files in lines have: that of the oldest bcp which Microsoft's examples show.
const VERSION: &str = "12.0";

impl FormatFile {
    /// The file in lines, with lines that end as bcp's do. A line break in a column's name becomes a space.
    pub fn to_text(&self) -> String {
        let mut out = format!("{VERSION}\r\n{}\r\n", self.fields.len());
        let names = self.fields.iter().zip(1..).map(|(field, number)| name_in_line(&field.column_name, number));
        let names: Vec<String> = names.collect();
        let name_width = names.iter().map(String::len).max().unwrap_or(0);
        for ((place, field), name) in self.fields.iter().enumerate().zip(&names) {
            let terminator = format!("\"{}\"", terminator::written(&field.terminator, field.host == HostType::NChar));
            let collation = field.collation.as_deref().unwrap_or("\"\"");
            let (number, host, column) = (place + 1, field.host.name(), field.column.unwrap_or(0));
            let _ = write!(
                out,
                "{number:<7} {host:<16} {:<7} {:<7} {terminator:<10} {column:<5} {name:<name_width$} {collation}\r\n",
                field.prefix_length, field.length,
            );
        }
        out
    }

    /// The file in XML. `None` if it says what XML cannot: it has no rowset, a native field has a terminator, or a
    /// field has both a length in front and a terminator.
    pub fn to_xml(&self) -> Option<String> {
        if self.columns.is_empty() {
            return None;
        }
        let mut out = String::from("<?xml version=\"1.0\"?>\r\n");
        let _ = write!(out, "<BCPFORMAT xmlns=\"{BULK_NAMESPACE}\" xmlns:xsi=\"{XSI_NAMESPACE}\">\r\n <RECORD>\r\n");
        for (place, field) in self.fields.iter().enumerate() {
            write_field(&mut out, place + 1, field)?;
        }
        out.push_str(" </RECORD>\r\n <ROW>\r\n");
        for column in &self.columns {
            let field = self.fields.get(column.field)?;
            let _ = write!(out, "  <COLUMN SOURCE=\"{}\" NAME=\"", column.field + 1);
            push_escaped(&mut out, &column.name);
            out.push('"');
            out.push_str(&xml_column::written(column, field));
            out.push_str("/>\r\n");
        }
        out.push_str(" </ROW>\r\n</BCPFORMAT>\r\n");
        Some(out)
    }
}

/// A name as a line has it: quoted if it could be read otherwise. A line must have one: a field without has its number.
fn name_in_line(name: &str, number: usize) -> String {
    if name.is_empty() {
        return number.to_string();
    }
    let is_plain = !name.starts_with('"') && !name.contains(|c: char| c.is_ascii_whitespace());
    if is_plain {
        return name.to_owned();
    }
    let escaped = name.replace('\\', "\\\\").replace('"', "\\\"").replace(['\r', '\n'], " ");
    format!("\"{escaped}\"")
}

fn write_field(out: &mut String, id: usize, field: &FileField) -> Option<()> {
    let family = match field.host {
        HostType::Char => "Char",
        HostType::NChar => "NChar",
        _ => "Native",
    };
    let _ = write!(out, "  <FIELD ID=\"{id}\" xsi:type=\"{family}");
    let maximum = field.length;
    if field.prefix_length > 0 {
        if !field.terminator.is_empty() {
            return None;
        }
        let _ = write!(out, "Prefix\" PREFIX_LENGTH=\"{}\"", field.prefix_length);
        if field.host.bytes().is_none() && maximum > 0 {
            let _ = write!(out, " MAX_LENGTH=\"{maximum}\"");
        }
    } else if let Some(length) = field.fixed_bytes() {
        if !field.terminator.is_empty() {
            return None;
        }
        let _ = write!(out, "Fixed\" LENGTH=\"{length}\"");
    } else if field.host.is_text() {
        out.push_str("Term\" TERMINATOR=\"");
        push_escaped(out, &terminator::written(&field.terminator, field.host == HostType::NChar));
        out.push('"');
        if maximum > 0 {
            let _ = write!(out, " MAX_LENGTH=\"{maximum}\"");
        }
    } else {
        return None;
    }
    if let Some(collation) = field.collation.as_deref().filter(|_| field.host.is_text()) {
        out.push_str(" COLLATION=\"");
        push_escaped(out, collation);
        out.push('"');
    }
    out.push_str("/>\r\n");
    Some(())
}

/// Text in an attribute. Characters that XML has no way to write become spaces.
fn push_escaped(out: &mut String, text: &str) {
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\t' | '\n' | '\r' => {
                let _ = write!(out, "&#{};", u32::from(character));
            }
            '\0'..='\u{1F}' | '\u{FFFE}' | '\u{FFFF}' => out.push(' '),
            _ => out.push(character),
        }
    }
}
