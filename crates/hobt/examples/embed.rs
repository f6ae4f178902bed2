//! hobt embedded in another program: a table, some rows, and a query whose rows arrive as Arrow batches.
//!
//! Run it with `cargo run -p hobt --example embed`.

use hobt::{Instance, Item, SqlError};

fn main() -> Result<(), SqlError> {
    let folder = std::env::temp_dir().join("hobt-embed-example");
    let instance = Instance::open(&folder)?;
    let mut session = instance.session()?;
    session.run("IF DB_ID('shop') IS NULL CREATE DATABASE shop")?;
    session.run(
        "USE shop; DROP TABLE IF EXISTS sales; CREATE TABLE sales (id int NOT NULL, city nvarchar(40) NULL, amount money)",
    )?;
    session.run("INSERT INTO sales VALUES (1, N'Oslo', 12.50), (2, N'Rome', 7), (3, N'Oslo', 30)")?;
    for item in session.query("SELECT city, SUM(amount) AS total FROM sales GROUP BY city ORDER BY total DESC") {
        match item {
            Item::Batch(batch) => println!("{batch:#?}"),
            Item::Message(message) => println!("{}", message.text),
            Item::Statistics(cost) => println!("{} ms, {} table(s) read", cost.elapsed.as_millis(), cost.reads.len()),
            Item::Error(error) => return Err(error),
            Item::Columns(_) | Item::Done(_) => {}
        }
    }
    drop(session);
    instance.close()
}
