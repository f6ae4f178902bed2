//! Plans as XML in Microsoft's showplan schema, for SQL Server Management Studio and similar tools.
//!
//! Source: the schema of the namespace below. Its order of elements and its required attributes are kept here by hand;
//! `crates/cli/tests/it/plans.rs` checks the output against them.

mod element;
mod operator;
mod scalar;

use std::time::Duration;

use super::{Body, Figures, PlanNode, ShownStatement, StatisticsCost, StatisticsRead, bracketed};
use crate::MemoryShown;
use element::Element;

/// The namespace of the schema.
pub const NAMESPACE: &str = "http://schemas.microsoft.com/sqlserver/2004/07/showplan";

/// The version of the schema, and of the server that writes such plans.
const VERSION: &str = "1.564";
const BUILD: &str = "16.0.1000.6";

/// The document of the statements of one batch.
pub fn to_xml(statements: &[ShownStatement]) -> String {
    let mut numbers = 0;
    let block = statement_block(statements, &mut numbers);
    let batch = Element::new("Batch").child(block);
    let root = Element::new("ShowPlanXML")
        .attribute("xmlns", NAMESPACE)
        .attribute("Version", VERSION)
        .attribute("Build", BUILD)
        .child(Element::new("BatchSequence").child(batch));
    root.to_string()
}

fn statement_block(statements: &[ShownStatement], numbers: &mut usize) -> Element {
    Element::new("Statements").children(statements.iter().map(|shown| statement(shown, numbers)))
}

fn statement(shown: &ShownStatement, numbers: &mut usize) -> Element {
    *numbers += 1;
    let plan = shown.root.as_ref().map(|root| query_plan(shown, root));
    let name = if matches!(shown.body, Body::Branches { .. }) { "StmtCond" } else { "StmtSimple" };
    let mut element = Element::new(name)
        .attribute("StatementCompId", *numbers)
        .optional("StatementEstRows", shown.root.as_ref().map(|root| root.estimate.rows))
        .attribute("StatementId", *numbers)
        .optional("StatementOptmLevel", shown.root.as_ref().map(|_| "FULL"))
        .optional("CardinalityEstimationModelVersion", shown.root.as_ref().map(|_| "160"))
        .optional("StatementSubTreeCost", shown.root.as_ref().map(|root| root.estimate.subtree))
        .attribute("StatementText", &shown.text)
        .attribute("StatementType", &shown.kind)
        .optional("QueryHash", (shown.query_hash != 0).then(|| hash(shown.query_hash)))
        .optional("QueryPlanHash", shown.root.as_ref().map(|_| hash(shown.plan_hash())))
        .attribute("RetrievedFromCache", shown.is_reused);
    if shown.root.is_some() {
        element = element.child(set_options());
    }
    match &shown.body {
        Body::None => element.children(plan),
        Body::Branches { then, otherwise } => {
            let branch =
                |name, statements, numbers: &mut usize| Element::new(name).child(statement_block(statements, numbers));
            let element = element.child(Element::new("Condition").children(plan)).child(branch("Then", then, numbers));
            match otherwise.is_empty() {
                true => element,
                false => element.child(branch("Else", otherwise, numbers)),
            }
        }
        Body::Procedure { name, statements } => {
            let called = Element::new("StoredProc").attribute("ProcName", name);
            element.children(plan).child(called.child(statement_block(statements, numbers)))
        }
    }
}

fn hash(hash: u64) -> String {
    format!("0x{hash:016X}")
}

/// The options whose other value is rejected, so that every plan is made under these.
fn set_options() -> Element {
    let on = ["ANSI_NULLS", "ANSI_PADDING", "ANSI_WARNINGS", "ARITHABORT", "CONCAT_NULL_YIELDS_NULL"];
    let element = Element::new("StatementSetOptions");
    let element = on.into_iter().fold(element, |element, name| element.attribute(name, true));
    element.attribute("NUMERIC_ROUNDABORT", false).attribute("QUOTED_IDENTIFIER", true)
}

fn milliseconds(time: Duration) -> u128 {
    time.as_millis()
}

fn query_plan(shown: &ShownStatement, root: &PlanNode) -> Element {
    let reason = (shown.degree <= 1).then_some("MaxDOPSetToOne");
    let plan = Element::new("QueryPlan")
        .attribute("DegreeOfParallelism", shown.degree)
        .optional("MemoryGrant", shown.memory.map(|memory| memory.granted.div_ceil(1024)))
        .optional("NonParallelPlanReason", reason)
        .attribute("CompileTime", milliseconds(shown.compile.0))
        .attribute("CompileCPU", milliseconds(shown.compile.1));
    let plan = plan.children(internal_info(&shown.statistics_cost));
    let plan = plan.children(shown.memory.as_ref().map(memory_grant)).children(statistics_usage(shown));
    let plan = match &shown.figures {
        Some(figures) => plan.children(wait_stats(figures)).child(time_stats(figures)),
        None => plan,
    };
    plan.child(operator::rel_op(root))
}

/// The statistics that were made first. The schema leaves the attributes of this element to the engine.
fn internal_info(made: &StatisticsCost) -> Option<Element> {
    let element = || {
        Element::new("InternalInfo")
            .attribute("StatisticsMade", made.objects)
            .attribute("StatisticsTime", milliseconds(made.elapsed))
            .attribute("StatisticsCPU", milliseconds(made.cpu))
            .attribute("StatisticsLogicalReads", made.logical)
            .attribute("StatisticsPhysicalReads", made.physical)
    };
    (made.objects > 0).then(element)
}

/// The memory requested and granted. The schema's figures of a serial plan are those of this plan.
fn memory_grant(memory: &MemoryShown) -> Element {
    let kilobytes = |bytes: u64| bytes.div_ceil(1024);
    let ideal = memory.ideal.max(memory.least);
    const SECOND: i64 = 10_000_000;
    let waited = memory.granted_at.map_or(0, |at| (at - memory.asked_at).max(0) / SECOND);
    Element::new("MemoryGrantInfo")
        .attribute("SerialRequiredMemory", kilobytes(memory.least))
        .attribute("SerialDesiredMemory", kilobytes(ideal))
        .attribute("RequiredMemory", kilobytes(memory.least))
        .attribute("DesiredMemory", kilobytes(ideal))
        .attribute("RequestedMemory", kilobytes(ideal))
        .attribute("GrantWaitTime", waited)
        .attribute("GrantedMemory", kilobytes(memory.granted))
        .attribute("MaxUsedMemory", kilobytes(memory.held_most))
}

/// The statistics that estimates have read.
fn statistics_usage(shown: &ShownStatement) -> Option<Element> {
    let one = |read: &StatisticsRead| {
        Element::new("StatisticsInfo")
            .attribute("Database", bracketed(&read.table.database))
            .attribute("Schema", bracketed(&read.table.schema))
            .attribute("Table", bracketed(&read.table.table))
            .attribute("Statistics", bracketed(&read.name))
            .attribute("ModificationCount", read.modifications)
            .attribute("SamplingPercent", read.sampling_percent)
            .optional("LastUpdate", read.updated.as_ref())
    };
    let has_any = !shown.statistics.is_empty();
    has_any.then(|| Element::new("OptimizerStatsUsage").children(shown.statistics.iter().map(one)))
}

fn wait_stats(figures: &Figures) -> Option<Element> {
    let wait = |(name, count, time): &(&str, u64, Duration)| {
        Element::new("Wait")
            .attribute("WaitType", name)
            .attribute("WaitTimeMs", milliseconds(*time))
            .attribute("WaitCount", count)
    };
    (!figures.waits.is_empty()).then(|| Element::new("WaitStats").children(figures.waits.iter().map(wait)))
}

fn time_stats(figures: &Figures) -> Element {
    Element::new("QueryTimeStats")
        .attribute("CpuTime", milliseconds(figures.cpu))
        .attribute("ElapsedTime", milliseconds(figures.elapsed))
}
