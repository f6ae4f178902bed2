//! Golden tests: what each rule of hobt's makes of a plan.
//!
//! A case begins with the rule's name and, if the plan is not for one worker, the number of partitions. Its result has
//! the plan before the rule changes it first, and after. A rule that wraps one of DataFusion's has that one's name.

use std::path::Path;
use std::sync::Arc;

use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::Optimizer;
use datafusion::physical_plan::{ExecutionPlan, displayable};
use hobt_base::SqlError;
use hobt_binder::{BindOptions, Binder, BoundQuery, QueryHints};
use hobt_operators::spilling;
use hobt_testing::check_golden;
use hobt_tsql::ast::StatementKind;
use hobt_udf::sql_error_of;

use super::stored::Shop;
use crate::{session_config, session_state, sort_large_tops};

#[test]
fn each_rule_changes_plans_as_written() {
    let test = || {
        let shop = Shop::open();
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/rules.txt");
        check_golden(&path, |case| {
            let head = case.strip_prefix("-- ").and_then(|rest| rest.split([':', '\n']).next());
            let head = head.expect("a case begins with its rule");
            let (rule, partitions) = head.split_once(", ").unwrap_or((head, "1"));
            let partitions = partitions.parse().expect("a number of partitions");
            match runtime.block_on(changed(&shop, rule, partitions, case)) {
                Ok((before, after)) if before == after => format!("unchanged:\n{after}"),
                Ok((before, after)) => format!("before:\n{before}\nafter:\n{after}"),
                Err(error) => format!("{} {}", error.header(), error.message),
            }
        });
    };
    let thread = std::thread::Builder::new().stack_size(hobt_binder::STACK_BYTES).spawn(test).expect("a thread");
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

/// The plan of a query before and after a rule.
async fn changed(shop: &Shop, rule: &str, partitions: usize, sql: &str) -> Result<(String, String), SqlError> {
    let (query, options) = bound(shop, sql)?;
    let config = session_config(partitions, 8192);
    let state = session_state(config, Arc::new(RuntimeEnv::default()), options.join_way, options.keeps_order);
    let mut change = None;
    let mut before = query.plan.display_indent().to_string();
    let optimizer = Optimizer::with_rules(state.optimizers().to_vec());
    let observe = |plan: &LogicalPlan, applied: &dyn datafusion::optimizer::OptimizerRule| {
        let after = plan.display_indent().to_string();
        if applied.name() == rule && after != before && change.is_none() {
            change = Some((before.clone(), after.clone()));
        }
        before = after;
    };
    let optimized = optimizer.optimize(query.plan, &state, observe).map_err(sql_error_of)?;
    if let Some(change) = change {
        return Ok(change);
    }
    physical_change(shop, rule, &state, &optimized).await
}

async fn physical_change(
    shop: &Shop,
    rule: &str,
    state: &SessionState,
    optimized: &LogicalPlan,
) -> Result<(String, String), SqlError> {
    let bare = SessionStateBuilder::new_from_existing(state.clone()).with_physical_optimizer_rules(vec![]).build();
    let planned = bare.query_planner().create_physical_plan(optimized, &bare).await.map_err(sql_error_of)?;
    if rule == "table_scan" {
        return Ok((optimized.display_indent().to_string(), shown(&planned)));
    }
    let mut plan = planned;
    for applied in state.physical_optimizers() {
        let before = shown(&plan);
        plan = applied.optimize_with_context(plan, state).map_err(sql_error_of)?;
        if applied.name() == rule && shown(&plan) != before {
            return Ok((before, shown(&plan)));
        }
    }
    let before = plan;
    match rule {
        "sort_large_tops" => Ok((shown(&before), shown(&sort_large_tops(before, 1000).map_err(sql_error_of)?))),
        "spilling" => Ok((operators(&before, 0), operators(&spilling(before, &shop.run)?, 0))),
        _ => Ok((shown(&before), shown(&before))),
    }
}

fn shown(plan: &Arc<dyn ExecutionPlan>) -> String {
    displayable(plan.as_ref()).indent(false).to_string()
}

/// The operators by their types: a join that can spill is shown as any other.
fn operators(plan: &Arc<dyn ExecutionPlan>, depth: usize) -> String {
    let debug = format!("{plan:?}");
    let name = debug.split(' ').next().unwrap_or_default();
    let below: String = plan.children().into_iter().map(|child| operators(child, depth + 1)).collect();
    format!("{:indent$}{name}\n{below}", "", indent = 2 * depth)
}

fn bound(shop: &Shop, sql: &str) -> Result<(BoundQuery, BindOptions), SqlError> {
    let mut batch = hobt_tsql::parse_batch(sql)?;
    let StatementKind::Select(select) = batch.statements.remove(0).kind else { panic!("no query: {sql}") };
    let hints = QueryHints::read(&select.options)?;
    let options =
        BindOptions { join_way: hints.join_way(), permitted_joins: hints.permitted_joins(), ..BindOptions::default() };
    Ok((Binder::new(shop, options).bind_query(&select.query)?, options))
}
