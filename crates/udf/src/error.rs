//! Converts SQL errors to DataFusion's, and back.

use std::io;

use arrow::error::ArrowError;
use datafusion::common::DataFusionError;
use hobt_base::{SqlError, errors};

/// Wraps a SQL error in one of DataFusion's.
pub fn external(error: SqlError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// The SQL error inside `error`, however deep; or a translation if DataFusion itself failed.
///
/// Exhausted memory is 701, a full disk 1105, a subquery that gave more than one row 512, and a correlation that no
/// rule could turn into a join is "not supported".
pub fn sql_error_of(error: DataFusionError) -> SqlError {
    find(&error).unwrap_or_else(|| translate(&error))
}

fn find(error: &DataFusionError) -> Option<SqlError> {
    let mut node = error;
    loop {
        node = match node {
            DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => inner,
            DataFusionError::Shared(inner) => inner,
            DataFusionError::Collection(errors) => errors.first()?,
            DataFusionError::External(inner) => return find_in(inner.as_ref()),
            DataFusionError::ArrowError(inner, _) => match inner.as_ref() {
                ArrowError::ExternalError(inner) => return find_in(inner.as_ref()),
                ArrowError::IoError(_, error) => return error.get_ref().and_then(|inner| find_in(inner)),
                _ => return None,
            },
            DataFusionError::IoError(error) => return error.get_ref().and_then(|inner| find_in(inner)),
            _ => return None,
        };
    }
}

fn find_in(error: &(dyn std::error::Error + 'static)) -> Option<SqlError> {
    if let Some(sql) = error.downcast_ref::<SqlError>() {
        return Some(sql.clone());
    }
    if let Some(inner) = error.downcast_ref::<DataFusionError>() {
        return Some(find(inner).unwrap_or_else(|| translate(inner)));
    }
    if let Some(ArrowError::ExternalError(inner)) = error.downcast_ref::<ArrowError>() {
        return find_in(inner.as_ref());
    }
    error.source().and_then(find_in)
}

/// Translates an error that DataFusion itself raised.
fn translate(error: &DataFusionError) -> SqlError {
    let root = error.find_root();
    let message = root.to_string();
    if let DataFusionError::ResourcesExhausted(refused) = root {
        return out_of_memory(refused.strip_prefix(REFUSED));
    }
    if is_full_disk(root, &message) {
        return no_room_to_spill();
    }
    if message.contains("Scalar subquery returned more than one row") {
        return super::single_value::more_than_one();
    }
    if is_correlation(&message) {
        return SqlError::not_supported("This form of correlated subquery or APPLY");
    }
    SqlError::internal(message)
}

/// The prefix of memory errors that users may read: DataFusion's own texts name its operators.
pub const REFUSED: &str = "refused: ";

/// 701; `refused` tells how much was requested and how much there was.
fn out_of_memory(refused: Option<&str>) -> SqlError {
    let told = refused.map(|refused| format!(" ({refused})")).unwrap_or_default();
    errors::QUERY_MEMORY.with([&told])
}

/// 1105 for the folder into which operators spill.
fn no_room_to_spill() -> SqlError {
    errors::SPILL_FULL.error()
}

/// Whether a file could not grow: the disk is full, or the user's quota or file size limit is reached.
fn is_full_disk(root: &DataFusionError, message: &str) -> bool {
    let is_full = |error: &io::Error| {
        matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge)
    };
    // Some errors of DataFusion and Arrow keep only the text of an I/O error.
    let says_so = || {
        ["No space left on device", "File too large", "Disk quota exceeded"].iter().any(|words| message.contains(words))
    };
    match root {
        DataFusionError::IoError(error) => is_full(error) || says_so(),
        DataFusionError::ArrowError(error, _) => match error.as_ref() {
            ArrowError::IoError(_, error) => is_full(error) || says_so(),
            _ => false,
        },
        DataFusionError::Execution(_) | DataFusionError::External(_) => says_so(),
        _ => false,
    }
}

/// Whether DataFusion reports that a subquery was left in the plan.
fn is_correlation(message: &str) -> bool {
    const UNPLANNED: &str = "Physical plan does not support logical expression ";
    const SUBQUERIES: [&str; 5] = ["OuterReferenceColumn", "ScalarSubquery", "Exists", "InSubquery", "SetComparison"];
    const WORDS: [&str; 3] = ["outer reference", "orrelated scalar subquery", "outer_ref"];
    let unplanned = message.find(UNPLANNED).map(|start| &message[start + UNPLANNED.len()..]);
    unplanned.is_some_and(|expression| SUBQUERIES.iter().any(|name| expression.starts_with(name)))
        || WORDS.iter().any(|word| message.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hobt_base::number;
    use std::sync::Arc;

    #[test]
    fn an_error_is_found_through_every_wrapper() {
        let error = errors::DIVIDE_BY_ZERO.error();
        let arrow = ArrowError::ExternalError(Box::new(external(error.clone())));
        let wrapped = DataFusionError::Shared(Arc::new(DataFusionError::from(arrow).context("while joining")));
        assert_eq!(sql_error_of(wrapped), error);
    }

    #[test]
    fn only_a_subquery_that_is_left_is_called_one() {
        let left = |expression: &str| {
            let text = format!("Physical plan does not support logical expression {expression}");
            sql_error_of(DataFusionError::NotImplemented(text))
        };
        assert!(left("InSubquery(InSubquery { expr: Column").message.contains("correlated"));
        assert!(!left("WindowFunction(WindowFunction { fun: RowNumber").message.contains("correlated"));
    }

    #[test]
    fn exhausted_memory_is_701() {
        let error = DataFusionError::ResourcesExhausted("for ExternalSorter[0] of pool".into()).context("sort");
        let error = sql_error_of(error);
        assert_eq!(error.number, number::OUT_OF_MEMORY);
        assert!(!error.message.contains("ExternalSorter"), "{}", error.message);
        let own = DataFusionError::ResourcesExhausted(format!("{REFUSED}7 bytes were asked for.")).context("sort");
        assert!(sql_error_of(own).message.ends_with("more memory. (7 bytes were asked for.)"));
    }

    #[test]
    fn a_full_disk_is_1105_of_tempdb() {
        let full = || io::Error::from(io::ErrorKind::StorageFull);
        for error in [
            DataFusionError::from(full()),
            DataFusionError::from(ArrowError::from(full())).context("spill"),
            DataFusionError::from(ArrowError::from(io::Error::from(io::ErrorKind::FileTooLarge))),
            DataFusionError::from(ArrowError::from(io::Error::other(
                "IO error: No space left on device (os error 28)",
            ))),
            DataFusionError::Execution("No space left on device (os error 28)".into()),
        ] {
            let error = sql_error_of(error);
            assert_eq!(error.number, number::FILEGROUP_FULL);
            assert!(error.message.contains("'tempdb'"), "{}", error.message);
        }
        let other = sql_error_of(DataFusionError::from(io::Error::from(io::ErrorKind::PermissionDenied)));
        assert_eq!(other.number, number::INTERNAL);
    }
}
