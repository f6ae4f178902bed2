//! Each experiment on a few rows: the report is complete, its answers are right, and its page is self-contained.

use std::path::Path;
use std::sync::{Mutex, PoisonError, RwLock};

use hobt_engine::InstanceSettings;
use hobt_lab::{Case, DemoOptions, Progress, Report, RunOptions, RunPlaces, UserExperiment};
use serde_json::Value;

use crate::TestFolder;

pub(super) const SMALL: RunOptions =
    RunOptions { rows: Some(40_000), repeat: 2, sweep: false, cases: Vec::new(), scale: None };

/// Latch statistics belong to the process: a test that counts dealer waits (write lock) must not run together with a
/// latched dealer (read lock).
static LATCHED_DEALERS: RwLock<()> = RwLock::new(());

/// Whether page holds are counted is also a property of the process: one test runs inserts at a time.
static INSERTS: Mutex<()> = Mutex::new(());

/// Two runs of one experiment would use the same folder.
static HASHES: Mutex<()> = Mutex::new(());

pub(super) fn run(name: &str, options: RunOptions) -> (Report, Value) {
    let folder = TestFolder::new(name);
    let experiment = hobt_lab::experiment_named(name).expect("it is in the list");
    let json = folder.path().join("report.json");
    let places = RunPlaces {
        data: Some(folder.path().join("data")),
        out: Some(folder.path().join("out")),
        json: Some(json.clone()),
        ..RunPlaces::default()
    };
    let progress = Progress::hidden();
    let settings = InstanceSettings::default();
    let ran = hobt_lab::run_experiment(experiment, &places, settings, options, progress.clone());
    let (report, written) = ran.unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!(progress.begun(), progress.expected(), "steps of {name}");
    assert_eq!(written.len(), 3);
    let page = std::fs::read_to_string(&written[0]).expect("the page was written");
    assert_stands_alone(&report, &page);
    assert_says_where_it_is_from(&report, &page);
    assert_fits_a_terminal(&report);
    let text = std::fs::read_to_string(json).expect("the file was written");
    (report, serde_json::from_str(&text).expect("it is JSON"))
}

fn assert_stands_alone(report: &Report, page: &str) {
    let is_drawn = |case: &Case| case.median("cold_mb_s").or(case.median("warm_s")).is_some();
    assert_eq!(page.contains("<div class=\"bar\">"), report.cases.iter().any(is_drawn), "charts of what was timed");
    assert!(page.contains("<table"));
    for outside in ["<script", "src=", "href=", "@import", "url("] {
        assert!(!page.contains(outside), "the page refers to something outside: {outside}");
    }
}

/// A page or a text that is passed on must say when, by what and how it was made.
fn assert_says_where_it_is_from(report: &Report, page: &str) {
    let occasion = &report.occasion;
    assert!(occasion.date.starts_with("20") && occasion.date.ends_with(" UTC"), "{}", occasion.date);
    // The test program has a number in its name, so a shell needs no quotes for it.
    let command = occasion.command.split(' ').next().expect("the program");
    assert!(!command.is_empty() && !command.contains('/'), "{command}");
    let text = report.to_text_within(usize::MAX);
    for wanted in [&occasion.date, command, concat!("hobt ", env!("CARGO_PKG_VERSION")), "load "] {
        assert!(page.contains(wanted), "the page has no {wanted}");
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
    // Lists and objects may be records, which are data for the tables.
    for (name, _) in report.settings.iter().filter(|(_, value)| value.is_number() || value.is_boolean()) {
        assert!(page.contains(name), "the page has no {name}");
    }
}

fn assert_fits_a_terminal(report: &Report) {
    let text = report.to_text_within(80);
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "{line}\n{text}");
    }
    for line in text.lines().filter(|line| line.starts_with("Not shown")) {
        for wanted in ["of the disk", "longest waits", "rest", "here, MB/s", "cold,", "warm,"] {
            assert!(!line.contains(wanted), "{line}");
        }
    }
}

pub(super) fn assert_complete(report: &Value) {
    for key in ["experiment", "headline", "occasion", "machine", "limits", "settings", "cases"] {
        assert!(report.get(key).is_some(), "{key} is missing");
    }
    for key in ["disk_read_mb_s", "memory_read_gb_s_1_core", "memory_read_gb_s_all_cores"] {
        assert!(report["limits"][key].as_f64().is_some_and(|value| value > 0.0), "{key}");
    }
    for case in report["cases"].as_array().expect("a list") {
        for key in ["cold_s", "warm_s", "cold_mb_s", "cpu_s", "rows_per_worker"] {
            assert!(case[key].is_array(), "{key} of {case}");
        }
        for key in ["cold_s_median", "warm_s_median", "cold_mb_s_median", "cpu_s_median", "name", "rows", "bytes"] {
            assert!(case.get(key).is_some(), "{key} of {case}");
        }
        for key in ["waits_ms", "latch_waits", "reads_by_size"] {
            assert!(case[key].is_object(), "{key} of {case}");
        }
    }
}

pub(super) fn case<'a>(report: &'a Value, name: &str) -> &'a Value {
    let cases = report["cases"].as_array().expect("a list");
    cases.iter().find(|case| case["name"] == name).unwrap_or_else(|| panic!("there is no case {name}"))
}

#[test]
fn scan_measures_every_form_cold_and_warm() {
    let _beside_others = LATCHED_DEALERS.read().unwrap_or_else(PoisonError::into_inner);
    let (report, json) = run("scan", SMALL);
    assert_complete(&json);
    for name in [
        "heap",
        "heap_24_partitions",
        "heap_not_null",
        "heap_24_partitions_not_null",
        "heap_latched_dealer",
        "heap_24_partitions_latched_dealer",
        "clustered_24_partitions",
    ] {
        let case = case(&json, name);
        assert_eq!(case["rows"], 55_452);
        assert_eq!(case["cold_s"].as_array().map(Vec::len), Some(2), "{name}");
        assert_eq!(case["warm_physical_reads_median"], 0.0, "{name} was to be warm");
        let scanned: u64 = case["rows_per_worker"].as_array().expect("a list").iter().filter_map(Value::as_u64).sum();
        assert_eq!(scanned, 55_452, "{name}");
        let read: u64 = case["reads_by_size"]
            .as_object()
            .expect("an object")
            .iter()
            .map(|(size, count)| size.parse::<u64>().expect("a size") * count.as_u64().expect("a count"))
            .sum();
        assert!(read > 0, "{name} read nothing while it was cold");
        assert_eq!(case["notes"].as_array().map(Vec::len), Some(0), "{name}: {}", case["notes"]);
    }
    let overdrawn =
        report.marks.iter().find(|mark| mark.name == "CPU over the time of the threads").expect("it is marked");
    assert!(overdrawn.value <= 1.05, "more CPU than the threads had time: {}", overdrawn.value);
}

#[test]
fn cores_has_a_case_for_each_degree() {
    let (_, json) = run("cores", RunOptions { rows: Some(7_000), ..SMALL });
    assert_complete(&json);
    let processors = std::thread::available_parallelism().expect("known").get();
    for cores in 1..=processors {
        let case = case(&json, &format!("dop_{cores}"));
        assert_eq!(case["workers"], cores);
        assert!(case["avg_disk_bytes_per_read"].as_f64().is_some_and(|bytes| bytes >= 8192.0));
        // Seven rows a page, as in the text.
        let bytes = case["bytes"].as_u64().expect("a number");
        assert_eq!(bytes.div_ceil(8192), 1_000, "pages of 7,000 rows");
    }
    assert!(case(&json, &format!("serial_scans_{processors}"))["all_scans_s_median"].as_f64().is_some());
}

#[test]
fn io_counts_reads_by_size_here_and_on_modelled_devices() {
    let (_, json) = run("io", RunOptions { rows: Some(100_000), repeat: 1, ..SMALL });
    assert_complete(&json);
    let largest = |name: &str| -> u64 {
        let sizes = case(&json, name)["reads_by_size"].as_object().expect("an object");
        sizes.keys().map(|size| size.parse().expect("a size")).max().unwrap_or(0)
    };
    assert_eq!(largest("read_64_kib"), 64 << 10);
    assert_eq!(largest("read_ahead_off"), 8 << 10);
    assert_eq!(largest("scattered"), 64 << 10, "an extent is the longest contiguous piece");
    assert!(largest("read_512_kib") > 64 << 10);
    for device in ["fast_card", "slow_disk", "array_with_cache"] {
        let rate = |name: &str| case(&json, &format!("{device}_{name}"))["cold_mb_s_median"].as_f64().expect("a rate");
        assert!(rate("read_512_kib") > rate("read_ahead_off"), "{device}");
    }
}

#[test]
fn files_divides_tables_among_two_devices_by_hand_and_by_measurement() {
    let (_, json) = run("files", RunOptions { rows: Some(100_000), repeat: 1, ..SMALL });
    assert_complete(&json);
    let part = |name: &str| case(&json, name)["on_the_disk_percent"].as_f64().expect("a figure");
    assert_eq!(part("card_alone"), 0.0);
    // The models say a quarter; runs of a mebibyte in a table of nine are coarse.
    for (name, least, most) in [
        ("two_equal", 40.0, 60.0),
        ("six_and_one", 5.0, 25.0),
        ("two_weighted", 12.0, 38.0),
        ("six_and_one_weighted", 12.0, 38.0),
    ] {
        assert!((least..=most).contains(&part(name)), "{} % of {name} are on the disk", part(name));
    }
    for name in ["one_file", "two_files", "seven_files"] {
        assert!(case(&json, name)["cold_mb_s_median"].as_f64().is_some_and(|rate| rate > 0.0), "{name}");
    }
}

#[test]
fn extension_serves_lookups_and_scans_leave_it() {
    let (_, json) = run("extension", RunOptions { rows: Some(2_000), repeat: 1, ..SMALL });
    assert_complete(&json);
    let figure = |name: &str, key: &str| case(&json, name)[key].as_f64().expect("a figure");
    assert_eq!(figure("pool_alone", "from_extension_median"), 0.0);
    for name in ["extension", "extension_after_scan"] {
        let (disk, extension) = (figure(name, "from_disk_median"), figure(name, "from_extension_median"));
        assert!(extension > 2.0 * disk, "{name}: {extension} pages from the extension, {disk} from the disk");
    }
}

#[test]
fn loads_have_a_case_for_each_file_and_form_of_the_table() {
    let (_, json) = run("load", RunOptions { rows: Some(10_000), repeat: 1, ..SMALL });
    assert_complete(&json);
    let names = ["csv_heap_1", "native_heap_1", "parquet_heap_1", "csv_partitioned_heap_1", "csv_clustered_1"];
    for name in names.into_iter().chain(["csv_heap_with_index_1"]) {
        assert!(case(&json, name)["gb_an_hour_median"].as_f64().is_some_and(|rate| rate > 0.0), "{name}");
    }
}

/// Every backup and restore has a limit beside it, compression makes files smaller, a differential backup has what has
/// changed, and nothing is left.
#[test]
fn backups_have_limits_beside_them_and_leave_nothing() {
    let folder = TestFolder::new("backup-leaves");
    let data = folder.path().join("data");
    let experiment = hobt_lab::experiment_named("backup").expect("it is in the list");
    let places = RunPlaces { data: Some(data.clone()), ..RunPlaces::default() };
    let options = RunOptions { rows: Some(20_000), repeat: 2, ..SMALL };
    let progress = Progress::hidden();
    let ran = hobt_lab::run_experiment(experiment, &places, InstanceSettings::default(), options, progress.clone());
    let (report, _) = ran.expect("it runs");
    assert_eq!(progress.begun(), progress.expected(), "steps");
    assert_fits_a_terminal(&report);
    let json = report.to_json();
    assert_complete(&json);
    assert!(json["limits"]["disk_copy_mb_s"].as_f64().is_some_and(|rate| rate > 0.0));
    let figure = |name: &str, key: &str| case(&json, name)[key].as_f64().expect("a figure");
    for name in ["full_1", "full_2", "full_4", "compressed_1", "compressed_2", "checksum_1", "log", "restore"] {
        assert!(figure(name, "mb_s_median") > 0.0 && figure(name, "over_limit_median") > 0.0, "{name}");
        assert_eq!(case(&json, name)["over_limit"].as_array().map(Vec::len), Some(2), "{name}");
    }
    let (full, stored) = (figure("full_1", "bytes"), figure("full_1", "stored_mb_median") * 1e6);
    assert!(stored >= full, "the file has the {full} bytes and headers: {stored}");
    assert!(figure("compressed_1", "stored_mb_median") * 1e6 < 0.8 * full);
    // Rows side by side lie in few extents, rows all over the table in most of them.
    let [range, scattered] = ["differential_range", "differential_scattered"].map(|name| figure(name, "bytes"));
    // The system's tables, which do not change, are a third of so small a database.
    assert!(range < 0.2 * full && scattered > 0.5 * full, "{range} and {scattered} of {full}");
    assert!(figure("restore", "bytes") >= full && figure("verify", "bytes") >= full);
    for name in ["load_beside_backup", "load_beside_compressed"] {
        assert!(figure(name, "backups_median") >= 1.0 && figure(name, "loss_percent_median") < 100.0, "{name}");
    }
    assert!(report.marks.len() == 2 && report.marks.iter().all(|mark| mark.is_met() != Some(false)), "so few rows");
    let mut left: Vec<String> = std::fs::read_dir(&data)
        .expect("the folder")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .filter(|name| name.contains("backup") || name.contains("restored") || name.contains("probe") || name == "load")
        .collect();
    left.sort();
    assert!(left.is_empty(), "{left:?}");
    let instance = hobt_engine::Instance::open(&data, InstanceSettings::default()).expect("it opens again");
    assert_eq!(instance.backup_history().expect("it is read").len(), 0);
    instance.close().expect("a clean end");
}

#[test]
fn inserts_have_a_case_for_each_key_and_number_of_connections() {
    let _alone = INSERTS.lock().unwrap_or_else(PoisonError::into_inner);
    let (report, json) = run("inserts", RunOptions { rows: Some(128), repeat: 1, ..SMALL });
    assert_complete(&json);
    for key in ["newid", "identity", "newsequentialid", "session", "appserver", "hash", "bitreverse"] {
        let alone = ["newid", "identity"].contains(&key).then_some(1);
        for connections in alone.into_iter().chain([2, 8, 64]) {
            let auto = case(&json, &format!("{key}_{connections}_auto"));
            assert!(auto["rows_per_s_median"].as_f64().is_some_and(|rate| rate > 0.0));
            // A commit is durable before the next begins: a single connection flushes once per commit.
            let flushes = auto["flushes_per_commit_median"].as_f64().expect("a number");
            assert!(connections > 1 || flushes >= 1.0, "{flushes} flushes a commit");
            let in_transactions = case(&json, &format!("{key}_{connections}_tx"));
            assert!(in_transactions["waits_ms"].is_object() && in_transactions["spinlocks"].is_object());
            assert_eq!(in_transactions["connection_s"].as_array().map(Vec::len), Some(connections));
        }
        assert_eq!(case(&json, &format!("heap_{key}_64_tx"))["page_splits_median"], 0.0);
    }
    // 128 rows need several pages, and pages of a tree are created by splits.
    assert!(case(&json, "newid_8_tx")["page_splits_median"].as_f64().is_some_and(|splits| splits >= 2.0));
    for key in ["newid", "identity"] {
        let hold = &case(&json, &format!("hold_{key}_1_tx"))["exclusive_hold_ns_per_row_median"];
        assert!(hold.as_f64().is_some_and(|hold| hold > 0.0), "{hold}");
        assert!(case(&json, &format!("{key}_1_tx")).get("exclusive_hold_ns_per_row").is_none(), "nobody asked");
        for variant in ["no_row_locks", "no_page_locks", "table_locks", "files_8", "files_48", "defaults", "printed"] {
            assert!(case(&json, &format!("{variant}_{key}_64_tx"))["rows_per_s_median"].is_number());
        }
    }
    assert!(case(&json, "sequential_key_identity_64_auto")["rows_per_s_median"].is_number());
    assert!(report.marks.iter().all(|mark| mark.is_met() != Some(false)), "so few rows say nothing");
}

#[test]
fn inserts_run_the_cases_that_are_asked_for() {
    let _alone = INSERTS.lock().unwrap_or_else(PoisonError::into_inner);
    let cases = vec!["newid_2_tx".to_owned(), "heap_hash_8_auto".to_owned()];
    let (_, json) = run("inserts", RunOptions { rows: Some(16), repeat: 2, cases: cases.clone(), ..SMALL });
    let names: Vec<&str> =
        json["cases"].as_array().expect("a list").iter().filter_map(|case| case["name"].as_str()).collect();
    assert_eq!(names, cases);
    assert_eq!(case(&json, "newid_2_tx")["rows_per_s"].as_array().map(Vec::len), Some(2));
}

#[test]
fn updates_have_a_case_for_each_distribution_and_number_of_connections() {
    let (_, json) = run("updates", RunOptions { rows: Some(128), repeat: 1, ..SMALL });
    assert_complete(&json);
    for key in ["identity", "hash"] {
        for (distribution, connections) in [("uniform", 1), ("zipf", 1), ("uniform", 8), ("zipf", 64)] {
            let case = case(&json, &format!("{key}_{distribution}_{connections}"));
            assert!(case["updates_per_s_median"].as_f64().is_some_and(|rate| rate > 0.0));
            assert_eq!(case["connection_s"].as_array().map(Vec::len), Some(connections));
        }
    }
}

#[test]
fn locks_are_drawn_counted_and_escalated() {
    let (report, json) = run("locks", RunOptions { rows: Some(1), repeat: 1, ..SMALL });
    assert_complete(&json);
    let graph = json["settings"]["lock_graph"]["update"].as_array().expect("a list");
    let of = |kind: &str| graph.iter().filter(|lock| lock["resource_type"] == kind).collect::<Vec<_>>();
    assert_eq!((of("KEY").len(), of("HOBT").len(), of("OBJECT").len()), (5, 2, 1), "{graph:?}");
    assert!(of("KEY").iter().all(|lock| lock["request_mode"] == "X" && lock["request_status"] == "GRANT"));
    // Row by row, and partition by partition.
    let steps: Vec<u64> = of("KEY").iter().filter_map(|lock| lock["before_row"].as_u64()).collect();
    assert_eq!(steps, [1, 2, 3, 4, 5]);
    assert!(of("HOBT")[1]["before_row"].as_u64() > of("KEY")[0]["before_row"].as_u64(), "{graph:?}");
    let read = json["settings"]["lock_graph"]["select"].as_array().expect("a list");
    assert!(read.iter().any(|lock| lock["resource_type"] == "OBJECT" && lock["request_status"] == "GRANT"), "{read:?}");
    let locks = |name: &str| case(&json, name)["locks_median"].as_f64().expect("a number");
    assert!(locks("granularity_row") > 12_000.0 && locks("granularity_table") == 1.0);
    assert!(locks("granularity_page") < 200.0 && locks("granularity_hobt") == 3.0);
    assert!(locks("escalation_disable") > 12_000.0 && locks("escalation_table") < 10.0);
    let by_partition = &case(&json, "escalation_auto")["locks_held"];
    assert!(by_partition["HOBT X"].as_u64().is_some_and(|count| count >= 1), "{by_partition}");
    assert_eq!(case(&json, "switch_beside_readers")["switch_ms"].as_array().map(Vec::len), Some(10));
    assert!(report.to_text().contains("└ KEY"));
}

#[test]
fn latches_are_counted_and_add_up() {
    let (report, json) = run("latches", RunOptions { rows: Some(20_000), repeat: 1, ..SMALL });
    assert_complete(&json);
    for guard in ["latch", "latch_shared", "spinlock", "atomic", "sharded_counter"] {
        for threads in [1, 4] {
            let case = case(&json, &format!("{guard}_{threads}"));
            assert!(case["ns_per_operation_median"].as_f64().is_some_and(|time| time > 0.0));
        }
        let alone = case(&json, &format!("{guard}_1"));
        assert_eq!((&alone["waits_median"], &alone["collisions_median"]), (&0.0.into(), &0.0.into()), "{guard}");
    }
    let over_atomic = report.marks.iter().find(|mark| mark.name.contains("over an atomic"));
    assert!(over_atomic.is_some_and(|mark| mark.value > 0.0));
}

#[test]
fn hashes_are_timed_spread_and_distributed() {
    let _alone = HASHES.lock().unwrap_or_else(PoisonError::into_inner);
    let (report, json) = run("hash", RunOptions { rows: Some(5_000), repeat: 1, ..SMALL });
    assert_complete(&json);
    for name in ["int_xxhash3", "int_md2", "int_checksum_of_cast", "string_crc32_bitwise", "loop_xxhash3"] {
        assert_eq!(case(&json, name)["ns_per_value"].as_array().map(Vec::len), Some(1), "{name}");
    }
    assert!(json["settings"]["hash_ratio"].is_f64());
    let chi_square = |name: &str| case(&json, name)["chi_square"].as_f64().expect("a number");
    // 5,000 keys in different ranges: n · (65,536 / n − 1).
    assert_eq!(chi_square("spread_modulo_sequential"), 60_536.0);
    assert_eq!(case(&json, "spread_checksum_sequential")["ranges_filled"], 1.0);
    assert!(chi_square("spread_checksum_sequential") > chi_square("spread_murmur3_sequential") * 100.0);
    let even = |name: &str| case(&json, name)["fullest_over_even_of_24"].as_f64().expect("a number");
    assert!(even("spread_modulo_strided") >= 2.0 && even("spread_xxhash3_strided") < 1.5);
    let partitions = report.tables.iter().find(|grid| grid.title.contains("sp_hobt_hash_distribute"));
    assert_eq!(partitions.map(|grid| grid.rows.len()), Some(8));
    assert!(report.marks.iter().any(|mark| mark.name.contains("CHECKSUM") && mark.is_reached()));
}

#[test]
fn hashes_run_the_case_that_is_asked_for() {
    let _alone = HASHES.lock().unwrap_or_else(PoisonError::into_inner);
    let cases = vec!["int_xxhash3".to_owned()];
    let (_, json) = run("hash", RunOptions { rows: Some(5_000), repeat: 2, cases, ..SMALL });
    let names: Vec<&str> =
        json["cases"].as_array().expect("a list").iter().filter_map(|case| case["name"].as_str()).collect();
    assert_eq!(names, ["int_scan", "int_no_hash", "int_xxhash3", "loop_xxhash3", "loop_xxhash3_kept"]);
    assert!(json["settings"]["hash_ratio"].is_f64());
}

#[test]
fn limits_are_cases_too() {
    let (_, json) = run("limits", RunOptions { repeat: 1, ..SMALL });
    assert_complete(&json);
    assert!(case(&json, "sequential_512_kib_depth_32")["cold_mb_s_median"].as_f64().is_some_and(|rate| rate > 0.0));
    assert!(case(&json, "random_8_kib_depth_1")["latency_us_p99"].as_u64().is_some());
}

#[test]
fn the_sweep_goes_to_96_partitions() {
    let _beside_others = LATCHED_DEALERS.read().unwrap_or_else(PoisonError::into_inner);
    let (report, json) = run("scan", RunOptions { rows: Some(20_000), repeat: 1, sweep: true, ..SMALL });
    assert!(report.cases.iter().all(|case| !case.meaning.is_empty()));
    for name in ["sweep_1_partitions", "sweep_96_partitions", "sweep_96_partitions_latched_dealer"] {
        assert_eq!(case(&json, name)["rows"], 36_968);
    }
}

#[test]
fn a_users_experiment_runs_and_its_mistakes_have_a_line() {
    let folder = TestFolder::new("user");
    let places = RunPlaces { data: Some(folder.path().join("data")), ..RunPlaces::default() };
    let options = RunOptions { rows: None, repeat: 1, ..SMALL };
    let run = |text: &str| {
        let experiment = UserExperiment::parse(Path::new("mine.toml"), text.to_owned())?;
        let progress = Progress::hidden();
        let settings = InstanceSettings::default();
        let ran = hobt_lab::run_experiment(&experiment, &places, settings, options.clone(), progress.clone())?;
        assert_eq!(progress.begun(), progress.expected());
        Ok::<_, hobt_lab::LabError>(ran)
    };
    let good = include_str!("../../../../examples/experiments/read_size.toml");
    let (report, _) = run(&good.replace("big_data_rows = 2_000_000", "big_data_rows = 20_000")).expect("it runs");
    assert_complete(&report.to_json());
    assert!(report.cases.len() > 3);
    for case in &report.cases {
        assert_eq!(case.rows, 36_968, "{}", case.name);
    }
    let asides = include_str!("../../../../examples/experiments/asides.toml");
    let (report, _) = run(&asides.replace("2_000_000", "20_000")).expect("it runs");
    assert!(report.cases.iter().all(|case| case.rows == 36_968 && case.notes.is_empty()), "{:?}", report.to_json());
    let message = |text: &str| run(text).expect_err("it has a mistake").to_string();
    let statement = "[[statement]]\nname = \"s\"\n";
    let setup = "name = \"mine\"\nsetup = [\"\"\"\nSELECT 1\nSELECT * FROM nowhere\"\"\"]\n";
    let found = message(&format!("{setup}{statement}sql = \"SELECT 1\"\n"));
    assert!(found.starts_with("mine.toml:4: Msg 208"), "{found}");
    let found = message(&format!("name = \"mine\"\n{statement}sql = \"DECLARE @i int = 1\"\n"));
    assert!(found.starts_with("mine.toml:4: no figures"), "{found}");
    let two_hints = "sql = \"SELECT 1 AS one OPTION (MAXDOP 1)\"\n[vary]\nmaxdop = [1]\n";
    let found = message(&format!("name = \"mine\"\n{statement}{two_hints}"));
    assert!(found.starts_with("mine.toml:4: Msg 156"), "{found}");
}

/// An answer that did not come from the table's pages does not count as a scan, cold or warm.
#[test]
fn an_answer_from_the_catalog_says_so() {
    let folder = TestFolder::new("catalog");
    let text = "name = \"mine\"\ncustomers = true\n
[[statement]]\nname = \"pages\"\nsql = \"SELECT COUNT(*) FROM dbo.DimCustomer\"\ntable = \"DimCustomer\"\n
[[statement]]\nname = \"cold\"\nsql = \"SELECT SUM(rows) FROM sys.partitions\"\ntable = \"DimCustomer\"\nwarm = false\n
[[statement]]\nname = \"warm\"\nsql = \"SELECT SUM(rows) FROM sys.partitions\"\ntable = \"DimCustomer\"\ncold = false\n";
    let experiment = UserExperiment::parse(Path::new("mine.toml"), text.to_owned()).expect("a sound file");
    let places = RunPlaces { data: Some(folder.path().join("data")), ..RunPlaces::default() };
    let options = RunOptions { rows: None, repeat: 1, ..SMALL };
    let settings = InstanceSettings::default();
    let (report, _) =
        hobt_lab::run_experiment(&experiment, &places, settings, options, Progress::hidden()).expect("it runs");
    let not_a_scan: Vec<(&str, bool)> = report
        .cases
        .iter()
        .map(|case| (case.name.as_str(), case.notes.iter().any(|note| note.contains("not a scan of every page"))))
        .collect();
    assert_eq!(not_a_scan, [("pages", false), ("cold", true), ("warm", true)]);
}

#[test]
fn what_cannot_be_made_or_written_is_refused_before_anything_is_measured() {
    let folder = TestFolder::new("refused");
    let good = include_str!("../../../../examples/experiments/read_size.toml");
    let run = |rows: &str, places: RunPlaces| {
        let text = good.replace("big_data_rows = 2_000_000", &format!("big_data_rows = {rows}"));
        let experiment = UserExperiment::parse(Path::new("mine.toml"), text).expect("a sound file");
        let places = RunPlaces { data: Some(folder.path().join("data")), ..places };
        let progress = Progress::hidden();
        let options = RunOptions { rows: None, repeat: 1, ..SMALL };
        let ran =
            hobt_lab::run_experiment(&experiment, &places, InstanceSettings::default(), options, progress.clone());
        (ran.map(|_| ()).expect_err("refused").to_string(), progress.begun())
    };
    let (error, _) = run("9_000_000_000_000_000_000", RunPlaces::default());
    assert!(error.contains("MB free"), "{error}");
    let nowhere = folder.path().join("nowhere/x.json");
    let (error, steps) = run("20_000", RunPlaces { json: Some(nowhere), ..RunPlaces::default() });
    assert!(error.contains("x.json") && steps == 0, "{steps} steps, {error}");
    let file = folder.path().join("file");
    std::fs::write(&file, "a file").expect("writable");
    let (error, steps) = run("20_000", RunPlaces { out: Some(file), ..RunPlaces::default() });
    assert!(error.contains("creating") && steps == 0, "{steps} steps, {error}");
}

#[test]
fn the_demo_writes_its_report_and_leaves_no_data() {
    let _alone = LATCHED_DEALERS.write().unwrap_or_else(PoisonError::into_inner);
    let folder = TestFolder::new("demo");
    let options = DemoOptions {
        data: folder.path().join("data"),
        out: folder.path().join("out"),
        rows: Some(30_000),
        repeat: 1,
        ..DemoOptions::default()
    };
    let progress = Progress::hidden();
    let result = hobt_lab::run_demo(&options, progress.clone()).expect("the demo runs");
    assert_eq!(progress.begun(), progress.expected(), "steps");
    let json = result.report.to_json();
    assert_complete(&json);
    // Such a small table proves nothing against the engine.
    let marks = json["marks"].as_array().expect("a list");
    assert!(marks.len() > 3 && marks.iter().all(|mark| mark["met"] != false), "{marks:?}");
    assert!(
        marks.iter().any(|mark| mark["of"].as_str().is_some_and(|of| of.ends_with("cold") || of.ends_with("warm")))
    );
    let page = std::fs::read_to_string(&result.page).expect("the page was written");
    assert_stands_alone(&result.report, &page);
    assert_says_where_it_is_from(&result.report, &page);
    assert_fits_a_terminal(&result.report);
    // The chart of the waits comes before all other charts and tables.
    let place = |what: &str| page.find(what).unwrap_or_else(|| panic!("the page has no {what}"));
    assert!(place("Where the threads") < place("Cold: megabytes") && place("Cold: megabytes") < place("<table"));
    // All of the page refers to one rate of the disk.
    let disk: Vec<&str> = page.split("the disk: ").skip(1).filter_map(|rest| rest.split(" MB").next()).collect();
    assert!(disk.len() == 1 && page.matches(&format!("{} MB", disk[0])).count() >= 3, "{disk:?}");
    assert!(
        !page.contains("mark: ") && !page.contains("NOT MET") && page.contains("rows 36,968"),
        "marks and settings"
    );
    let unbroken = page.replace("<wbr>", "");
    for case in ["heap_24_partitions", "heap_not_null", "clustered_24_partitions", "line_item_query_6"] {
        assert!(unbroken.contains(case), "{case}");
    }
    // No case is left without words for a reader that does not know its name.
    for case in &result.report.cases {
        assert!(!case.meaning.is_empty() && page.contains(&case.meaning.replace('\'', "&#x27;")), "{}", case.name);
    }
    // Statistics of the condition's columns are there before the clock starts.
    for name in ["line_item_query_1", "line_item_query_6"] {
        assert_eq!(case(&json, name)["waits_ms"].get("WRITELOG"), None, "{name} only reads");
    }
    assert!(!options.data.exists(), "the data were to be removed");
    assert!(result.closing_words().contains("hobt lab run scan"));
}

#[test]
fn a_star_join_has_a_case_for_each_part_with_and_without_its_filter() {
    let (report, json) = run("star", RunOptions { rows: Some(200_000), repeat: 1, ..SMALL });
    assert_complete(&json);
    for part in ["0_01", "0_1", "1", "5", "10", "25", "50", "100"] {
        let [with, without] =
            ["filter", "no_filter"].map(|form| case(&json, &format!("{form}_{part}_percent")).clone());
        assert!(with["warm_s_median"].as_f64().is_some_and(|time| time > 0.0), "{with}");
        assert!(without["warm_s_median"].as_f64().is_some_and(|time| time > 0.0), "{without}");
    }
    for name in ["order_1", "order_10", "no_filter_order_1", "no_filter_order_10"] {
        assert!(case(&json, name)["warm_s_median"].as_f64().is_some_and(|time| time > 0.0), "{name}");
    }
    let names: Vec<&str> = report.marks.iter().map(|mark| mark.name.as_str()).collect();
    assert_eq!(names.len(), 4, "{names:?}");
    assert_eq!(names.iter().filter(|name| name.starts_with("random join orders")).count(), 2, "{names:?}");
}

#[test]
fn tpch_has_both_orders_of_each_query_and_the_error_of_each_join() {
    let cases = ["q03", "q05", "q06"].map(str::to_owned).to_vec();
    let (report, json) = run("tpch", RunOptions { repeat: 1, scale: Some(0.005), cases, ..SMALL });
    assert_complete(&json);
    for name in ["q03", "q05", "q06", "q03_force_order", "q05_force_order", "q06_force_order"] {
        assert!(case(&json, name)["warm_s_median"].as_f64().is_some_and(|time| time > 0.0), "{name}");
    }
    let joins = |name: &str| case(&json, name)["joins"].as_array().expect("a list").clone();
    assert_eq!((joins("q03").len(), joins("q05").len(), joins("q06").len()), (2, 5, 0));
    for join in joins("q05") {
        let of = |key: &str| join[key].as_f64().expect("a number");
        let (estimated, actual) = (of("estimated_rows").max(1.0), of("actual_rows").max(1.0));
        assert!((of("q_error") - (estimated / actual).max(actual / estimated)).abs() < 1e-9, "{join}");
    }
    assert_eq!(case(&json, "q06")["is_plan_of_force_order"], true);
    let (median, p95) = (&json["settings"]["join_q_error_median"], &json["settings"]["join_q_error_p95"]);
    assert!(median.as_f64() >= Some(1.0) && p95.as_f64() >= median.as_f64(), "{median} {p95}");
    assert!(report.to_text().contains("q-error of 7 joins"));
}

#[test]
fn the_newest_day_is_unknown_to_old_statistics_and_known_to_kept_ones() {
    let (report, json) = run("ascending", RunOptions { rows: Some(5_000), repeat: 1, ..SMALL });
    assert_complete(&json);
    for years in ["", "_printed"] {
        let of = |name: &str| case(&json, &format!("{name}{years}")).clone();
        for name in ["fresh", "stale_2008", "tf2389", "transplant", "self_maintained"] {
            let case = of(name);
            assert_eq!(case["actual_rows"], 5_000, "{name}{years}");
            assert!(case["warm_s_median"].as_f64().is_some_and(|time| time > 0.0), "{case}");
            let plan = if name == "stale_2008" { "nested loops" } else { "hash join" };
            assert_eq!(case["plan"], plan, "{name}{years}: {}", case["operators"]);
            assert_eq!(case["notes"].as_array().map(Vec::len), Some(0), "{case}");
        }
        assert_eq!(of("stale_2008")["estimated_rows"], 1.0);
        assert_eq!(of("stale_2008")["workers"], 1);
        let own = of("self_maintained")["estimated_rows"].as_f64().expect("a number");
        assert!((4_500.0..5_500.0).contains(&own), "{own}");
    }
    for name in ["load_maintained", "load_unmaintained"] {
        assert_eq!(case(&json, name)["load_cpu_s"].as_array().map(Vec::len), Some(4), "{name}");
    }
    assert_eq!(report.marks.len(), 9);
    let few = "5,000 rows, needs 100,000";
    assert!(report.marks.iter().all(|mark| mark.is_met().is_none() && mark.too_small.as_deref() == Some(few)));
    // A plan that reads more pages per second is not the better one.
    let page = report.to_html();
    assert!(page.contains("Warm: time of a run") && !page.contains("gigabytes per second against memory"));
}
