//! Plans as one page of HTML that needs nothing else: its style sheet is inside, there are no scripts. Or as one
//! document of XML.

use std::fs::OpenOptions;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hobt_lab::Occasion;
use hobt_showplan::{
    Actual, Judged, PlanNode, ShownStatement, argument, count, counted, judge, memory_text, ms, removed, to_xml,
    worst_estimate,
};
use minijinja::{Environment, Value, context};

const TEMPLATE: &str = include_str!("plan_page.html");

/// The most plans on a page.
pub(crate) const PLANS_MAX: usize = 500;

/// What a file of this name has in it: the plans as XML where its name ends as SQL Server's tools have it, else a page.
pub(crate) fn file(path: &Path, statements: &[Arc<ShownStatement>]) -> String {
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default().to_ascii_lowercase();
    if ending != "sqlplan" && ending != "xml" {
        return page(statements);
    }
    to_xml(&statements.iter().map(|statement| ShownStatement::clone(statement)).collect::<Vec<_>>())
}

/// Whether a file can be written, as it will be when statements have run; one that is there stays as it is.
///
/// # Errors
/// Why not, with its name.
pub(crate) fn check(path: &Path) -> Result<(), String> {
    let is_there = match std::fs::symlink_metadata(path) {
        // What a pipe's reader is told, or a link is for, is not to be tried out.
        Ok(there) if !there.is_file() && !there.is_dir() => return Ok(()),
        found => found.is_ok(),
    };
    let opened = OpenOptions::new().append(true).create(true).open(path);
    opened.map_err(|error| format!("{} cannot be written: {error}", path.display()))?;
    if !is_there {
        // Nothing has been written: a page of no statement says less than none.
        let _not_removed = std::fs::remove_file(path);
    }
    Ok(())
}

/// The page of these statements.
fn page(statements: &[Arc<ShownStatement>]) -> String {
    let mut environment = Environment::new();
    // The name's ending switches escaping on.
    environment.add_template("plan_page.html", TEMPLATE).expect("the template is sound");
    let template = environment.get_template("plan_page.html").expect("it was added");
    let statements: Vec<Value> = statements.iter().filter_map(|statement| shown(statement)).collect();
    let (version, occasion) = (env!("CARGO_PKG_VERSION"), Occasion::now());
    let (date, command) = (occasion.date, occasion.command);
    template.render(context! { statements, version, date, command }).expect("the template's values are all given")
}

fn percent(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { (100.0 * part / whole).clamp(0.0, 100.0) } else { 0.0 }
}

fn shown(statement: &ShownStatement) -> Option<Value> {
    let root = statement.root.as_ref()?;
    let worst = worst_estimate(root);
    let mut rows = Vec::new();
    let cpu = root.all().into_iter().filter_map(|node| node.actual.as_ref()).map(Actual::cpu).max().unwrap_or_default();
    let (worst_id, judged) = (worst.map(|(node, _)| node.id), judge(root));
    let whole = Whole { worst: worst_id, judged, subtree: root.estimate.subtree, cpu };
    add(root, &whole, 0, &mut rows);
    let verdict = worst.map(|(node, judged)| {
        format!(
            "The estimate of operator {} ({}) was most wrong: expected {}, got {}, {} times as {}.",
            node.id,
            node.physical,
            count(judged.expected.round() as u64),
            counted(judged.rows.round() as u64, "row"),
            count(judged.times.round() as u64),
            if judged.expected > judged.rows { "few" } else { "many" }
        )
    });
    let figures = statement.figures.as_ref();
    let waits: Vec<Value> = figures.map_or(Vec::new(), |figures| {
        let wait = |(name, times, time): &(&str, u64, Duration)| context! { name, times, ms => ms(*time) };
        figures.waits.iter().map(wait).collect()
    });
    Some(context! {
        text => statement.text,
        kind => statement.kind,
        workers => counted(statement.degree as u64, "worker"),
        memory => memory_text(statement),
        statistics_cost => statement.statistics_cost.text(),
        compile => ms(statement.compile.0),
        elapsed => figures.map(|figures| ms(figures.elapsed)),
        cpu => figures.map(|figures| ms(figures.cpu)),
        rows_sent => figures.map(|figures| counted(figures.rows, "row")),
        verdict,
        waits,
        rows,
    })
}

/// What the parts of a plan are compared with.
struct Whole {
    worst: Option<usize>,
    /// By number.
    judged: Vec<Option<Judged>>,
    subtree: f64,
    cpu: Duration,
}

/// Adds an operator and those below it.
fn add(node: &PlanNode, whole: &Whole, depth: usize, rows: &mut Vec<Value>) {
    let actual = node.actual.as_ref();
    let has_run = actual.is_some_and(|actual| actual.executions() > 0);
    let is_idle = actual.is_some() && !has_run;
    let cost = percent(node.estimate.io + node.estimate.cpu, whole.subtree);
    let got = actual.map_or(0, Actual::rows);
    let most = actual.map_or(0, |actual| actual.workers.iter().map(|worker| worker.rows).max().unwrap_or(0));
    let workers: Vec<Value> = actual.filter(|actual| actual.workers.len() > 1).map_or(Vec::new(), |actual| {
        let worker = |worker: &hobt_showplan::WorkerActual| {
            let share = percent(worker.rows as f64, most as f64);
            context! { number => worker.worker, rows => count(worker.rows), share, cpu => ms(worker.cpu) }
        };
        actual.workers.iter().map(worker).collect()
    });
    let error = whole.judged.get(node.id).copied().flatten();
    let error = error.map(|judged| judged.times).filter(|error| *error >= 2.0);
    let reads = actual.and_then(Actual::reads);
    let cpu = actual.map(Actual::cpu).unwrap_or_default();
    rows.push(context! {
        depth,
        id => node.id,
        physical => node.physical,
        logical => (node.logical != node.physical).then_some(node.logical),
        table => node.object.as_ref().map(|object| format!("{}.{}", object.table.schema, object.table.table)),
        index => node.object.as_ref().and_then(|object| object.index.clone()),
        object => node.object.as_ref().map(ToString::to_string),
        argument => argument(node),
        is_parallel => node.is_parallel,
        is_worst => whole.worst == Some(node.id),
        is_idle,
        estimated => count(node.estimate.rows.round() as u64),
        got => has_run.then(|| count(got)),
        error => error.map(|error| if error < 100.0 { format!("{error:.1}") } else { count(error.round() as u64) }),
        cost => (!is_idle).then(|| format!("{cost:.0}")),
        cpu => has_run.then(|| ms(cpu)),
        cpu_share => percent(cpu.as_secs_f64(), whole.cpu.as_secs_f64()),
        pages => reads.map(|(logical, _)| count(logical)),
        from_disk => reads.map(|(_, physical)| count(physical)),
        removed => removed(node),
        spilled => actual.filter(|actual| actual.spills > 0).map(|actual| {
            format!("{} KB, {}", count(actual.spilled_bytes.div_ceil(1024)), counted(actual.spills, "time"))
        }),
        output => node.output.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
        workers,
    });
    node.children.iter().for_each(|child| add(child, whole, depth + 1, rows));
}

#[cfg(test)]
mod tests {
    use super::*;
    use hobt_showplan::MemoryShown;
    use hobt_showplan::{Detail, PlanObject, TableName, WorkerActual};

    #[test]
    fn the_worst_operator_is_marked_and_text_is_escaped() {
        let mut node = PlanNode::new("Filter", "Filter", Detail::Filter);
        node.estimate.rows = 2.0;
        let worker = WorkerActual { rows: 500, executions: 1, ..WorkerActual::default() };
        node.actual = Some(Actual { workers: vec![worker], ..Actual::default() });
        let statement = ShownStatement { root: Some(node), ..ShownStatement::plain("SELECT a < 'b'", "SELECT") };
        let page = page(&[Arc::new(statement)]);
        assert_eq!(page.matches("class=\"operator worst").count(), 1, "{page}");
        assert!(page.contains("SELECT a &lt; &#x27;b&#x27;"), "{page}");
        assert!(page.contains("expected 2, got 500 rows, 250 times as many"), "{page}");
    }

    #[test]
    fn a_scan_shows_its_table_first_and_the_page_says_when_it_was_made() {
        let table = TableName { database: "d".repeat(60), schema: "dbo".to_owned(), table: "Orders".to_owned() };
        let object = PlanObject { table: Arc::new(table), index: Some("PK_Orders".to_owned()), is_clustered: true };
        let mut node = PlanNode::new("Clustered Index Scan", "Clustered Index Scan", Detail::Filter);
        node.object = Some(object.clone());
        let page =
            page(&[Arc::new(ShownStatement { root: Some(node), ..ShownStatement::plain("SELECT 1", "SELECT") })]);
        let label = page.split("class=\"label\"").nth(1).and_then(|label| label.split("</summary>").next());
        // Its title, which appears under the pointer, has the whole argument.
        let (_title, label) = label.and_then(|label| label.split_once('>')).expect("the operator's line");
        assert!(label.contains("<code>dbo.Orders</code>") && label.contains("PK_Orders"), "{label}");
        assert!(!label.contains("ddd") && page.contains(&object.to_string()), "{page}");
        let occasion = Occasion::now();
        assert!(page.contains(&occasion.date[..10]) && page.contains(env!("CARGO_PKG_VERSION")), "{page}");
    }

    #[test]
    fn spills_and_memory_are_on_the_page() {
        let mut node = PlanNode::new("Sort", "Sort", Detail::Filter);
        let worker = WorkerActual { rows: 1, executions: 1, ..WorkerActual::default() };
        node.actual = Some(Actual { workers: vec![worker], spills: 1, spilled_bytes: 5000, ..Actual::default() });
        let memory = MemoryShown { ideal: 1 << 30, granted: 1 << 20, held_most: 1 << 19, ..MemoryShown::default() };
        let statement =
            ShownStatement { root: Some(node), memory: Some(memory), ..ShownStatement::plain("x", "SELECT") };
        let page = page(&[Arc::new(statement)]);
        assert!(page.contains("spilled 5 KB, 1 time<"), "{page}");
        assert!(page.contains("granted 1,024 KB, of which at most 512 KB were used"), "{page}");
    }
}
