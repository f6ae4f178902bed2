//! Draws a plan as a tree for a terminal.

use std::time::Duration;

use super::text::{operator_text, seek_text};
use super::worst::{Judged, judge, worst_estimate};
use super::{Actual, Detail, PlanNode, ShownStatement};

/// The least length to which a text is cut, however deep its operator is.
const TEXT_CHARS_MIN: usize = 30;
/// The most workers for which the rows of each are shown.
const WORKERS_SHOWN: usize = 16;

/// How a tree is drawn.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Drawing {
    /// Whether colours may be used.
    pub has_colours: bool,
    /// The most characters of a line of the tree before it is cut; `None` for no limit.
    pub width: Option<usize>,
}

/// The tree of a statement: for each operator a line and its figures, each with a line end. Empty for a statement
/// without a plan.
///
/// ```text
/// 0 Hash Match(Inner Join, HASH:([a].[x])=([b].[x]))
/// │     estimated 100 rows, got 99,000  <<< wrong by 990 times: the worst estimate
/// ├─ 1 Table Scan(OBJECT:([d].[dbo].[a]))
/// │        estimated 100 rows, got 100
/// └─ 2 Table Scan(OBJECT:([d].[dbo].[b]))
///          estimated 100,000 rows, got 100,000
/// ```
/// The numbers equal `NodeId` and `node_id` in documents and views.
pub fn draw(statement: &ShownStatement, drawing: Drawing) -> String {
    let Some(root) = &statement.root else { return String::new() };
    let worst = worst_estimate(root).map(|(node, _)| node.id);
    let mut drawn = Drawn { text: String::new(), worst, judged: judge(root), drawing };
    drawn.node(root, "", None);
    if let Some(figures) = &statement.figures {
        let waits: Vec<String> =
            figures.waits.iter().map(|(name, count, time)| format!("{name} {} ms ({count})", ms(*time))).collect();
        let waits = if waits.is_empty() { String::new() } else { format!("; waits: {}", waits.join(", ")) };
        drawn.text.push_str(&format!(
            "elapsed {} ms, CPU {} ms, {} in {} ms, {}{waits}\n",
            ms(figures.elapsed),
            ms(figures.cpu),
            if statement.is_reused { "plan of an earlier execution taken" } else { "compiled" },
            ms(statement.compile.0),
            counted(statement.degree as u64, "worker"),
        ));
    }
    if let Some(made) = statement.statistics_cost.text() {
        drawn.text.push_str(&format!("of it: {made}\n"));
    }
    if let Some(memory) = memory_text(statement) {
        drawn.text.push_str(&format!("memory: {memory}\n"));
    }
    drawn.text
}

/// The memory granted to the operators of a statement that has run; `None` if they keep no rows.
pub fn memory_text(statement: &ShownStatement) -> Option<String> {
    let memory = statement.memory.as_ref()?;
    let kilobytes = |bytes: u64| count(bytes.div_ceil(1024));
    let used = if memory.held_most > memory.granted { "and lent more: at most" } else { "of which at most" };
    Some(format!(
        "granted {} KB, {used} {} KB were used; by the estimates {} KB are kept",
        kilobytes(memory.granted),
        kilobytes(memory.held_most),
        kilobytes(memory.ideal)
    ))
}

struct Drawn {
    text: String,
    worst: Option<usize>,
    /// By operator number.
    judged: Vec<Option<Judged>>,
    drawing: Drawing,
}

impl Drawn {
    /// `is_last`: whether the node is the last child of its parent; `None` for the root.
    fn node(&mut self, node: &PlanNode, indent: &str, is_last: Option<bool>) {
        let (branch, below) = match is_last {
            None => ("", ""),
            Some(false) => ("├─ ", "│  "),
            Some(true) => ("└─ ", "   "),
        };
        let below = format!("{indent}{below}");
        let is_worst = self.worst == Some(node.id);
        let head = format!("{} {}", node.id, operator_text(node));
        let head = self.cut(&head, indent.chars().count() + branch.chars().count());
        let head = match (is_worst && self.drawing.has_colours, self.drawing.has_colours) {
            (true, _) => format!("\u{1b}[1;31m{head}\u{1b}[0m"),
            (_, true) => format!("\u{1b}[1m{head}\u{1b}[0m"),
            _ => head,
        };
        self.text.push_str(&format!("{indent}{branch}{head}\n"));
        let under = if node.children.is_empty() { "   " } else { "│  " };
        let error = self.judged.get(node.id).copied().flatten().map(|judged| judged.times);
        for line in lines(node, error, is_worst) {
            let line = self.cut(&line, below.chars().count() + under.chars().count());
            self.text.push_str(&format!("{below}{under}{line}\n"));
        }
        for (at, child) in node.children.iter().enumerate() {
            self.node(child, &below, Some(at + 1 == node.children.len()));
        }
    }

    /// The text, cut to the room after `indent` characters.
    fn cut(&self, text: &str, indent: usize) -> String {
        let room = self.drawing.width.map_or(usize::MAX, |width| width.saturating_sub(indent).max(TEXT_CHARS_MIN));
        if text.chars().nth(room).is_none() {
            return text.to_owned();
        }
        text.chars().take(room - 1).chain(['…']).collect()
    }
}

/// The lines of an operator's figures.
fn lines(node: &PlanNode, error: Option<f64>, is_worst: bool) -> Vec<String> {
    let estimated = format!("estimated {}", counted(node.estimate.rows.round() as u64, "row"));
    let Some(actual) = &node.actual else {
        return vec![format!("{estimated}, cost {:.4}", node.estimate.subtree)];
    };
    let wrong = match error {
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
        let kilobytes = count(actual.spilled_bytes.div_ceil(1024));
        lines.push(format!("spilled {}, {kilobytes} KB", counted(actual.spills, "time")));
    }
    lines
}

/// The rows that pushed-down conditions have left out of a table; `None` if they have left out none or have not run.
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
            said.push(format!("{} left out by the seek of {}", counted(left_out, "row"), keys.join(" AND ")));
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
        said.push(format!("{} of {} removed by {by}", count(left_out), counted(read, "row")));
    }
    (!said.is_empty()).then(|| said.join("; "))
}

/// Processor time and pages.
fn work(actual: &Actual) -> Option<String> {
    let mut said = Vec::new();
    if !actual.cpu().is_zero() {
        said.push(format!("CPU {} ms", ms(actual.cpu())));
    }
    if let Some((logical, physical)) = actual.reads() {
        said.push(format!("{}, {} from disk", counted(logical, "page"), count(physical)));
    }
    (!said.is_empty()).then(|| said.join(", "))
}

/// A time in milliseconds with one decimal, without the unit.
pub fn ms(time: Duration) -> String {
    format!("{:.1}", time.as_secs_f64() * 1e3)
}

/// A number with its noun: `1 row`, `2,000 rows`.
pub fn counted(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", count(number))
}

/// A number with commas between thousands: `4,164`.
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
    use super::*;
    use crate::PlanExpr;
    use crate::worst::tests::node;

    #[test]
    fn the_worst_estimate_is_marked_once() {
        let mut root = node(3.0, 9, vec![node(1.0, 1_234_567, vec![]), node(5.0, 5, vec![])]);
        root.finish();
        let statement = ShownStatement { root: Some(root), ..ShownStatement::plain("SELECT 1", "SELECT") };
        let drawn = draw(&statement, Drawing::default());
        assert_eq!(drawn.matches("<<<").count(), 1, "{drawn}");
        assert!(drawn.starts_with("0 Filter\n"), "{drawn}");
        assert!(
            drawn.contains("├─ 1 Filter\n│     estimated 1 row, got 1,234,567  <<< wrong by 1,234,567 times"),
            "{drawn}"
        );
        assert!(drawn.contains("└─ 2 Filter\n      estimated 5 rows, got 5\n"), "{drawn}");
    }

    #[test]
    fn numbers_have_commas_between_thousands() {
        assert_eq!([0, 4_164, 924_200_000].map(count), ["0", "4,164", "924,200,000"]);
    }

    #[test]
    fn lines_are_cut_at_the_width_and_nowhere_else() {
        let mut root = node(1.0, 1, vec![node(1.0, 1, vec![])]);
        root.finish();
        root.children[0].predicate = Some(PlanExpr::Constant("x".repeat(300)));
        let statement = ShownStatement { root: Some(root), ..ShownStatement::plain("SELECT 1", "SELECT") };
        let longest = |width| {
            let drawn = draw(&statement, Drawing { width, ..Drawing::default() });
            drawn.lines().map(|line| line.chars().count()).max()
        };
        assert_eq!(longest(Some(80)), Some(80));
        assert!(longest(None) > Some(300));
    }
}
