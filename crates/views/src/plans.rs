//! Cached plans of statements, and their costs.

use std::collections::BTreeMap;

use hobt_binder::valid_use_hints;
use hobt_interpreter::{CachedPlan, Measure, ViewContext};
use hobt_planner::running_plan;
use hobt_showplan::{ShownStatement, to_xml};
use hobt_types::Value;

use crate::execution::text_handle;
use crate::value::{NULL, datetime, int, row};
use crate::{Definition, Rows, Sources};

pub(super) static VIEWS: &[Definition] = &[
    Definition::sys(
        "dm_exec_query_stats",
        "sql_handle varbinary(64)!, statement_start_offset int!, statement_end_offset int!, \
         plan_generation_num bigint!, plan_handle varbinary(64)!, creation_time datetime!, last_execution_time datetime, \
         execution_count bigint!, total_worker_time bigint!, last_worker_time bigint!, min_worker_time bigint!, \
         max_worker_time bigint!, total_physical_reads bigint!, last_physical_reads bigint!, min_physical_reads bigint!, \
         max_physical_reads bigint!, total_logical_writes bigint!, last_logical_writes bigint!, \
         min_logical_writes bigint!, max_logical_writes bigint!, total_logical_reads bigint!, last_logical_reads bigint!, \
         min_logical_reads bigint!, max_logical_reads bigint!, total_clr_time bigint!, last_clr_time bigint!, \
         min_clr_time bigint!, max_clr_time bigint!, total_elapsed_time bigint!, last_elapsed_time bigint!, \
         min_elapsed_time bigint!, max_elapsed_time bigint!, query_hash binary(8), query_plan_hash binary(8), \
         total_rows bigint!, last_rows bigint!, min_rows bigint!, max_rows bigint!, statement_sql_handle varbinary(64), \
         statement_context_id bigint, total_dop bigint!, last_dop bigint!, min_dop bigint!, max_dop bigint!, \
         total_grant_kb bigint!, last_grant_kb bigint!, min_grant_kb bigint!, max_grant_kb bigint!, \
         total_used_grant_kb bigint, last_used_grant_kb bigint, min_used_grant_kb bigint, max_used_grant_kb bigint, \
         total_ideal_grant_kb bigint, last_ideal_grant_kb bigint, min_ideal_grant_kb bigint, max_ideal_grant_kb bigint, \
         total_reserved_threads bigint!, last_reserved_threads bigint!, min_reserved_threads bigint!, \
         max_reserved_threads bigint!, total_used_threads bigint!, last_used_threads bigint!, min_used_threads bigint!, \
         max_used_threads bigint!, total_columnstore_segment_reads bigint!, last_columnstore_segment_reads bigint!, \
         min_columnstore_segment_reads bigint!, max_columnstore_segment_reads bigint!, \
         total_columnstore_segment_skips bigint!, last_columnstore_segment_skips bigint!, \
         min_columnstore_segment_skips bigint!, max_columnstore_segment_skips bigint!, total_spills bigint!, \
         last_spills bigint!, min_spills bigint!, max_spills bigint!, hobt_direct_count bigint!, \
         hobt_reuse_count bigint!, hobt_total_compile_time bigint!, hobt_last_compile_time bigint!",
        |sources, _, _| Ok(sources.plans.all().iter().map(stats_row).collect()),
    ),
    Definition::sys(
        "dm_exec_cached_plans",
        "bucketid int!, refcounts int!, usecounts int!, size_in_bytes int!, memory_object_address varbinary(8)!, \
         cacheobjtype nvarchar(34)!, objtype nvarchar(16)!, plan_handle varbinary(64)!, pool_id int!, \
         parent_plan_handle varbinary(64)",
        cached_plans,
    ),
    Definition::sys("dm_exec_valid_use_hints", "name nvarchar(128)!", |_, _, _| {
        Ok(valid_use_hints().into_iter().map(|name| row![name]).collect())
    }),
    Definition::sys(
        "hobt_query_plans",
        "plan_handle varbinary(64)!, dbid smallint, objectid int, number smallint, encrypted bit!, \
         statement_start_offset int!, statement_end_offset int!, query_plan nvarchar(max)",
        query_plans,
    ),
    Definition::sys(
        "hobt_running_plans",
        "session_id smallint!, request_id int!, sql_handle varbinary(64), plan_handle varbinary(64), \
         query_plan nvarchar(max)",
        running_plans,
    ),
];

/// The start and end of a statement in its text, in bytes of UTF-16.
fn offsets(plan: &CachedPlan) -> (i64, i64) {
    let before = |at: u32| {
        let text = plan.text.get(..at as usize).unwrap_or(&plan.text);
        int(2 * text.encode_utf16().count() as u64)
    };
    (before(plan.span.0), before(plan.span.1))
}

/// The total, last, minimum and maximum of a figure.
fn four(plan: &CachedPlan, of: fn(&Measure) -> u64) -> Vec<Value> {
    let stats = &plan.stats;
    row![of(&stats.total), of(&stats.last), of(&stats.min), of(&stats.max)]
}

fn hash(hash: u64) -> Value {
    Value::Binary(hash.to_be_bytes().to_vec())
}

fn stats_row(plan: &CachedPlan) -> Vec<Value> {
    let stats = &plan.stats;
    let (start, end) = offsets(plan);
    let none = || std::iter::repeat_n(Value::Int(0), 4);
    // The first plan, and one for each execution that used none of an earlier one.
    let planned = stats.measured.saturating_sub(stats.reused + stats.apart).max(1);
    let handles = [&plan.sql_handle, &plan.plan_handle].map(|handle| Value::Binary(handle.clone()));
    let [sql_handle, plan_handle] = handles;
    let mut row = row![sql_handle, start, end, planned, plan_handle];
    row.extend(row![datetime(plan.created)]);
    row.extend(row![(stats.measured > 0).then(|| datetime(stats.last_time)), stats.measured + stats.direct]);
    row.extend(four(plan, |one| one.worker_time));
    row.extend(four(plan, |one| one.physical_reads));
    row.extend(four(plan, |one| one.logical_writes));
    row.extend(four(plan, |one| one.logical_reads));
    row.extend(none());
    row.extend(four(plan, |one| one.elapsed_time));
    row.extend([hash(plan.query_hash), if plan.plan_hash == 0 { NULL } else { hash(plan.plan_hash) }]);
    row.extend(four(plan, |one| one.rows));
    row.extend([NULL, NULL]);
    row.extend(four(plan, |one| one.dop));
    row.extend(four(plan, |one| one.grant_kb));
    row.extend(four(plan, |one| one.used_grant_kb));
    row.extend(four(plan, |one| one.ideal_grant_kb));
    row.extend(four(plan, |one| one.dop));
    row.extend(four(plan, |one| one.dop));
    row.extend(none().chain(none()));
    row.extend(four(plan, |one| one.spills));
    row.extend(row![stats.direct + stats.apart, stats.reused, stats.total.compile_time, stats.last.compile_time]);
    row
}

/// The plans by their handles.
fn by_handle(plans: &[CachedPlan]) -> BTreeMap<&[u8], Vec<&CachedPlan>> {
    let mut all: BTreeMap<&[u8], Vec<&CachedPlan>> = BTreeMap::new();
    plans.iter().for_each(|plan| all.entry(&plan.plan_handle).or_default().push(plan));
    all
}

fn cached_plans(sources: &Sources, _: &ViewContext, _: &[Value]) -> Rows {
    let plans = sources.plans.all();
    let rows = by_handle(&plans).into_iter().zip(0..).map(|((handle, plans), bucket)| {
        let uses = plans.iter().map(|plan| plan.stats.measured + plan.stats.direct).max().unwrap_or(0);
        let bytes: u64 = plans.iter().map(|plan| plan.bytes).sum();
        let kind = match plans[0].procedure {
            0 if plans[0].is_parameterized => "Prepared",
            0 => "Adhoc",
            _ => "Proc",
        };
        let handle = Value::Binary(handle.to_vec());
        let has_plan = plans.iter().any(|plan| plan.statement.is_some());
        let object = if has_plan { "Compiled Plan" } else { "Compiled Plan Stub" };
        row![bucket, 1, int(uses), int(bytes), Value::Binary(vec![0; 8]), object, kind, handle, 1, NULL]
    });
    Ok(rows.collect())
}

/// The plan of each statement, preceded by all plans of its text as one. If a statement has several plans, the most
/// recent one is used.
fn query_plans(sources: &Sources, _: &ViewContext, _: &[Value]) -> Rows {
    let plans = sources.plans.all();
    let mut rows = Vec::new();
    for (handle, plans) in by_handle(&plans) {
        let mut latest: BTreeMap<(i64, i64), &CachedPlan> = BTreeMap::new();
        for plan in plans {
            latest.insert(offsets(plan), plan);
        }
        let mut add = |(start, end): (i64, i64), plan: &CachedPlan, statements: &[ShownStatement]| {
            let object = Some(plan.procedure).filter(|id| *id != 0);
            let handle = Value::Binary(handle.to_vec());
            rows.push(row![handle, plan.database.0, object, NULL, false, start, end, to_xml(statements)]);
        };
        let statements: Vec<ShownStatement> = latest.values().filter_map(|plan| plan.statement.clone()).collect();
        if let (Some(first), false) = (latest.values().next(), statements.is_empty()) {
            add((0, -1), first, &statements);
        }
        for (offsets, plan) in latest {
            plan.statement.iter().for_each(|statement| add(offsets, plan, std::slice::from_ref(statement)));
        }
    }
    Ok(rows)
}

/// The plans of running statements, with what their operators have done so far.
fn running_plans(sources: &Sources, _: &ViewContext, _: &[Value]) -> Rows {
    let mut rows = Vec::new();
    for session in sources.registry.all() {
        let Some(request) = &session.request else { continue };
        let Some(plan) = request.run.upgrade().and_then(|run| running_plan(&run)) else { continue };
        rows.push(row![session.id.0, 0, text_handle(&request.text), NULL, to_xml(&[plan])]);
    }
    Ok(rows)
}
