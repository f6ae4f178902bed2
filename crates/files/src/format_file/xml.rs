//! Format files in XML: `RECORD` with its fields, and `ROW` with the columns of the rowset.
//!
//! | `FIELD` | needs | may have |
//! |---|---|---|
//! | `NativeFixed` | `LENGTH` | |
//! | `NativePrefix` | `PREFIX_LENGTH` | `MAX_LENGTH` |
//! | `CharFixed`, `NCharFixed` | `LENGTH` | `COLLATION` |
//! | `CharPrefix`, `NCharPrefix` | `PREFIX_LENGTH` | `MAX_LENGTH`, `COLLATION` |
//! | `CharTerm`, `NCharTerm` | `TERMINATOR` | `MAX_LENGTH`, `COLLATION` |

use std::collections::{HashMap, HashSet};

use hobt_base::{SqlError, errors};
use roxmltree::{Document, Node, ParsingOptions};

use super::{FIELDS_MAX, FileField, FormatFile, HostType, RowsetColumn, code_page, terminator, text, xml_column};

/// The namespace of format files.
pub(super) const BULK_NAMESPACE: &str = "http://schemas.microsoft.com/sqlserver/2004/bulkload/format";
/// As some of Microsoft's examples have it.
const BULK_NAMESPACE_SECURE: &str = "https://schemas.microsoft.com/sqlserver/2004/bulkload/format";
/// The namespace of the attribute `xsi:type`.
pub(super) const XSI_NAMESPACE: &str = "http://www.w3.org/2001/XMLSchema-instance";

/// A field and a column, each with white space in front, and what is around them.
const NODES_MAX: u32 = 4 * FIELDS_MAX as u32 + 1024;
/// Signs of equality in a file and in a tag: a bound for attributes, which the parser compares with each other.
const EQUALS_MAX: usize = 16 * FIELDS_MAX;
const EQUALS_IN_TAG_MAX: usize = 256;

/// Reads a format file in XML.
///
/// # Errors
/// 4822, 4827, 4839, 4855 to 4859, 4872 to 4874, 4883.
pub(super) fn parse(bytes: &[u8], file: &str) -> Result<FormatFile, SqlError> {
    let text = text(bytes);
    if has_too_many_attributes(&text) {
        return Err(errors::FORMAT_FILE_XML.with([&"that there are too many attributes", &1, &1, &file]));
    }
    let options = ParsingOptions { nodes_limit: NODES_MAX, ..ParsingOptions::default() };
    let document = Document::parse_with_options(&text, options).map_err(|error| {
        let position = error.pos();
        errors::FORMAT_FILE_XML.with([&error, &position.row, &position.col, &file])
    })?;
    let reader = Reader { document: &document, file };
    reader.format(document.root_element())
}

fn has_too_many_attributes(text: &str) -> bool {
    let count = |piece: &str| memchr::memchr_iter(b'=', piece.as_bytes()).count();
    count(text) > EQUALS_MAX || text.split('<').any(|tag| count(tag) > EQUALS_IN_TAG_MAX)
}

/// What makes errors.
#[derive(Clone, Copy)]
pub(super) struct Reader<'d> {
    document: &'d Document<'d>,
    file: &'d str,
}

type XmlNode<'d> = Node<'d, 'd>;

impl<'d> Reader<'d> {
    fn line(self, node: XmlNode<'_>) -> u32 {
        self.document.text_pos_at(node.range().start).row
    }

    fn unexpected(self, node: XmlNode<'_>) -> SqlError {
        errors::FORMAT_FILE_ELEMENT.with([&self.line(node), &self.file, &node.tag_name().name()])
    }

    /// 4858: an attribute has a value that it cannot have.
    pub(super) fn bad_value(self, node: XmlNode<'_>, attribute: &str, value: &str) -> SqlError {
        let shown: String = value.chars().take(100).collect();
        errors::FORMAT_FILE_VALUE.with([&self.line(node), &self.file, &shown, &attribute])
    }

    fn missing(self, node: XmlNode<'_>, attribute: &str) -> SqlError {
        errors::FORMAT_FILE_ATTRIBUTE_MISSING.with([&self.line(node), &self.file, &attribute])
    }

    fn required(self, node: XmlNode<'d>, attribute: &str) -> Result<&'d str, SqlError> {
        node.attribute(attribute).ok_or_else(|| self.missing(node, attribute))
    }

    /// A positive number that an attribute has, if it is there.
    pub(super) fn number(self, node: XmlNode<'d>, attribute: &str) -> Result<Option<u32>, SqlError> {
        let Some(value) = node.attribute(attribute) else { return Ok(None) };
        let number = value.trim().parse().ok().filter(|number| (1..=i32::MAX as u32).contains(number));
        number.map(Some).ok_or_else(|| self.bad_value(node, attribute, value))
    }

    /// The children of an element, none of which is text.
    fn elements(self, node: XmlNode<'d>) -> Result<Vec<XmlNode<'d>>, SqlError> {
        let is_text = |child: &XmlNode<'_>| child.is_text() && child.text().is_some_and(|text| !text.trim().is_empty());
        match node.children().find(is_text) {
            Some(text) => Err(errors::FORMAT_FILE_INFO_ITEM.with([&self.line(text), &self.file])),
            None => Ok(node.children().filter(Node::is_element).collect()),
        }
    }

    /// The children of `RECORD` or `ROW`, all of which are of one name and have no children.
    fn items(self, parent: XmlNode<'d>, name: &str) -> Result<Vec<XmlNode<'d>>, SqlError> {
        let items = self.elements(parent)?;
        if items.is_empty() || items.len() > FIELDS_MAX {
            return Err(errors::FORMAT_FILE_COLUMNS.with([&self.file]));
        }
        for item in &items {
            if item.tag_name().name() != name {
                return Err(self.unexpected(*item));
            }
            if let Some(child) = self.elements(*item)?.first() {
                return Err(self.unexpected(*child));
            }
        }
        Ok(items)
    }

    /// Whether an element has attributes that its type does not.
    pub(super) fn check_attributes(self, node: XmlNode<'d>, allowed: &[&str]) -> Result<(), SqlError> {
        let is_allowed = |name: &str, namespace: Option<&str>| match namespace {
            None => allowed.contains(&name),
            Some(namespace) => namespace != XSI_NAMESPACE || name == "type",
        };
        match node.attributes().find(|attribute| !is_allowed(attribute.name(), attribute.namespace())) {
            Some(attribute) => {
                Err(errors::FORMAT_FILE_ATTRIBUTE.with([&self.line(node), &self.file, &attribute.name()]))
            }
            None => Ok(()),
        }
    }

    fn format(self, root: XmlNode<'d>) -> Result<FormatFile, SqlError> {
        let namespace = root.tag_name().namespace();
        let is_known = matches!(namespace, Some(BULK_NAMESPACE | BULK_NAMESPACE_SECURE));
        if root.tag_name().name() != "BCPFORMAT" || !is_known {
            return Err(self.unexpected(root));
        }
        let (mut record, mut row) = (None, None);
        for part in self.elements(root)? {
            let place = match part.tag_name().name() {
                "RECORD" if row.is_none() => &mut record,
                "ROW" => &mut row,
                _ => return Err(self.unexpected(part)),
            };
            if place.replace(part).is_some() {
                return Err(self.unexpected(part));
            }
        }
        let (Some(record), Some(row)) = (record, row) else {
            return Err(errors::FORMAT_FILE_COLUMNS.with([&self.file]));
        };
        let (mut fields, places) = self.fields(self.items(record, "FIELD")?)?;
        let columns = self.columns(self.items(row, "COLUMN")?, &mut fields, &places)?;
        Ok(FormatFile { fields, columns })
    }

    /// The fields, and the place of each id. The type of a native field is its column's, which is not known yet.
    fn fields(self, nodes: Vec<XmlNode<'d>>) -> Result<(Vec<FileField>, HashMap<&'d str, usize>), SqlError> {
        let mut places = HashMap::with_capacity(nodes.len());
        let mut fields = Vec::with_capacity(nodes.len());
        for (place, node) in nodes.into_iter().enumerate() {
            let id = self.required(node, "ID")?;
            if places.insert(id, place).is_some() {
                return Err(errors::FORMAT_FILE_DUPLICATE_ID.with([&self.line(node), &self.file, &id]));
            }
            fields.push(self.field(node, place + 1)?);
        }
        Ok((fields, places))
    }

    fn field(self, node: XmlNode<'d>, place: usize) -> Result<FileField, SqlError> {
        let kind = node.attribute((XSI_NAMESPACE, "type")).ok_or_else(|| self.missing(node, "type"))?;
        let (host, end) = match kind {
            "NativeFixed" => (HostType::Binary, "LENGTH"),
            "NativePrefix" => (HostType::Binary, "PREFIX_LENGTH"),
            "CharFixed" => (HostType::Char, "LENGTH"),
            "CharPrefix" => (HostType::Char, "PREFIX_LENGTH"),
            "CharTerm" => (HostType::Char, "TERMINATOR"),
            "NCharFixed" => (HostType::NChar, "LENGTH"),
            "NCharPrefix" => (HostType::NChar, "PREFIX_LENGTH"),
            "NCharTerm" => (HostType::NChar, "TERMINATOR"),
            _ => return Err(self.bad_value(node, "type", kind)),
        };
        let length = if end == "LENGTH" { end } else { "MAX_LENGTH" };
        let allowed = ["ID", end, length, "COLLATION"];
        self.check_attributes(node, &allowed[..if host.is_text() { 4 } else { 3 }])?;
        let required = self.required(node, end)?;
        let length = self.number(node, length)?;
        if kind == "NCharFixed" && length.is_some_and(|bytes| !bytes.is_multiple_of(2)) {
            return Err(self.bad_value(node, end, required));
        }
        let (mut prefix_length, mut terminator) = (0, Vec::new());
        if end == "PREFIX_LENGTH" {
            let bytes = self.number(node, end)?.filter(|bytes| matches!(bytes, 1 | 2 | 4 | 8));
            prefix_length = bytes.ok_or_else(|| self.bad_value(node, end, required))? as u8;
        } else if end == "TERMINATOR" {
            let bytes = terminator::parse(required.as_bytes(), host == HostType::NChar);
            terminator = bytes.filter(|bytes| !bytes.is_empty()).ok_or_else(|| self.bad_value(node, end, required))?;
        }
        let collation = node.attribute("COLLATION").filter(|name| !name.is_empty());
        if collation.is_some_and(|name| !code_page::is_collation(name, host)) {
            return Err(errors::FORMAT_FILE_COLLATION.with([&place, &self.file]));
        }
        Ok(FileField {
            host,
            prefix_length,
            length: length.unwrap_or(0),
            terminator,
            collation: collation.map(str::to_owned),
            column: None,
            column_name: String::new(),
        })
    }

    fn columns(
        self,
        nodes: Vec<XmlNode<'d>>,
        fields: &mut [FileField],
        places: &HashMap<&str, usize>,
    ) -> Result<Vec<RowsetColumn>, SqlError> {
        let mut used = HashSet::with_capacity(nodes.len());
        let mut columns = Vec::with_capacity(nodes.len());
        for (ordinal, node) in (1..).zip(nodes) {
            let source = self.required(node, "SOURCE")?;
            let Some(&place) = places.get(source) else {
                return Err(errors::FORMAT_FILE_NO_SUCH_ID.with([&self.line(node), &self.file, &source]));
            };
            if !used.insert(place) {
                return Err(errors::FORMAT_FILE_ID_USED_TWICE.with([&self.line(node), &self.file, &source]));
            }
            let name = self.required(node, "NAME")?;
            let field = &mut fields[place];
            let sql_type = xml_column::read(self, node, field)?;
            if !field.host.is_text() {
                field.host = HostType::of(sql_type, false);
                if let Some(bytes) = field.host.bytes().filter(|_| field.prefix_length > 0) {
                    field.length = bytes as u32;
                }
            }
            field.column = Some(ordinal);
            field.column_name = name.to_owned();
            let nullable = match node.attribute("NULLABLE") {
                None | Some("YES") => true,
                Some("NO") => false,
                Some(other) => return Err(self.bad_value(node, "NULLABLE", other)),
            };
            columns.push(RowsetColumn { name: name.to_owned(), sql_type, nullable, field: place });
        }
        Ok(columns)
    }
}
