//! Microsoft's examples are read as they are meant, what is written is read again, and what is wrong has its number.

use hobt_types::{MaxLength, SqlType};

use super::{FIELDS_MAX, FORMAT_FILE_BYTES_MAX, FileField, FileStyle, FormatFile, HostType, TableColumn};

fn parsed(text: &str) -> FormatFile {
    FormatFile::parse(text.as_bytes(), "f.fmt").expect("a format file")
}

fn error_of(text: &str) -> i32 {
    FormatFile::parse(text.as_bytes(), "f.fmt").expect_err("no format file").number
}

/// Host type, prefix, length, terminator, column, name.
fn shown(field: &FileField) -> (&str, u8, u32, &[u8], u32, &str) {
    let FileField { host, prefix_length, length, terminator, column, column_name, .. } = field;
    (host.name(), *prefix_length, *length, terminator, column.unwrap_or(0), column_name)
}

/// Tables with a column of each type, NULL or not.
pub(crate) fn tables() -> Vec<Vec<TableColumn>> {
    let types = [
        SqlType::Bit,
        SqlType::TinyInt,
        SqlType::SmallInt,
        SqlType::Int,
        SqlType::BigInt,
        SqlType::Decimal { precision: 38, scale: 10 },
        SqlType::Decimal { precision: 1, scale: 0 },
        SqlType::SmallMoney,
        SqlType::Money,
        SqlType::Real,
        SqlType::Float,
        SqlType::Date,
        SqlType::Time { scale: 0 },
        SqlType::Time { scale: 7 },
        SqlType::SmallDateTime,
        SqlType::DateTime,
        SqlType::DateTime2 { scale: 3 },
        SqlType::DateTime2 { scale: 7 },
        SqlType::Char(10),
        SqlType::VarChar(MaxLength::Limited(8000)),
        SqlType::VarChar(MaxLength::Max),
        SqlType::NChar(10),
        SqlType::NVarChar(MaxLength::Limited(4000)),
        SqlType::NVarChar(MaxLength::Max),
        SqlType::Binary(8000),
        SqlType::VarBinary(MaxLength::Limited(7)),
        SqlType::VarBinary(MaxLength::Max),
        SqlType::UniqueIdentifier,
    ];
    let columns = |nullable: bool| {
        let column = |sql_type: SqlType| TableColumn {
            name: format!("{sql_type} \"<&\\>\" ü"),
            sql_type,
            nullable,
            collation: sql_type.is_text().then(|| "SQL_Latin1_General_CP1_CI_AS".to_owned()),
        };
        types.into_iter().map(column).collect()
    };
    vec![columns(true), columns(false)]
}

fn styles() -> [FileStyle; 4] {
    [
        FileStyle::Native,
        FileStyle::WideNative,
        FileStyle::Text { field: b"\",\"".to_vec(), row: b"\r\n".to_vec() },
        FileStyle::WideText { field: b"\t\0".to_vec(), row: b"\r\0\n\0".to_vec() },
    ]
}

const NATIVE: &str = "12.0  
4  
1  SQLSMALLINT   0       2       \"\"   1     DepartmentID         \"\"  
2  SQLNCHAR      2       100     \"\"   2     Name                 SQL_Latin1_General_CP1_CI_AS  
3  SQLNCHAR      2       100     \"\"   3     GroupName            SQL_Latin1_General_CP1_CI_AS  
4  SQLDATETIME   0       8       \"\"   4     ModifiedDate         \"\"  
";

#[test]
fn documented_files_in_lines_are_read() {
    let native = parsed(NATIVE);
    assert_eq!(shown(&native.fields[0]), ("SQLSMALLINT", 0, 2, &b""[..], 1, "DepartmentID"));
    assert_eq!(shown(&native.fields[2]), ("SQLNCHAR", 2, 100, &b""[..], 3, "GroupName"));
    assert_eq!(native.fields[2].code_page(), Some(1252));
    assert_eq!((native.fields[3].collation.as_deref(), native.columns.len()), (None, 0));
    let skipping = parsed(
        "13.0\r\n4\r\n\
         1       SQLCHAR\t0       7       \",\"      1     PersonID \t\"\"\r\n\
         2       SQLCHAR\t0       25      \",\"      0     FirstName\tSQL_Latin1_General_CP1_CI_AS\r\n\
         3       SQLCHAR\t0       25      \",\"      2     FirstName\tSQL_Latin1_General_CP1_CI_AS\r\n\
         4       SQLCHAR\t0       50      \"\\r\\n\"   3     LastName \tSQL_Latin1_General_CP1_CI_AS\r\n",
    );
    let columns: Vec<Option<u32>> = skipping.fields.iter().map(|field| field.column).collect();
    assert_eq!(columns, [Some(1), None, Some(2), Some(3)]);
    assert_eq!(shown(&skipping.fields[3]), ("SQLCHAR", 0, 50, &b"\r\n"[..], 3, "LastName"));
    let cyrillic =
        parsed("13.0\n1\n1  SQLCHAR   0   3000    \"!!!\\r\\r\\n\"         1     c_2          Cyrillic_General_CS_AS");
    assert_eq!((cyrillic.fields[0].code_page(), &*cyrillic.fields[0].terminator), (Some(1251), &b"!!!\r\r\n"[..]));
}

#[test]
fn lines_may_come_in_any_order_and_names_may_have_spaces() {
    let format = parsed(
        "9.0\n2\n2 sqlint 0 99 \"\" 1 \"a \\\"b\\\" c\" \"\"\n1 SQLCHAR 0 0 \"\\t\" 2 d e SQL_Latin1_General_CP1_CI_AS",
    );
    assert_eq!(shown(&format.fields[0]), ("SQLCHAR", 0, 0, &b"\t"[..], 2, "d e"));
    assert_eq!(shown(&format.fields[1]), ("SQLINT", 0, 4, &b""[..], 1, "a \"b\" c"));
    assert_eq!(parsed("6.0\n1\n1 SQLCHAR 0 9 \"\" 1 name").fields[0].collation, None);
}

#[test]
fn a_file_in_utf_16_is_the_same_file() {
    for text in [NATIVE, DEPARTMENT] {
        let wide = |text: &str, swap: bool| -> Vec<u8> {
            let units = "\u{FEFF}".encode_utf16().chain(text.encode_utf16());
            units.flat_map(|unit| if swap { unit.to_be_bytes() } else { unit.to_le_bytes() }).collect()
        };
        let marked = format!("\u{FEFF}{text}").into_bytes();
        for bytes in [wide(text, false), wide(text, true), marked] {
            assert_eq!(FormatFile::parse(&bytes, "f").expect("a format file"), parsed(text));
        }
    }
}

const DEPARTMENT: &str = r#"<?xml version="1.0"?>
<BCPFORMAT xmlns="https://schemas.microsoft.com/sqlserver/2004/bulkload/format"
 xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">
 <RECORD>
  <FIELD ID="1" xsi:type="NativeFixed" LENGTH="2"/>
  <FIELD ID="2" xsi:type="NCharPrefix" PREFIX_LENGTH="2" MAX_LENGTH="100" COLLATION="SQL_Latin1_General_CP1_CI_AS"/>
  <FIELD ID="3" xsi:type="NCharPrefix" PREFIX_LENGTH="2" MAX_LENGTH="100" COLLATION="SQL_Latin1_General_CP1_CI_AS"/>
  <FIELD ID="4" xsi:type="NativeFixed" LENGTH="8"/>
 </RECORD>
 <ROW>
  <COLUMN SOURCE="1" NAME="DepartmentID" xsi:type="SQLSMALLINT"/>
  <COLUMN SOURCE="2" NAME="Name" xsi:type="SQLNVARCHAR"/>
  <COLUMN SOURCE="3" NAME="GroupName" xsi:type="SQLNVARCHAR"/>
  <COLUMN SOURCE="4" NAME="ModifiedDate" xsi:type="SQLDATETIME"/>
 </ROW>
</BCPFORMAT>"#;

fn xml(fields: &str, columns: &str) -> String {
    format!(
        "<?xml version=\"1.0\"?>\n<BCPFORMAT\nxmlns=\"http://schemas.microsoft.com/sqlserver/2004/bulkload/format\"\n\
         xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\">\n<RECORD>{fields}</RECORD>\n<ROW>{columns}</ROW>\n\
         </BCPFORMAT>"
    )
}

#[test]
fn documented_files_in_xml_are_read() {
    let department = parsed(DEPARTMENT);
    assert_eq!(department.fields, parsed(NATIVE).fields, "the same file in both notations");
    let types: Vec<SqlType> = department.columns.iter().map(|column| column.sql_type).collect();
    let name = SqlType::NVarChar(MaxLength::Limited(50));
    assert_eq!(types, [SqlType::SmallInt, name, name, SqlType::DateTime]);
    // Microsoft's example of all kinds, with a space that it lacks.
    let format = parsed(&xml(
        r#"<FIELD xsi:type="CharTerm" ID="C1" TERMINATOR="\t" MAX_LENGTH="4"/>
           <FIELD xsi:type="CharFixed" ID="C2" LENGTH="10" COLLATION="SQL_LATIN1_GENERAL_CP1_CI_AS"/>
           <FIELD xsi:type="CharPrefix" ID="C3" PREFIX_LENGTH="2" MAX_LENGTH="32"
                COLLATION="SQL_LATIN1_GENERAL_CP1_CI_AS"/>
           <FIELD xsi:type="NCharTerm" ID="C4" TERMINATOR="\t" MAX_LENGTH="4"/>
           <FIELD xsi:type="NCharFixed" ID="C5" LENGTH="10" COLLATION="SQL_LATIN1_GENERAL_CP1_CI_AS"/>
           <FIELD xsi:type="NCharPrefix" ID="C6" PREFIX_LENGTH="2" MAX_LENGTH="32"
                COLLATION="SQL_LATIN1_GENERAL_CP1_CI_AS"/>
           <FIELD xsi:type="NativeFixed" ID="C7" LENGTH="4"/>"#,
        r#"<COLUMN SOURCE="C1" NAME="Age" xsi:type="SQLTINYINT"/>
           <COLUMN SOURCE="C2" NAME="FirstName" xsi:type="SQLVARYCHAR" LENGTH="16" NULLABLE="NO"/>
           <COLUMN SOURCE="C3" NAME="LastName" />
           <COLUMN SOURCE="C4" NAME="Salary" xsi:type="SQLMONEY"/>
           <COLUMN SOURCE="C5" NAME="Picture" xsi:type="SQLIMAGE"/>
           <COLUMN SOURCE="C6" NAME="Bio" xsi:type="SQLTEXT"/>
           <COLUMN SOURCE="C7" NAME="Interest" xsi:type="SQLDECIMAL" PRECISION="5" SCALE="3"/>"#,
    ));
    assert_eq!(shown(&format.fields[3]), ("SQLNCHAR", 0, 4, &b"\t\0"[..], 4, "Salary"));
    assert_eq!(shown(&format.fields[6]), ("SQLDECIMAL", 0, 4, &b""[..], 7, "Interest"));
    let types: Vec<SqlType> = format.columns.iter().map(|column| column.sql_type).collect();
    let (varchar, max) = (|units| SqlType::VarChar(MaxLength::Limited(units)), MaxLength::Max);
    let decimal = SqlType::Decimal { precision: 5, scale: 3 };
    let wanted = [
        SqlType::TinyInt,
        varchar(16),
        varchar(32),
        SqlType::Money,
        SqlType::VarBinary(max),
        SqlType::VarChar(max),
        decimal,
    ];
    assert_eq!(types, wanted);
    assert_eq!(format.columns.iter().filter(|column| !column.nullable).count(), 1);
}

#[test]
fn columns_take_fields_in_their_own_order_and_leave_some() {
    let format = parsed(&xml(
        r#"<FIELD ID="1" xsi:type="CharTerm" TERMINATOR="\t"/><FIELD ID="2" xsi:type="NativePrefix" PREFIX_LENGTH="4"/>
           <FIELD ID="3" xsi:type="CharTerm" TERMINATOR="\r\n"/>"#,
        r#"<COLUMN SOURCE="3" NAME="a"/><COLUMN SOURCE="1" NAME="b" xsi:type="SQLINT"/>"#,
    ));
    let columns: Vec<Option<u32>> = format.fields.iter().map(|field| field.column).collect();
    assert_eq!(columns, [Some(2), None, Some(1)]);
    assert_eq!(format.fields[1].host, HostType::Binary);
    assert_eq!(format.columns[0].field, 2);
    assert_eq!(format.columns[0].sql_type, SqlType::VarChar(MaxLength::Limited(8000)));
}

#[test]
fn what_is_written_is_read_again() {
    for table in tables() {
        for style in styles() {
            let mut format = FormatFile::for_table(&table, &style);
            let again = parsed(&format.to_xml().expect("bcp's own files are XML's, too"));
            assert_eq!(again, format, "{style:?}");
            format.columns.clear();
            assert_eq!(parsed(&format.to_text()), format, "{style:?}");
            assert_eq!(format.to_xml(), None, "no rowset");
        }
    }
}

#[test]
fn tables_have_the_fields_that_bcp_gives_them() {
    let column = |name: &str, sql_type, nullable| TableColumn {
        name: name.to_owned(),
        sql_type,
        nullable,
        collation: Some("SQL_Latin1_General_CP1_CI_AS".to_owned()),
    };
    let name = SqlType::NVarChar(MaxLength::Limited(50));
    let table = [
        column("DepartmentID", SqlType::SmallInt, false),
        column("Name", name, false),
        column("GroupName", name, false),
        column("ModifiedDate", SqlType::DateTime, false),
    ];
    assert_eq!(FormatFile::for_table(&table, &FileStyle::Native).fields, parsed(NATIVE).fields);
    let text = FileStyle::Text { field: b"\t".to_vec(), row: b"\r\n".to_vec() };
    let written: Vec<String> = FormatFile::for_table(&table, &text)
        .to_text()
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    let wanted = [
        "12.0",
        "4",
        r#"1 SQLCHAR 0 7 "\t" 1 DepartmentID """#,
        r#"2 SQLCHAR 0 100 "\t" 2 Name SQL_Latin1_General_CP1_CI_AS"#,
        r#"3 SQLCHAR 0 100 "\t" 3 GroupName SQL_Latin1_General_CP1_CI_AS"#,
        r#"4 SQLCHAR 0 24 "\r\n" 4 ModifiedDate """#,
    ];
    assert_eq!(written, wanted);
}

#[test]
fn what_is_wrong_in_lines_has_its_number() {
    let line = |line: &str| format!("14.0\n1\n{line}\n");
    let field = |rest: &str| line(&format!("1 SQLCHAR {rest}"));
    let cases = [
        (String::new(), 4820),
        ("x".to_owned(), 4820),
        ("99.0\n1\n".to_owned(), 4820),
        ("14.0\n".to_owned(), 4821),
        ("14.0\nx\n".to_owned(), 4821),
        ("14.0\n0\n".to_owned(), 4822),
        (format!("14.0\n{}\n", FIELDS_MAX + 1), 4822),
        (field("0 0 \"\\t\" 1 a \"\"\n2 SQLCHAR 0 0 \"\" 2 b \"\""), 4822),
        ("14.0\n1\n".to_owned(), 4823),
        (line("2 SQLCHAR 0 0 \"\\t\" 1 a \"\""), 4823),
        ("14.0\n2\n1 SQLCHAR 0 1 \"\" 1 a \"\"\n1 SQLCHAR 0 1 \"\" 2 a \"\"".to_owned(), 4823),
        (line("1 SQLVARIANT 0 0 \"\\t\" 1 a \"\""), 4824),
        (field("3 0 \"\\t\" 1 a \"\""), 4825),
        (field("0 -1 \"\\t\" 1 a \"\""), 4826),
        (field("0 3000000000 \"\\t\" 1 a \"\""), 4826),
        (field("0 1 \\t 1 a \"\""), 4827),
        (field("0 1 \"\\t 1 a "), 4827),
        (field("0 1 \"\\t\" x a \"\""), 4828),
        ("14.0\n2\n1 SQLCHAR 0 1 \"\" 5 a \"\"\n2 SQLCHAR 0 1 \"\" 5 a \"\"".to_owned(), 4828),
        (field("0 1 \"\\t\" 1"), 4829),
        (field("0 1 \"\\t\" 1 a Nobody_CI_AS"), 4839),
        (line("1 SQLNCHAR 0 3 \"\" 1 a \"\""), 4826),
        (field("0 0 \"\" 1 a \"\""), 4882),
    ];
    for (text, number) in cases {
        assert_eq!(error_of(&text), number, "{text}");
    }
    let large = vec![b' '; FORMAT_FILE_BYTES_MAX + 1];
    assert_eq!(FormatFile::parse(&large, "f").expect_err("too large").number, 4862);
}

#[test]
fn what_is_wrong_in_xml_has_its_number_and_its_line() {
    const FIELD: &str = r#"<FIELD ID="1" xsi:type="CharTerm" TERMINATOR=","/>"#;
    const COLUMN: &str = r#"<COLUMN SOURCE="1" NAME="a" xsi:type="SQLINT"/>"#;
    let field = |attributes: &str| xml(&format!("<FIELD {attributes}/>"), COLUMN);
    let column = |attributes: &str| xml(FIELD, &format!("<COLUMN {attributes}/>"));
    let cases = [
        ("<a/>".to_owned(), 4855),
        ("<a>".to_owned(), 4883),
        ("<!DOCTYPE a [<!ENTITY b \"c\">]><a>&b;</a>".to_owned(), 4883),
        (xml("", COLUMN), 4822),
        (xml(FIELD, ""), 4822),
        (xml(COLUMN, COLUMN), 4855),
        (xml(FIELD, "<COLUMN SOURCE=\"1\" NAME=\"a\"><b/></COLUMN>"), 4855),
        (xml("text", COLUMN), 4856),
        (field("ID=\"1\" xsi:type=\"NativeFixed\" LENGTH=\"4\" TERMINATOR=\",\""), 4857),
        (field("ID=\"1\" xsi:type=\"NativePrefix\" PREFIX_LENGTH=\"1\" COLLATION=\"Latin1_General_CI_AS\""), 4857),
        (column("SOURCE=\"1\" NAME=\"a\" xsi:type=\"SQLINT\" LENGTH=\"4\""), 4857),
        (field("ID=\"1\" xsi:type=\"Fixed\" LENGTH=\"4\""), 4858),
        (field("ID=\"1\" xsi:type=\"CharFixed\" LENGTH=\"0\""), 4858),
        (field("ID=\"1\" xsi:type=\"NCharFixed\" LENGTH=\"3\""), 4858),
        (field("ID=\"1\" xsi:type=\"CharPrefix\" PREFIX_LENGTH=\"3\""), 4858),
        (field("ID=\"1\" xsi:type=\"CharTerm\" TERMINATOR=\"\""), 4858),
        (column("SOURCE=\"1\" NAME=\"a\" xsi:type=\"SQLUDT\""), 4858),
        (column("SOURCE=\"1\" NAME=\"a\" xsi:type=\"SQLDECIMAL\" PRECISION=\"39\""), 4858),
        (column("SOURCE=\"1\" NAME=\"a\" xsi:type=\"SQLDECIMAL\" PRECISION=\"3\" SCALE=\"4\""), 4858),
        (column("SOURCE=\"1\" NAME=\"a\" NULLABLE=\"MAYBE\""), 4858),
        (field("ID=\"1\" LENGTH=\"4\""), 4859),
        (field("xsi:type=\"CharFixed\" LENGTH=\"4\""), 4859),
        (field("ID=\"1\" xsi:type=\"CharFixed\""), 4859),
        (column("NAME=\"a\""), 4859),
        (column("SOURCE=\"1\""), 4859),
        (field("ID=\"1\" xsi:type=\"CharFixed\" LENGTH=\"4\" COLLATION=\"x\""), 4839),
        (xml(&format!("{FIELD}{FIELD}"), COLUMN), 4872),
        (column("SOURCE=\"2\" NAME=\"a\""), 4873),
        (xml(FIELD, &format!("{COLUMN}{COLUMN}")), 4874),
        (format!("<a {}/>", "a=\"\" ".repeat(300)), 4883),
    ];
    for (text, number) in cases {
        assert_eq!(error_of(&text), number, "{text}");
    }
    let text = xml(&format!("\n\n{FIELD}\n<FIELD/>"), COLUMN);
    let error = FormatFile::parse(text.as_bytes(), "f.xml").expect_err("no id");
    assert_eq!(error.message, "Line 8 in format file \"f.xml\": required attribute \"ID\" is missing.");
}

#[test]
fn many_fields_are_read_and_no_more() {
    let many = |count: usize| {
        let fields: String =
            (1..=count).map(|n| format!("<FIELD ID=\"{n}\" xsi:type=\"CharFixed\" LENGTH=\"1\"/>\n")).collect();
        let columns: String =
            (1..=count).map(|n| format!("<COLUMN SOURCE=\"{n}\" NAME=\"c\" xsi:type=\"SQLINT\"/>\n")).collect();
        xml(&fields, &columns)
    };
    assert_eq!(parsed(&many(FIELDS_MAX)).fields.len(), FIELDS_MAX);
    assert_eq!(error_of(&many(FIELDS_MAX + 1)), 4822);
}
