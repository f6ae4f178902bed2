//! Charts of a report as inline SVG. Texts and lines take the page's colours from its style sheet, so they are readable
//! on light and dark pages. The bars' colours stand out on both.

use plotters::coord::Shift;
use plotters::prelude::{
    DrawingArea, DrawingBackend, IntoDrawingArea, PathElement, RGBColor, Rectangle, SVGBackend, Text,
};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, IntoFont, IntoTextStyle, TextStyle};

use crate::figures::amount;

/// A bar of one or more pieces.
pub(super) struct Bar {
    pub(super) label: String,
    /// Values of the pieces, in the order of the chart's legend.
    pub(super) pieces: Vec<f64>,
}

/// Horizontal bars, one below the other.
pub(super) struct BarChart<'a> {
    /// The names of the pieces. A single name is not printed.
    pub(super) legend: Vec<String>,
    pub(super) bars: Vec<Bar>,
    /// A line across all bars: its position and its name.
    pub(super) limit: Option<(f64, String)>,
    pub(super) unit: &'a str,
}

const WIDTH: i32 = 900;
const LABEL_WIDTH: i32 = 260;
const VALUE_WIDTH: i32 = 110;
const BAR_HEIGHT: i32 = 18;
const BAR_STEP: i32 = 26;
const LEGEND_STEP: i32 = 20;
const FONT: (&str, i32) = ("sans-serif", 13);

const COLOURS: [RGBColor; 10] = [
    RGBColor(0x3B, 0x82, 0xC4),
    RGBColor(0xE0, 0x8A, 0x2E),
    RGBColor(0x4F, 0xA3, 0x62),
    RGBColor(0xC4, 0x4E, 0x52),
    RGBColor(0x8C, 0x72, 0xC2),
    RGBColor(0x93, 0x7B, 0x60),
    RGBColor(0xD1, 0x7C, 0xB8),
    RGBColor(0x8A, 0x8A, 0x8A),
    RGBColor(0xB5, 0xA6, 0x2B),
    RGBColor(0x3A, 0xA8, 0xB5),
];

/// The style sheet sets the real colour.
const INK: RGBColor = RGBColor(0x77, 0x77, 0x77);

impl BarChart<'_> {
    /// The chart as an `svg` element; empty without bars.
    pub(super) fn to_svg(&self) -> String {
        if self.bars.is_empty() {
            return String::new();
        }
        let legend_rows = if self.legend.len() > 1 { self.legend.len().div_ceil(3) as i32 } else { 0 };
        let top = legend_rows * LEGEND_STEP + if self.limit.is_some() { LEGEND_STEP } else { 4 };
        let height = top + self.bars.len() as i32 * BAR_STEP + 6;
        let mut svg = String::new();
        {
            let area = SVGBackend::with_string(&mut svg, (WIDTH as u32, height as u32)).into_drawing_area();
            self.draw(&area, top, height).expect("drawing into a string works");
        }
        svg
    }

    fn most(&self) -> f64 {
        let longest = self.bars.iter().map(|bar| bar.pieces.iter().sum::<f64>()).fold(0.0, f64::max);
        let limit = self.limit.as_ref().map_or(0.0, |(place, _)| *place);
        longest.max(limit).max(f64::MIN_POSITIVE)
    }

    fn draw<'b, B: DrawingBackend + 'b>(
        &self,
        area: &DrawingArea<B, Shift>,
        top: i32,
        height: i32,
    ) -> Result<(), plotters::drawing::DrawingAreaErrorKind<B::ErrorType>> {
        let scale = f64::from(WIDTH - LABEL_WIDTH - VALUE_WIDTH) / self.most();
        let place = |value: f64| LABEL_WIDTH + (value * scale).round() as i32;
        if self.legend.len() > 1 {
            for (number, name) in self.legend.iter().enumerate() {
                let (column, row) = ((number % 3) as i32, (number / 3) as i32);
                let (x, y) = (LABEL_WIDTH + column * 215, row * LEGEND_STEP + 2);
                area.draw(&Rectangle::new([(x, y), (x + 12, y + 12)], colour(number).filled()))?;
                area.draw(&Text::new(name.clone(), (x + 18, y + 6), style(HPos::Left)))?;
            }
        }
        for (number, bar) in self.bars.iter().enumerate() {
            let y = top + number as i32 * BAR_STEP;
            let middle = y + BAR_HEIGHT / 2;
            area.draw(&Text::new(bar.label.clone(), (LABEL_WIDTH - 8, middle), style(HPos::Right)))?;
            let mut sum = 0.0;
            for (piece, value) in bar.pieces.iter().enumerate() {
                let corners = [(place(sum), y), (place(sum + value.max(0.0)), y + BAR_HEIGHT)];
                area.draw(&Rectangle::new(corners, colour(piece).filled()))?;
                sum += value.max(0.0);
            }
            let text = format!("{} {}", amount(sum), self.unit);
            area.draw(&Text::new(text, (place(sum) + 6, middle), style(HPos::Left)))?;
        }
        if let Some((limit, name)) = &self.limit {
            let x = place(*limit);
            area.draw(&PathElement::new([(x, top - 4), (x, height - 2)], INK.stroke_width(2)))?;
            let text = format!("{name}: {} {}", amount(*limit), self.unit);
            area.draw(&Text::new(text, (x, top - 12), style(HPos::Right)))?;
        }
        area.present()
    }
}

fn colour(place: usize) -> RGBColor {
    COLOURS[place % COLOURS.len()]
}

fn style(horizontal: HPos) -> TextStyle<'static> {
    FONT.into_font().color(&INK).into_text_style(&(WIDTH as u32, 100)).pos(Pos::new(horizontal, VPos::Center))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_names_its_bars_and_its_limit() {
        let bar = |label: &str, pieces: &[f64]| Bar { label: label.to_owned(), pieces: pieces.to_vec() };
        let chart = BarChart {
            legend: vec!["CPU".to_owned(), "waits".to_owned()],
            bars: vec![bar("heap <&>", &[1.0, 2.0]), bar("other", &[0.0, 0.0])],
            limit: Some((4.0, "the disk".to_owned())),
            unit: "s",
        };
        let svg = chart.to_svg();
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
        assert!(svg.contains("the disk: 4.00 s") && svg.contains("waits"));
        assert!(svg.contains("heap &lt;&amp;&gt;"), "names are escaped");
    }

    #[test]
    fn no_bars_are_no_chart() {
        let chart = BarChart { legend: Vec::new(), bars: Vec::new(), limit: None, unit: "s" };
        assert_eq!(chart.to_svg(), "");
    }
}
