//! The laboratory: experiments, their data, their reports.
