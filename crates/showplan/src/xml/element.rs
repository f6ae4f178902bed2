//! XML as a tree of elements, and its text.

use std::fmt::{self, Display};

/// An element. It contains only elements.
#[derive(Clone, Debug)]
pub(super) struct Element {
    name: &'static str,
    attributes: Vec<(&'static str, String)>,
    content: Vec<Element>,
}

impl Element {
    pub(super) fn new(name: &'static str) -> Element {
        Element { name, attributes: Vec::new(), content: Vec::new() }
    }

    pub(super) fn attribute(mut self, name: &'static str, value: impl Display) -> Element {
        self.attributes.push((name, value.to_string()));
        self
    }

    pub(super) fn optional(self, name: &'static str, value: Option<impl Display>) -> Element {
        match value {
            Some(value) => self.attribute(name, value),
            None => self,
        }
    }

    pub(super) fn child(mut self, child: Element) -> Element {
        self.content.push(child);
        self
    }

    pub(super) fn children(mut self, children: impl IntoIterator<Item = Element>) -> Element {
        self.content.extend(children);
        self
    }
}

/// An attribute's value, escaped. A character that XML does not allow becomes the replacement character.
struct Escaped<'t>(&'t str);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            match character {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                // Unescaped, a reader would turn them into blanks.
                '\t' | '\n' | '\r' => write!(f, "&#x{:X};", u32::from(character))?,
                '\u{0}'..'\u{20}' | '\u{FFFE}' | '\u{FFFF}' => f.write_str("\u{FFFD}")?,
                plain => write!(f, "{plain}")?,
            }
        }
        Ok(())
    }
}

impl Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{}", self.name)?;
        for (name, value) in &self.attributes {
            write!(f, " {name}=\"{}\"", Escaped(value))?;
        }
        if self.content.is_empty() {
            return f.write_str("/>");
        }
        f.write_str(">")?;
        self.content.iter().try_for_each(|element| write!(f, "{element}"))?;
        write!(f, "</{}>", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_means_something_to_xml_is_escaped() {
        let element = Element::new("a").attribute("b", "<\"&'>\n\u{1}é").child(Element::new("c").attribute("d", 1.5));
        assert_eq!(element.to_string(), "<a b=\"&lt;&quot;&amp;'&gt;&#xA;\u{FFFD}é\"><c d=\"1.5\"/></a>");
    }
}
