//! Charts of a report as plain elements of its page, so that their texts keep their size on a narrow screen. The style
//! sheet has the colours: no two of them are told apart by red against green, and pieces have a gap between them.

use serde::Serialize;

use crate::figures::amount;

/// A bar of one or more pieces.
pub(super) struct Bar {
    pub(super) label: String,
    /// Values of the pieces, in the order of the chart's legend.
    pub(super) pieces: Vec<f64>,
}

/// Horizontal bars, one below the other.
pub(super) struct BarChart<'a> {
    pub(super) title: &'a str,
    pub(super) says: &'a str,
    /// The names of the pieces. A single name is not printed.
    pub(super) legend: Vec<String>,
    pub(super) bars: Vec<Bar>,
    /// Whether all bars have one length, so that only the shares of their pieces are compared.
    pub(super) is_of_shares: bool,
    /// A line across all bars: its position and its name.
    pub(super) limit: Option<(f64, &'a str)>,
    pub(super) unit: &'a str,
}

/// A chart for the page's template. Widths and places are percentages of the room for bars.
#[derive(Debug, Serialize)]
pub(super) struct Drawn {
    title: String,
    says: String,
    keys: Vec<Key>,
    limit: Option<Limit>,
    rows: Vec<Row>,
}

/// An entry of the legend.
#[derive(Debug, Serialize)]
struct Key {
    class: String,
    name: String,
}

#[derive(Debug, Serialize)]
struct Limit {
    place: String,
    text: String,
}

#[derive(Debug, Serialize)]
struct Row {
    label: String,
    value: String,
    pieces: Vec<Piece>,
}

#[derive(Debug, Serialize)]
struct Piece {
    class: String,
    width: String,
    /// Its share of the bar, where there is room for it.
    share: Option<String>,
    says: String,
}

/// Pieces that are wider than this part of the room, in percent, have their share written on them.
const ROOM_FOR_SHARE: f64 = 11.0;
/// Colours of the style sheet, without those of [`OTHER`] and [`REST`].
const COLOURS: usize = 8;

/// The pieces whose colours do not depend on their place.
pub(super) const OTHER: &str = "other waits";
pub(super) const REST: &str = "unexplained";

impl BarChart<'_> {
    /// The chart for the template; `None` without bars.
    pub(super) fn drawn(&self) -> Option<Drawn> {
        if self.bars.is_empty() {
            return None;
        }
        let longest = self.bars.iter().map(length).fold(0.0, f64::max);
        let limit = self.limit.map_or(0.0, |(place, _)| place);
        let most = longest.max(limit).max(f64::MIN_POSITIVE);
        let is_used = |place: usize| self.bars.iter().any(|bar| bar.pieces.get(place).is_some_and(|it| *it > 0.0));
        let keys = self.legend.iter().enumerate().filter(|(place, _)| self.legend.len() > 1 && is_used(*place));
        Some(Drawn {
            title: self.title.to_owned(),
            says: self.says.to_owned(),
            keys: keys.map(|(place, name)| Key { class: class(place, name), name: name.clone() }).collect(),
            limit: self.limit.map(|(place, name)| Limit {
                place: percent(place, most),
                text: format!("{name}: {} {}", amount(place), self.unit),
            }),
            rows: self
                .bars
                .iter()
                .map(|bar| self.row(bar, if self.is_of_shares { length(bar) } else { most }))
                .collect(),
        })
    }

    fn row(&self, bar: &Bar, most: f64) -> Row {
        let whole = length(bar);
        let piece = |(place, value): (usize, &f64)| {
            let name = self.legend.get(place).map_or("", String::as_str);
            let share = format!("{:.0} %", value / whole * 100.0);
            let says = format!("{name} {} {}, {share}", amount(*value), self.unit);
            let has_room = bar.pieces.len() > 1 && value / most * 100.0 > ROOM_FOR_SHARE;
            Piece { class: class(place, name), width: percent(*value, most), share: has_room.then_some(share), says }
        };
        Row {
            label: bar.label.clone(),
            value: format!("{} {}", amount(whole), self.unit),
            pieces: bar.pieces.iter().enumerate().filter(|(_, value)| **value > 0.0).map(piece).collect(),
        }
    }
}

fn length(bar: &Bar) -> f64 {
    bar.pieces.iter().map(|piece| piece.max(0.0)).sum()
}

fn percent(part: f64, most: f64) -> String {
    format!("{:.2}", part.max(0.0) / most * 100.0)
}

fn class(place: usize, name: &str) -> String {
    match name {
        OTHER => "other".to_owned(),
        REST => "rest".to_owned(),
        _ => format!("c{}", place % COLOURS),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(bars: Vec<Bar>) -> BarChart<'static> {
        BarChart {
            title: "Time",
            says: "",
            legend: ["CPU", "waits", OTHER].map(str::to_owned).to_vec(),
            bars,
            is_of_shares: false,
            limit: Some((4.0, "the disk")),
            unit: "s",
        }
    }

    #[test]
    fn pieces_are_parts_of_the_longest_bar_and_name_their_share() {
        let bar = |label: &str, pieces: &[f64]| Bar { label: label.to_owned(), pieces: pieces.to_vec() };
        let drawn = chart(vec![bar("heap", &[1.0, 1.0, 0.0]), bar("none", &[0.0, 0.0, 0.0])]).drawn().expect("bars");
        let heap = &drawn.rows[0];
        assert_eq!(heap.pieces.iter().map(|piece| piece.width.as_str()).collect::<Vec<_>>(), ["25.00", "25.00"]);
        assert_eq!((heap.pieces[1].share.as_deref(), heap.value.as_str()), (Some("50 %"), "2.00 s"));
        assert!(drawn.rows[1].pieces.is_empty());
        assert_eq!(
            drawn.limit.map(|limit| (limit.place, limit.text)),
            Some(("100.00".into(), "the disk: 4.00 s".into()))
        );
        // What no bar has needs no key.
        assert_eq!(drawn.keys.iter().map(|key| key.name.as_str()).collect::<Vec<_>>(), ["CPU", "waits"]);
    }

    #[test]
    fn bars_of_shares_are_equally_long() {
        let bars = [[1.0, 3.0], [10.0, 30.0]].map(|pieces| Bar { label: String::new(), pieces: pieces.to_vec() });
        let drawn = BarChart { is_of_shares: true, ..chart(bars.into()) }.drawn().expect("bars");
        for row in &drawn.rows {
            assert_eq!((row.pieces[0].width.as_str(), row.pieces[1].width.as_str()), ("25.00", "75.00"));
        }
    }

    #[test]
    fn no_bars_are_no_chart() {
        assert!(chart(Vec::new()).drawn().is_none());
    }
}
