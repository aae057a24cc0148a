//! Commands of `psql`, DuckDB and SQLite that people type without thinking.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::program::{BINARY, rows, text};
use crate::support::terminal::Terminal;

/// Tables of both kinds, a view, indexes and a procedure.
fn database(folder: &Path) -> std::path::PathBuf {
    let (database, objects) = (folder.join("db"), folder.join("lake"));
    fs::create_dir(&objects).unwrap();
    fs::write(objects.join("0.csv"), "id,day,price\n1,2024-02-29,1.50\n").unwrap();
    let script = format!(
        "CREATE TABLE orders (id BIGINT PRIMARY KEY, customer TEXT NOT NULL, amount DECIMAL(10, 2) DEFAULT 0,
            made TIMESTAMP WITH TIME ZONE, CONSTRAINT paid CHECK (amount >= 0)) PARTITION BY (id);
         CREATE INDEX by_customer ON orders (customer);
         CREATE UNIQUE INDEX once ON orders (id, made DESC);
         CREATE TABLE \"Odd one\" (k UUID PRIMARY KEY) WITH (evictable = false);
         CREATE EXTERNAL TABLE lake (id BIGINT, day DATE, price DECIMAL(8, 2)) STORED AS CSV LOCATION '{}';
         CREATE INDEX lake_by_id ON lake (id);
         CREATE VIEW recent AS SELECT id, customer FROM orders WHERE id > 5;
         CREATE PROCEDURE pay(k BIGINT, v DECIMAL(10, 2)) LANGUAGE SQL AS
            $$ UPDATE orders SET amount = v WHERE id = k; $$",
        objects.display()
    );
    rows(Some(&database), &script);
    database
}

/// Output of a script in a format.
fn said(database: &Path, format: &str, script: &str) -> String {
    let done = Command::new(BINARY).arg("sql").arg(database).args(["--format", format, "-c", script]).output().unwrap();
    assert!(done.status.success(), "{script}: {}", text(&done.stderr));
    text(&done.stdout)
}

/// The error of a script.
fn error(database: &Path, script: &str) -> String {
    let done = Command::new(BINARY).arg("sql").arg(database).args(["-c", script]).output().unwrap();
    assert_eq!(done.status.code(), Some(1), "{script}");
    text(&done.stderr)
}

#[test]
fn what_there_is_is_listed() {
    let folder = tempfile::tempdir().unwrap();
    let database = database(folder.path());
    let list = |command: &str| said(&database, "csv", command);
    let all = "schema,name,type\npublic,Odd one,table\npublic,lake,external table\npublic,orders,table\n";
    assert_eq!(list("\\dt"), all);
    for command in ["\\d", ".tables"] {
        assert_eq!(list(command), format!("{all}public,recent,view\n"), "{command}");
    }
    assert_eq!(list("\\dv"), "schema,name,type\npublic,recent,view\n");
    assert_eq!(list("\\dt O*"), "schema,name,type\npublic,orders,table\n");
    assert_eq!(list("\\dt \"O*\""), "schema,name,type\n");
    assert_eq!(list("\\dt+ l?ke;"), "schema,name,type\npublic,lake,external table\n");
    assert!(list("\\dt system.*").contains("\nsystem,queries,system table\n"));
    assert_eq!(
        list("\\di"),
        "name,table,columns,method,constraint\n\
         Odd one_pkey,Odd one,k,hash,primary key\n\
         by_customer,orders,customer,btree,\"\"\n\
         lake_by_id,lake,id,objects,\"\"\n\
         once,orders,\"id, made DESC\",btree,unique\n\
         orders_pkey,orders,id,hash,primary key\n"
    );
    assert_eq!(list("\\df pay"), "name,kind,usage\npay,procedure,\"CALL pay(k BIGINT, v DECIMAL(10, 2))\"\n");
    let functions = list("\\df");
    for kind in ["\nabs,scalar,", "\nsum,aggregate,", "\nrank,window,", "\ngenerate_series,table,"] {
        assert!(functions.contains(kind), "{kind} in {functions}");
    }
    assert_eq!(list("\\l"), format!("name,location\nthermocline,{}\n", database.display()));
    assert!(list("\\dn").contains("\npublic,tables and views\n"));
    // Empty lists are no errors.
    assert_eq!(list("\\dt nothing"), "schema,name,type\n");
    assert_eq!(said(folder.path(), "csv", "\\d"), "schema,name,type\n");
}

#[test]
fn tables_of_both_kinds_are_described() {
    let folder = tempfile::tempdir().unwrap();
    let database = database(folder.path());
    assert_eq!(
        said(&database, "csv", "\\d orders"),
        "column_name,data_type,is_nullable,column_default\nid,BIGINT,NO,\ncustomer,TEXT,NO,\n\
         amount,\"DECIMAL(10, 2)\",YES,0\nmade,TIMESTAMP WITH TIME ZONE,YES,\n"
    );
    let orders = said(&database, "table", "\\d orders");
    for part in [
        "Table \"public.orders\"\n column_name |",
        "\nIndexes:\n    \"orders_pkey\" PRIMARY KEY, hash (id)\n    \"by_customer\" btree (customer)\n    \
         \"once\" UNIQUE, btree (id, made DESC)\n",
        "\nCheck constraints:\n    \"paid\" CHECK (",
        "\nPartition by: id\n",
    ] {
        assert!(orders.contains(part), "{orders}\nwithout {part}");
    }
    let odd = said(&database, "table", "\\d \"Odd one\"");
    assert!(odd.contains("Replicated") && odd.contains("Not evictable") && odd.contains("UUID"), "{odd}");
    let lake = said(&database, "table", "\\d lake");
    for part in [
        "External table \"public.lake\"",
        "DECIMAL(8, 2)",
        &format!("\nLocation: {}", folder.path().join("lake").display()),
        "\nFormat: CSV\n",
        "\nIndexes:\n    \"lake_by_id\" (id)\n",
    ] {
        assert!(lake.contains(part), "{lake}\nwithout {part}");
    }
    let view = said(&database, "table", "\\d recent");
    assert!(view.contains("View \"public.recent\"") && view.contains("\nDefinition:\nCREATE VIEW recent"), "{view}");
    assert!(said(&database, "csv", "\\d system.queries").contains("\nsql,TEXT,"));
    let several = said(&database, "table", "\\d *e*");
    assert!(several.contains("Table \"public.orders\"") && several.contains("\n\nView \"public.recent\""), "{several}");
    let several = said(&database, "csv", "\\d *e*");
    for row in [
        "table,column_name,data_type,is_nullable,column_default\n",
        "\npublic.lake,day,DATE,YES,\n",
        "\npublic.orders,customer,TEXT,NO,\n",
        "\npublic.recent,id,BIGINT,",
    ] {
        assert!(several.contains(row), "{several}\nwithout {row}");
    }
    let wrong = error(&database, "\\d order");
    assert!(wrong.contains("table \"order\" does not exist (42P01)\nHINT: did you mean orders?"), "{wrong}");
}

#[test]
fn definitions_can_be_run_again() {
    let folder = tempfile::tempdir().unwrap();
    let database = database(folder.path());
    let schema = said(&database, "table", ".schema");
    assert!(said(&database, "table", ".schema recent").starts_with("CREATE VIEW recent AS"));
    let copy = folder.path().join("copy");
    rows(Some(&copy), &schema);
    assert_eq!(said(&copy, "table", ".schema"), schema);
    assert_eq!(said(&database, "table", ".schema system.queries"), "", "it has no statement, but exists");
    assert!(error(&database, ".schema orderz").contains("did you mean orders?"));
}

#[test]
fn rows_are_shown_as_one_likes() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("db");
    let two = "SELECT 1 AS n, 'x' AS \"text\" UNION ALL SELECT 22, 'a\nb' ORDER BY n";
    let records = "-[ RECORD 1 ]\nn    | 1\ntext | x\n-[ RECORD 2 ]\nn    | 22\ntext | a\n     | b\n";
    let table = "  n | text\n----+------\n  1 | x\n 22 | a\n    | b\n";
    let json = "{\"n\":1,\"text\":\"x\"}\n{\"n\":22,\"text\":\"a\\nb\"}\n";
    let script = format!(
        "{two};\n\\x\n{two};\n\\x off\n{two};\n.mode line\n{two};\n.mode json\n{two};\n.mode csv\n{two};\n\
         .mode duckbox\n{two}"
    );
    let csv = "n,text\n1,x\n22,\"a\nb\"\n";
    assert_eq!(said(&database, "table", &script), [table, records, table, records, json, csv, table].concat());
    for (wrong, why) in [
        (".mode yaml", ".mode yaml: expected table, line, csv, json or markdown"),
        ("\\x maybe", "expected on, off or auto"),
        ("\\timing x", "expected on or off"),
        (".nothing", "there is no command .nothing"),
        ("\\watch", "none has run"),
        ("SELECT 1; \\watch x", "not x"),
        ("\\set 'a b' 1", "a variable has a name of"),
        ("\\e", "for the shell"),
        ("\\o /nowhere/x", "/nowhere/x: No such file"),
        ("\\o |less", "not a command"),
        ("\\o r.csv -- report", "the name of a file, in quotes if it has blanks, not r.csv -- report"),
        ("\\o :out", "there is no variable :out"),
        ("\\i :file", "there is no variable :file"),
        ("\\set a :b", "there is no variable :b"),
    ] {
        let said = error(&database, wrong);
        assert!(said.contains(why), "{wrong}: {said}");
    }
}

#[test]
fn rows_go_to_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let (database, file) = (folder.path().join("db"), folder.path().join("a file.txt"));
    let script = format!(
        "SELECT 1 AS a;\n\\o '{}'\nSELECT 2 AS b;\nCOPY (SELECT 3 AS c) TO STDOUT;\n.output\nSELECT 4 AS d",
        file.display()
    );
    for (format, here, there) in
        [("csv", "a\n1\nd\n4\n", "b\n2\n3\n"), ("table", " a\n---\n 1\n d\n---\n 4\n", " b\n---\n 2\n3\n")]
    {
        assert_eq!(said(&database, format, &script), here);
        assert_eq!(fs::read_to_string(&file).unwrap(), there);
    }
}

#[test]
fn files_have_the_names_that_one_means() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a b.sql"), "SELECT 5 AS e;").unwrap();
    let script = "\\set out r.csv\n\\o :out\nSELECT 1 AS a;\n.output \"my file.csv\"\nSELECT 2 AS b;\n\
                  \\o 'it''s.csv'\nSELECT 3 AS c;\n.output stdout\nSELECT 4 AS d;\n\
                  \\set script 'a b.sql'\n\\i :script\n\\i :'script'\n.read \"a b.sql\"\n\
                  \\set copy :out\nSELECT :'copy' AS f";
    let mut command = Command::new(BINARY);
    command.current_dir(folder.path()).args(["sql", "--format", "csv", "-c", script]);
    let done = command.output().unwrap();
    assert_eq!(text(&done.stdout), "d\n4\ne\n5\ne\n5\ne\n5\nf\nr.csv\n", "{}", text(&done.stderr));
    let file = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
    assert_eq!([file("r.csv"), file("my file.csv"), file("it's.csv")], ["a\n1\n", "b\n2\n", "c\n3\n"]);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 4);
}

#[test]
fn a_paste_has_a_command_or_statement_in_each_line() {
    let folder = tempfile::tempdir().unwrap();
    let (database, file) = (folder.path().join("db"), folder.path().join("out.txt"));
    rows(Some(&database), "CREATE TABLE t (k BIGINT PRIMARY KEY); INSERT INTO t VALUES (1), (2)");
    let mut shell = Terminal::with_pastes(&database);
    shell.hears("thermocline> ");
    shell.pastes(&format!("\\o {}\nSELECT k FROM t ORDER BY k;\n\\o\nSELECT 'he' || 're' AS h;", file.display()));
    shell.hears("here");
    assert_eq!(fs::read_to_string(&file).unwrap(), " k\n---\n 1\n 2\n");
    shell.hears("thermocline> ");
    shell.pastes("\\set least 2\nDELETE FROM t WHERE k < :least;\nSELECT 'and ' || count(*) AS n FROM t;");
    shell.hears("and 1");
    shell.quits();
    assert_eq!(rows(Some(&database), "SELECT k FROM t"), "k\n2\n");
}

#[test]
fn statements_refer_to_variables() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("db");
    let script = "\\set n 41\n\\set who 'O''Neil' s\nSELECT :n + 1 AS n, :'who' AS w, ':n' AS t, 7::text AS s;\n\
                  \\set column big\nSELECT :\"column\" FROM (SELECT 1 AS :column) t;\n\\set\n\\unset n\n\
                  SELECT '' AS :column;\n";
    let expected = "n,w,t,s\n42,O'Neils,:n,7\nbig\n1\ncolumn = 'big'\nn = '41'\nwho = 'O''Neils'\nbig\n\"\"\n";
    assert_eq!(said(&database, "csv", script), expected);
    let file = folder.path().join("script.sql");
    fs::write(&file, script).unwrap();
    let done = Command::new(BINARY).args(["sql", "--format", "csv", "-f"]).arg(&file).output().unwrap();
    assert_eq!(text(&done.stdout), expected, "{}", text(&done.stderr));
    error(&database, "\\set n 1\n\\unset n\nSELECT :n");
}

#[test]
fn a_statement_is_repeated() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("db");
    rows(Some(&database), "CREATE TABLE t (k BIGINT PRIMARY KEY, v BIGINT); INSERT INTO t VALUES (1, 0)");
    let script = "UPDATE t SET v = v + 1;\n\\watch i=0.01 c=3\nSELECT v FROM t;\n\\watch 0 c=2";
    assert_eq!(said(&database, "csv", script), "v\n4\nv\n4\nv\n4\n");
    let mut shell = Terminal::open(&database, "");
    shell.hears("thermocline> ");
    shell.types("SELECT 'seen ' || v AS s FROM t;\r");
    shell.hears("seen 4");
    shell.types("\\watch 0.1\r");
    for _ in 0..3 {
        shell.hears("seen 4");
    }
    shell.types("\x03");
    shell.hears("thermocline> ");
    shell.types("SELECT 'goes ' || 'on' AS s;\r");
    shell.hears("goes on");
    shell.quits();
}

#[test]
fn the_last_statement_is_edited() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("db");
    rows(Some(&database), "CREATE TABLE t (k BIGINT PRIMARY KEY)");
    let editor = folder.path().join("an editor");
    fs::write(&editor, "#!/bin/sh\nsed -i s/one/two/ \"$2\"; exit $1\n").unwrap();
    Command::new("chmod").arg("+x").arg(&editor).status().unwrap();
    let file = folder.path().join("file.sql");
    fs::write(&file, "SELECT 'of a ' || 'file' AS f;").unwrap();
    let mut shell = Terminal::with_editor(&database, &format!("'{}' 0", editor.display()));
    shell.hears("thermocline> ");
    shell.types("SELECT 'the ' || 'one' AS t;\r");
    shell.hears("the one");
    shell.hears("thermocline> ");
    shell.types("\\e\r");
    shell.hears("the two");
    shell.hears("thermocline> ");
    shell.types("\\e\r");
    shell.hears("not changed, and not run");
    shell.types(&format!("\\e {}\r", file.display()));
    shell.hears("of a file");
    shell.quits();
    let mut shell = Terminal::with_editor(&database, &format!("'{}' 3", editor.display()));
    shell.hears("thermocline> ");
    shell.types("SELECT 'the ' || 'end' AS t;\r");
    shell.hears("the end");
    shell.hears("thermocline> ");
    shell.types("\\e\r");
    shell.hears("nothing has run");
    shell.quits();
}

#[test]
fn an_edited_text_runs_if_it_was_saved_and_is_complete() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("db");
    rows(Some(&database), "CREATE TABLE t (k BIGINT PRIMARY KEY); INSERT INTO t VALUES (1), (2)");
    let file = folder.path().join("cleanup.sql");
    fs::write(&file, "DELETE FROM t;").unwrap();
    // One that only looks.
    let mut shell = Terminal::with_editor(&database, "true");
    shell.hears("thermocline> ");
    for file in [file.clone(), folder.path().join("new.sql")] {
        shell.types(&format!("\\e {}\r", file.display()));
        shell.hears("not changed, and not run");
        shell.hears("thermocline> ");
    }
    shell.types("SELECT 'still ' || count(*) AS n FROM t;\r");
    shell.hears("still 2");
    shell.quits();
    // One that deletes half of a statement.
    let mut shell = Terminal::with_editor(&database, "sed -i 's/ WHERE.*//'");
    shell.hears("thermocline> ");
    shell.types("DELETE FROM t WHERE k = 3;\r");
    shell.hears("thermocline> ");
    shell.types("\\e\r");
    shell.hears("nothing has run yet");
    shell.hears("...> ");
    shell.types("WHERE k = 2;\r");
    shell.hears("1 row changed");
    shell.hears("thermocline> ");
    shell.types("SELECT 'then ' || count(*) AS n FROM t;\r");
    shell.hears("then 1");
    shell.quits();
}

#[test]
fn a_shell_has_the_commands_of_several() {
    let folder = tempfile::tempdir().unwrap();
    let database = database(folder.path());
    let mut shell = Terminal::open(&database, "");
    shell.hears("thermocline> ");
    shell.types(".tables\r");
    shell.hears("recent");
    shell.hears("(4 rows)");
    shell.types("\\dt o*\r");
    shell.hears("(1 row)");
    shell.types("\\timing off\r");
    shell.hears("times are not shown");
    shell.types("\\x\r");
    shell.hears("a line for each value");
    shell.types("SELECT 'so ' || 'long' AS t;\r");
    shell.hears("-[ RECORD 1 ]");
    shell.hears("so long");
    shell.types("\\?\r");
    shell.hears("\\watch");
    shell.types("\\d ordes\r");
    shell.hears("did you mean orders?");
    shell.quits();
}

#[test]
fn a_session_says_where_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let database = database(folder.path());
    let where_it_is = "SELECT current_database() AS d, current_schema() AS s, current_schema AS s2, current_user AS u, \
                       session_user AS u2, current_catalog AS c, current_role AS r";
    for from in ["", " FROM (SELECT 1) AS t", " FROM generate_series(1, 1)"] {
        let printed = said(&database, "csv", &format!("{where_it_is}{from}"));
        assert_eq!(
            printed.lines().nth(1).unwrap(),
            "thermocline,public,public,thermocline,thermocline,thermocline,thermocline"
        );
    }
    assert_eq!(
        said(&database, "csv", "SELECT current_user, current_database(), version() LIKE 'Thermocline %' AS v"),
        "current_user,current_database,v\nthermocline,thermocline,true\n"
    );
    // A catalog of that name has the tables.
    let tables = "SELECT count(*) AS n FROM information_schema.tables WHERE table_catalog = current_database() AND \
                  table_schema = current_schema()";
    assert_eq!(said(&database, "csv", tables), "n\n4\n");
    rows(Some(&database), "INSERT INTO orders (id, customer) VALUES (1, 'thermocline')");
    let mine = "SELECT id FROM orders WHERE customer = current_user AND version() > ''";
    assert_eq!(said(&database, "csv", mine), "id\n1\n", "over row tables");
    assert!(error(&database, "SELECT version(1)").contains("version"));
    // Columns of these names are columns, but for the reserved words.
    assert_eq!(
        said(&database, "csv", "SELECT version, \"current_user\" FROM (SELECT 1 AS version, 2 AS \"current_user\") t"),
        "version,current_user\n1,2\n"
    );
}
