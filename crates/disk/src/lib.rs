//! Files and asynchronous direct I/O: io_uring, a thread pool, a simulated faulty disk.
