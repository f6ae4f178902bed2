//! T-SQL's scalar functions, casts, arithmetic and aggregates as vectorised Arrow kernels.
