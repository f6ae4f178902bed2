//! A DataFusion session for plans that need no coercion.

use std::sync::Arc;

use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::Optimizer;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::operator_statistics::StatisticsRegistry;
use datafusion::prelude::SessionConfig;
use hobt_base::SqlError;

use super::distinct_aggregates::DistinctAggregatesRule;
use super::empty_subquery::EmptySubqueryRule;
use super::equations::EquationsRule;
use super::lateral::LateralRule;
use super::pushed_conditions::PushedConditionsRule;
use super::row_of_nothing::RowOfNothingRule;
use super::transferred_conditions::TransferredConditionsRule;
use crate::aggregate_scan::AggregateScanRule;
use crate::bare_window::BareWindowRule;
use crate::eager_group::EagerGroupRule;
use crate::expected::Estimator;
use crate::extreme_seek::ExtremeSeekRule;
use crate::group_keys::SoundKeysRule;
use crate::join_order::JoinOrderRule;
use crate::one_phase::OnePhaseRule;
use crate::ordered_scan::OrderedScanRule;
use crate::projection_fence::FencedProjectionRule;
use crate::range_join::RangeJoinRule;
use crate::rank_limit::RankLimitRule;
use crate::sort_again::SortAgainRule;
use crate::spools::SpoolRule;
use crate::table_scan::Planner;
use crate::top_filter::TopFilterRule;
use crate::top_groups::TopGroupsRule;
use crate::untrue::{UntrueOrderRule, UntrueRule};
use crate::{ForcedLoopRule, ForcedMergeRule, IndexJoinRule, JoinFilterRule};
use hobt_table::{JoinWay, Parameters, fold_assumed, with_parameters};
use hobt_udf::sql_error_of;

/// A build side of up to so many bytes is read by one worker and shared by all. Above it both sides are spread by the
/// key, which costs a copy of each row of the larger side.
const SHARED_BUILD_BYTES: usize = 8 << 20;

/// After so many rows, a partial aggregation whose groups are nearly as many passes the others on as they are.
const GROUPS_TRIED: usize = 1 << 14;

/// The configuration of an execution: `partitions` is the degree of parallelism, `batch_size` the number of rows in a
/// batch.
pub fn session_config(partitions: usize, batch_size: usize) -> SessionConfig {
    let mut config = SessionConfig::new()
        .with_target_partitions(partitions.max(1))
        .with_batch_size(batch_size.max(1))
        .with_information_schema(false)
        .with_create_default_catalog_and_schema(false);
    let options = config.options_mut();
    // Declared and computed nullability differ harmlessly between kernels and DataFusion's own expressions.
    options.execution.skip_physical_aggregate_schema_check = true;
    options.optimizer.max_passes = 3;
    options.execution.skip_partial_aggregation_probe_rows_threshold = GROUPS_TRIED;
    // Build sides are chosen by hobt's estimates.
    options.optimizer.use_statistics_registry = true;
    options.optimizer.hash_join_single_partition_threshold = SHARED_BUILD_BYTES;
    // Scans have join filters of their own (`JoinFilterRule`).
    options.optimizer.enable_dynamic_filter_pushdown = false;
    options.optimizer.enable_join_dynamic_filter_pushdown = false;
    config
}

/// A session without type coercion: the binder's plans are fully typed.
///
/// `way` is the join method that a hint sets for all sources. With `keeps_order`, sources are joined in the written
/// order.
pub fn session_state(config: SessionConfig, runtime: Arc<RuntimeEnv>, way: JoinWay, keeps_order: bool) -> SessionState {
    let indexes = IndexJoinRule::new(way);
    let mut rules = PhysicalOptimizer::new().rules;
    for rule in &mut rules {
        match rule.name() {
            "ProjectionPushdown" => *rule = Arc::new(FencedProjectionRule::around(Arc::clone(rule))),
            TopGroupsRule::INSTEAD_OF => *rule = Arc::new(TopGroupsRule),
            _ => {}
        }
    }
    let requirements = rules.iter().position(|rule| rule.name() == "EnsureRequirements").unwrap_or(rules.len());
    rules.insert(requirements, Arc::new(UntrueRule));
    rules.insert(requirements, Arc::new(BareWindowRule));
    let check = rules.iter().position(|rule| rule.name() == SortAgainRule::BEFORE).unwrap_or(rules.len());
    rules.insert(check, Arc::new(SortAgainRule));
    let selection = rules.iter().position(|rule| rule.name() == "join_selection").unwrap_or(0);
    rules.insert(selection + 1, Arc::new(ForcedLoopRule::before(&indexes)));
    // Before the rule that swaps the sides of a hash join.
    rules.insert(selection, Arc::new(ForcedMergeRule::before(&indexes)));
    let mut logical = Optimizer::new().rules;
    // This rule collects all conditions of the joins that it splits, and loses those that do not connect exactly two of
    // the sources (`d.x = f.a AND f.b = e.z - d.y`), and whether NULLs are equal in them. It would also change a
    // written order.
    logical.retain(|rule| rule.name() != "eliminate_cross_join");
    for rule in &mut logical {
        match rule.name() {
            "extract_equijoin_predicate" => *rule = Arc::new(EquationsRule::default()),
            "push_down_filter" => {
                let pushes = Arc::new(RowOfNothingRule::around(Arc::clone(rule)));
                let transfers = Arc::new(TransferredConditionsRule::around(pushes));
                *rule = Arc::new(PushedConditionsRule::around(transfers));
            }
            "single_distinct_aggregation_to_group_by" => *rule = Arc::new(DistinctAggregatesRule),
            name if SoundKeysRule::NAMES.contains(&name) => *rule = Arc::new(SoundKeysRule::around(Arc::clone(rule))),
            "decorrelate_lateral_join" => *rule = Arc::new(LateralRule::around(Arc::clone(rule))),
            _ => {}
        }
    }
    logical.insert(0, Arc::new(EmptySubqueryRule));
    // Before the rule that drops columns above and between joins.
    let at = logical.iter().position(|rule| rule.name() == "optimize_projections");
    if !keeps_order {
        let at = at.unwrap_or(logical.len());
        logical.insert(at, Arc::new(JoinOrderRule::default()));
        // Only now have conditions of `WHERE` become conditions of joins, and the ordering needs to know their
        // equations.
        logical.insert(at, Arc::new(EquationsRule::default()));
    }
    SessionStateBuilder::new()
        .with_query_planner(Arc::new(Planner))
        .with_statistics_registry(StatisticsRegistry::with_providers(vec![Arc::new(Estimator::default())]))
        .with_optimizer_rules(logical)
        .with_config(config)
        .with_runtime_env(runtime)
        .with_analyzer_rules(vec![])
        .with_physical_optimizer_rules(rules)
        .with_physical_optimizer_rule(Arc::new(ExtremeSeekRule))
        .with_physical_optimizer_rule(Arc::new(AggregateScanRule))
        .with_physical_optimizer_rule(Arc::new(OrderedScanRule))
        .with_physical_optimizer_rule(Arc::new(indexes))
        .with_physical_optimizer_rule(Arc::new(RangeJoinRule))
        .with_physical_optimizer_rule(Arc::new(EagerGroupRule))
        .with_physical_optimizer_rule(Arc::new(OnePhaseRule))
        .with_physical_optimizer_rule(Arc::new(UntrueOrderRule))
        .with_physical_optimizer_rule(Arc::new(JoinFilterRule))
        .with_physical_optimizer_rule(Arc::new(RankLimitRule))
        .with_physical_optimizer_rule(Arc::new(TopFilterRule))
        // Of parts of a plan that the rules before have made different, each is computed.
        .with_physical_optimizer_rule(Arc::new(SpoolRule))
        .build()
}

/// The optimised form of a bound plan, and its parameters.
///
/// # Errors
/// Those of rules that fail; "not supported" for a correlation that no rule turns into a join.
pub fn optimize(plan: &LogicalPlan, state: &SessionState) -> Result<(LogicalPlan, Parameters), SqlError> {
    let known = fold_assumed(plan).map_err(sql_error_of)?;
    let plan = known.as_ref().unwrap_or(plan);
    let (named, parameters) = with_parameters(plan).map_err(sql_error_of)?;
    Ok((state.optimize(named.as_ref().unwrap_or(plan)).map_err(sql_error_of)?, parameters))
}
