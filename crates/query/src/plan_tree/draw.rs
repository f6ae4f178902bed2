//! A plan as a tree for a terminal.

use std::time::Duration;

use super::text::{operator_text, seek_text};
use super::worst::{error_of, worst_estimate};
use super::{Actual, Detail, PlanNode, ShownStatement};

/// How wide an operator's text may be before it is cut.
const TEXT_CHARS: usize = 100;
/// Up to so many workers, the rows of each are shown.
const WORKERS_SHOWN: usize = 16;

/// How a tree is drawn.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Drawing {
    /// Whether colours may be used.
    pub has_colours: bool,
}

/// The tree of a statement, a line an operator, each with a line end. Empty for a statement without a plan.
///
/// ```text
/// Hash Match (Inner Join)  HASH:([a].[x])=([b].[x])     est 100   act 99,000   ×990 ◀ worst estimate
/// ├─ Table Scan [d].[dbo].[a]                           est 100   act 100
/// └─ Table Scan [d].[dbo].[b]                           est 100000   act 100,000 …
/// ```
pub fn draw(statement: &ShownStatement, drawing: Drawing) -> String {
    let Some(root) = &statement.root else { return String::new() };
    let worst = worst_estimate(root).map(|(node, _)| node.id);
    let mut drawn = Drawn { text: String::new(), worst, drawing };
    drawn.node(root, "", None);
    if let Some(figures) = &statement.figures {
        let waits: Vec<String> =
            figures.waits.iter().map(|(name, count, time)| format!("{name} {} ms ({count})", ms(*time))).collect();
        let waits = if waits.is_empty() { String::new() } else { format!("; waits: {}", waits.join(", ")) };
        drawn.text.push_str(&format!(
            "elapsed {} ms, CPU {} ms, compiled in {} ms, {} worker(s){waits}\n",
            ms(figures.elapsed),
            ms(figures.cpu),
            ms(statement.compile.0),
            statement.degree
        ));
    }
    drawn.text
}

struct Drawn {
    text: String,
    worst: Option<usize>,
    drawing: Drawing,
}

impl Drawn {
    /// `is_last`: whether it is the last of its parent's; `None` for the root.
    fn node(&mut self, node: &PlanNode, indent: &str, is_last: Option<bool>) {
        let (branch, below) = match is_last {
            None => ("", ""),
            Some(false) => ("├─ ", "│  "),
            Some(true) => ("└─ ", "   "),
        };
        let below = format!("{indent}{below}");
        let is_worst = self.worst == Some(node.id);
        let head = cut(&operator_text(node));
        let head = match (is_worst && self.drawing.has_colours, self.drawing.has_colours) {
            (true, _) => format!("\u{1b}[1;31m{head}\u{1b}[0m"),
            (_, true) => format!("\u{1b}[1m{head}\u{1b}[0m"),
            _ => head,
        };
        self.text.push_str(&format!("{indent}{branch}{head}\n"));
        let under = if node.children.is_empty() { "   " } else { "│  " };
        for line in lines(node, is_worst) {
            self.text.push_str(&format!("{below}{under}{line}\n"));
        }
        for (at, child) in node.children.iter().enumerate() {
            self.node(child, &below, Some(at + 1 == node.children.len()));
        }
    }
}

/// What is said of an operator, a line each.
fn lines(node: &PlanNode, is_worst: bool) -> Vec<String> {
    let estimated = format!("estimated {} rows", count(node.estimate.rows.round() as u64));
    let Some(actual) = &node.actual else {
        return vec![format!("{estimated}, cost {:.4}", node.estimate.subtree)];
    };
    let wrong = match error_of(node) {
        Some(error) if is_worst => format!("  <<< wrong by {} times: the worst estimate", count(error.round() as u64)),
        Some(error) if error >= 100.0 => format!("  (wrong by {} times)", count(error.round() as u64)),
        Some(error) if error >= 2.0 => format!("  (wrong by {error:.1} times)"),
        _ => String::new(),
    };
    let mut first = format!("{estimated}, got {}{wrong}", count(actual.rows()));
    if actual.executions() == 0 {
        first = format!("{estimated}, did not run");
    }
    let mut lines = vec![first];
    lines.extend(removed(node));
    lines.extend(work(actual));
    if actual.workers.len() > 1 && actual.workers.len() <= WORKERS_SHOWN {
        let rows: Vec<String> = actual.workers.iter().map(|worker| count(worker.rows)).collect();
        lines.push(format!("rows by worker: {}", rows.join(" | ")));
    }
    if actual.spills > 0 {
        lines.push(format!("spilled {} times, {} KB", actual.spills, count(actual.spilled_bytes / 1024)));
    }
    lines
}

/// What conditions that reached the table have left out of it; `None` where they did not, or have not run.
pub fn removed(node: &PlanNode) -> Option<String> {
    let actual = node.actual.as_ref().filter(|actual| actual.executions() > 0)?;
    let mut said = Vec::new();
    if let Detail::Read { seek, partitions, .. } = &node.detail {
        if let Some((read, all)) = partitions.filter(|(read, all)| read < all) {
            said.push(format!("{} of {all} partitions left out", all - read));
        }
        if let (false, Some(table)) = (seek.is_empty(), node.estimate.table_rows) {
            let left_out = (table.max(0.0) as u64).saturating_sub(actual.rows_read());
            let keys: Vec<String> = seek.iter().map(seek_text).collect();
            said.push(format!("{} rows left out by the seek of {}", count(left_out), cut(&keys.join(" AND "))));
        }
    }
    let by = match (node.predicate.is_some(), node.probes.is_empty()) {
        (true, true) => Some("the condition"),
        (true, false) => Some("the condition and joins' filters"),
        (false, false) => Some("joins' filters"),
        (false, true) => None,
    };
    if let Some(by) = by.filter(|_| actual.rows_read() > actual.rows()) {
        let (read, left_out) = (actual.rows_read(), actual.rows_read() - actual.rows());
        said.push(format!("{} of {} rows removed by {by}", count(left_out), count(read)));
    }
    (!said.is_empty()).then(|| said.join("; "))
}

/// Time and pages.
fn work(actual: &Actual) -> Option<String> {
    let mut said = Vec::new();
    if !actual.cpu().is_zero() {
        said.push(format!("CPU {} ms", ms(actual.cpu())));
    }
    if let Some((logical, physical)) = actual.reads() {
        said.push(format!("{} pages, {} from disk", count(logical), count(physical)));
    }
    (!said.is_empty()).then(|| said.join(", "))
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(TEXT_CHARS) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

fn ms(time: Duration) -> String {
    format!("{:.1}", time.as_secs_f64() * 1e3)
}

/// A number with commas.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::worst::tests::node;
    use super::*;

    #[test]
    fn the_worst_estimate_is_marked_once() {
        let mut root = node(3.0, 9, vec![node(1.0, 1_234_567, vec![]), node(5.0, 5, vec![])]);
        root.finish();
        let statement = ShownStatement { root: Some(root), ..ShownStatement::plain("SELECT 1", "SELECT") };
        let drawn = draw(&statement, Drawing::default());
        assert_eq!(drawn.matches("<<<").count(), 1, "{drawn}");
        assert!(
            drawn.contains("├─ Filter\n│     estimated 1 rows, got 1,234,567  <<< wrong by 1,234,567 times"),
            "{drawn}"
        );
        assert!(drawn.contains("└─ Filter\n      estimated 5 rows, got 5\n"), "{drawn}");
    }
}
