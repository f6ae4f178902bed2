//! Default answers of operators about their inputs and expressions, where they follow from the list of inputs; and
//! plans with another input somewhere below.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::physical_plan::ExecutionPlan;

/// Displays an operator by its name.
macro_rules! shows_its_name {
    ($operator:ident) => {
        impl datafusion::physical_plan::DisplayAs for $operator {
            fn fmt_as(
                &self,
                _: datafusion::physical_plan::DisplayFormatType,
                f: &mut std::fmt::Formatter<'_>,
            ) -> std::fmt::Result {
                f.write_str(stringify!($operator))
            }
        }
    };
}

/// Displays an operator as the one in its field of this name.
macro_rules! shows_as {
    ($operator:ident, $inner:ident) => {
        impl datafusion::physical_plan::DisplayAs for $operator {
            fn fmt_as(
                &self,
                format: datafusion::physical_plan::DisplayFormatType,
                f: &mut std::fmt::Formatter<'_>,
            ) -> std::fmt::Result {
                self.$inner.fmt_as(format, f)
            }
        }
    };
}

/// The name of an operator: its type's.
macro_rules! named_as_its_type {
    () => {
        fn name(&self) -> &'static str {
            <Self as datafusion::physical_plan::ExecutionPlan>::static_name()
        }
    };
}

/// The methods of an `ExecutionPlan` about inputs and expressions, for an operator that has neither.
macro_rules! without_inputs {
    () => {
        crate::inputs::named_as_its_type!();

        fn children(&self) -> Vec<&std::sync::Arc<dyn datafusion::physical_plan::ExecutionPlan>> {
            Vec::new()
        }

        crate::inputs::without_expressions!();

        fn replace_children(
            self: std::sync::Arc<Self>,
            _: Vec<std::sync::Arc<dyn datafusion::physical_plan::ExecutionPlan>>,
            _: datafusion::physical_plan::ReplaceChildrenOptions,
        ) -> datafusion::common::Result<std::sync::Arc<dyn datafusion::physical_plan::ExecutionPlan>> {
            Ok(self)
        }

        fn with_new_children(
            self: std::sync::Arc<Self>,
            _: Vec<std::sync::Arc<dyn datafusion::physical_plan::ExecutionPlan>>,
        ) -> datafusion::common::Result<std::sync::Arc<dyn datafusion::physical_plan::ExecutionPlan>> {
            Ok(self)
        }
    };
}

/// The methods about inputs, for an operator whose fields of these names are its inputs. It must have a method `over`
/// that gives the operator over other inputs.
macro_rules! with_inputs {
    ($($input:ident),+) => {
        crate::inputs::named_as_its_type!();

        fn children(&self) -> Vec<&std::sync::Arc<dyn datafusion::physical_plan::ExecutionPlan>> {
            vec![$(&self.$input),+]
        }

        fn replace_children(
            self: std::sync::Arc<Self>,
            children: Vec<std::sync::Arc<dyn datafusion::physical_plan::ExecutionPlan>>,
            _: datafusion::physical_plan::ReplaceChildrenOptions,
        ) -> datafusion::common::Result<std::sync::Arc<dyn datafusion::physical_plan::ExecutionPlan>> {
            const COUNT: usize = [$(stringify!($input)),+].len();
            let inputs = <[std::sync::Arc<dyn datafusion::physical_plan::ExecutionPlan>; COUNT]>::try_from(children);
            match inputs {
                Ok([$($input),+]) => Ok(std::sync::Arc::new(self.over($($input),+))),
                Err(others) => datafusion::common::internal_err!("{} over {} inputs", self.name(), others.len()),
            }
        }

        crate::inputs::recomputes_properties!();
    };
}

/// New inputs of an operator: by `replace_children`, with properties computed anew.
macro_rules! recomputes_properties {
    () => {
        fn with_new_children(
            self: std::sync::Arc<Self>,
            children: Vec<std::sync::Arc<dyn datafusion::physical_plan::ExecutionPlan>>,
        ) -> datafusion::common::Result<std::sync::Arc<dyn datafusion::physical_plan::ExecutionPlan>> {
            let properties = datafusion::physical_plan::ChildrenPropertiesMode::Recompute;
            self.replace_children(children, datafusion::physical_plan::ReplaceChildrenOptions::new(properties))
        }
    };
}

/// The methods of an operator that stands for the one in its field of this name: plans show it as that one, and type
/// tests find that one. It must have a method `around` that gives the operator with another one in the field.
macro_rules! stands_for {
    ($inner:ident) => {
        crate::inputs::named_as_its_type!();

        fn downcast_delegate(&self) -> Option<&dyn datafusion::physical_plan::ExecutionPlan> {
            Some(self.$inner.as_ref())
        }

        fn properties(&self) -> &std::sync::Arc<datafusion::physical_plan::PlanProperties> {
            self.$inner.properties()
        }

        fn children(&self) -> Vec<&std::sync::Arc<dyn datafusion::physical_plan::ExecutionPlan>> {
            self.$inner.children()
        }

        fn replace_children(
            self: std::sync::Arc<Self>,
            children: Vec<std::sync::Arc<dyn datafusion::physical_plan::ExecutionPlan>>,
            options: datafusion::physical_plan::ReplaceChildrenOptions,
        ) -> datafusion::common::Result<std::sync::Arc<dyn datafusion::physical_plan::ExecutionPlan>> {
            let inner = std::sync::Arc::clone(&self.$inner).replace_children(children, options)?;
            Ok(self.around(inner))
        }

        crate::inputs::recomputes_properties!();

        fn reset_state(
            self: std::sync::Arc<Self>,
        ) -> datafusion::common::Result<std::sync::Arc<dyn datafusion::physical_plan::ExecutionPlan>> {
            let inner = std::sync::Arc::clone(&self.$inner).reset_state()?;
            Ok(self.around(inner))
        }

        fn apply_expressions(
            &self,
            visit: &mut dyn FnMut(
                &std::sync::Arc<dyn datafusion::physical_expr::PhysicalExpr>,
            ) -> datafusion::common::Result<datafusion::common::tree_node::TreeNodeRecursion>,
        ) -> datafusion::common::Result<datafusion::common::tree_node::TreeNodeRecursion> {
            self.$inner.apply_expressions(visit)
        }

        fn maintains_input_order(&self) -> Vec<bool> {
            self.$inner.maintains_input_order()
        }
    };
}

/// The methods of an operator that passes on the rows of its one input in order. It must have a method `over` that
/// gives the operator over another input.
macro_rules! passes_on {
    ($input:ident) => {
        fn properties(&self) -> &std::sync::Arc<datafusion::physical_plan::PlanProperties> {
            self.$input.properties()
        }

        crate::inputs::with_inputs!($input);

        fn maintains_input_order(&self) -> Vec<bool> {
            vec![true]
        }

        fn benefits_from_input_partitioning(&self) -> Vec<bool> {
            vec![false]
        }
    };
}

/// The method about expressions, for an operator that has none.
macro_rules! without_expressions {
    () => {
        fn apply_expressions(
            &self,
            _: &mut dyn FnMut(
                &std::sync::Arc<dyn datafusion::physical_expr::PhysicalExpr>,
            ) -> datafusion::common::Result<datafusion::common::tree_node::TreeNodeRecursion>,
        ) -> datafusion::common::Result<datafusion::common::tree_node::TreeNodeRecursion> {
            Ok(datafusion::common::tree_node::TreeNodeRecursion::Continue)
        }
    };
}

/// `plan` with `new` instead of `old`.
pub fn replaced(
    plan: &Arc<dyn ExecutionPlan>,
    old: &Arc<dyn ExecutionPlan>,
    new: &Arc<dyn ExecutionPlan>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let replaced = Arc::clone(plan).transform_down(|node| {
        Ok(match Arc::ptr_eq(&node, old) {
            true => Transformed::new(Arc::clone(new), true, TreeNodeRecursion::Stop),
            false => Transformed::no(node),
        })
    });
    replaced.data()
}

pub(super) use {
    named_as_its_type, passes_on, recomputes_properties, shows_as, shows_its_name, stands_for, with_inputs,
    without_expressions, without_inputs,
};
