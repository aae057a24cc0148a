//! PostgreSQL in a directory of its own, used through its `psql`.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use tempfile::TempDir;

use crate::Outcome;

/// Written after each answer.
const END: &str = "-- end of answer --";

/// Evaluates an expression over one row; returns its value or SQLSTATE.
const TRY: &str = "CREATE FUNCTION try(expression text, row_id bigint) RETURNS text[] LANGUAGE plpgsql AS $$ \
    DECLARE value text; BEGIN \
    EXECUTE format('SELECT (%s)::text FROM p WHERE id = $1', expression) INTO value USING row_id; \
    RETURN ARRAY['value', value]; \
    EXCEPTION WHEN OTHERS THEN RETURN ARRAY['error', SQLSTATE]; END $$";

/// Runs a statement; returns the SQLSTATE of its error, if any.
const MISTAKE: &str = "CREATE FUNCTION mistake(statement text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN \
    EXECUTE statement; RETURN NULL; EXCEPTION WHEN OTHERS THEN RETURN SQLSTATE; END $$";

/// A server that ends when this is dropped.
pub struct Postgres {
    server: Child,
    psql: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
    _directory: TempDir,
}

impl Postgres {
    /// Makes a database and connects.
    pub fn start() -> Self {
        let directory = tempfile::Builder::new().prefix("pg").tempdir().unwrap();
        let root = directory.path();
        // It does not run as root.
        let user = (std::fs::metadata("/proc/self").unwrap().uid() == 0).then(|| {
            let id = |flag| {
                let output = Command::new("id").args([flag, "postgres"]).output().unwrap();
                String::from_utf8(output.stdout).unwrap().trim().parse::<u32>().expect("a user postgres")
            };
            (id("-u"), id("-g"))
        });
        if let Some((uid, gid)) = user {
            chown(root, Some(uid), Some(gid)).unwrap();
        }
        let command = |program: &str| {
            let program = binary(program);
            match user {
                None => Command::new(program),
                Some(_) => {
                    let mut command = Command::new("setpriv");
                    command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]).arg(program);
                    command
                }
            }
        };
        let data = root.join("data");
        let initdb = command("initdb")
            .args(["--username=postgres", "--encoding=UTF8", "--locale=C.UTF-8", "--auth=trust", "--no-sync", "-D"])
            .arg(&data)
            .current_dir(root)
            .output()
            .unwrap();
        assert!(initdb.status.success(), "initdb: {}", String::from_utf8_lossy(&initdb.stderr));
        let mut server = command("postgres")
            .args(["-c", "listen_addresses=", "-c", "fsync=off", "-c", "timezone=UTC", "-c"])
            .arg(format!("unix_socket_directories={}", root.display()))
            .arg("-D")
            .arg(&data)
            .current_dir(root)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // The socket exists before the server accepts connections.
        while !is_ready(root) {
            assert!(server.try_wait().unwrap().is_none(), "postgres has ended");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        let mut psql = connect(root);
        let requests = psql.stdin.take().unwrap();
        let answers = BufReader::new(psql.stdout.take().unwrap());
        let mut postgres = Self { server, psql, requests, answers, _directory: directory };
        postgres.run(TRY);
        postgres.run(MISTAKE);
        postgres
    }

    /// Runs a statement that must succeed.
    pub fn run(&mut self, sql: &str) -> Vec<String> {
        self.ask(sql).unwrap_or_else(|state| panic!("PostgreSQL: {state}: {sql}"))
    }

    /// Type of an expression, or the SQLSTATE of its error.
    pub fn type_of(&mut self, expression: &str) -> Result<String, String> {
        let lines = self.ask(&format!("SELECT pg_typeof({expression}) FROM p WHERE id = 0"))?;
        Ok(lines.concat())
    }

    /// The values of an expression over rows of the table.
    pub fn values(&mut self, expression: &str, rows: &[i64]) -> Vec<(i64, Outcome)> {
        let rows: Vec<String> = rows.iter().map(i64::to_string).collect();
        let quoted = expression.replace('\'', "''");
        let sql = format!(
            "SELECT jsonb_agg(jsonb_build_array(id, try('{quoted}', id)) ORDER BY id) FROM p WHERE id IN ({})",
            rows.join(", ")
        );
        let answer = self.run(&sql).concat();
        let rows: Vec<(i64, [Option<String>; 2])> = serde_json::from_str(&answer).expect("rows of PostgreSQL");
        rows.into_iter()
            .map(|(id, [kind, value])| match kind.as_deref() {
                Some("value") => (id, Outcome::Value(value)),
                _ => (id, Outcome::Error(value.unwrap_or_default())),
            })
            .collect()
    }

    /// Rows of a query with columns `c0` and on, or the SQLSTATE of its error.
    pub fn rows(&mut self, query: &str, columns: usize) -> Result<Vec<Vec<Option<String>>>, String> {
        let list: Vec<String> = (0..columns).map(|column| format!("q.c{column}::text")).collect();
        let lines = self.ask(&format!("SELECT jsonb_build_array({}) FROM ({query}) AS q", list.join(", ")))?;
        Ok(lines.iter().map(|line| serde_json::from_str(line).expect("a row of PostgreSQL")).collect())
    }

    /// Rows of a query whose columns have any names.
    pub fn rows_of(&mut self, query: &str, columns: usize) -> Result<Vec<Vec<Option<String>>>, String> {
        let names: Vec<String> = (0..columns).map(|column| format!("c{column}")).collect();
        self.rows(&format!("SELECT * FROM ({query}) AS r ({})", names.join(", ")), columns)
    }

    /// The names of a query's columns, or the SQLSTATE of its error.
    pub fn headings(&mut self, query: &str) -> Result<Vec<String>, String> {
        let lines = self.ask_by(query, " \\gdesc")?;
        Ok(lines.iter().map(|line| line.split('|').next().unwrap_or_default().to_owned()).collect())
    }

    /// The SQLSTATE of a statement's error; `None` if it has none.
    pub fn sqlstate(&mut self, statement: &str) -> Option<String> {
        let answer = self.run(&format!("SELECT mistake('{}')", statement.replace('\'', "''"))).concat();
        (!answer.is_empty()).then_some(answer)
    }

    /// What a statement returns, a line for each row, or the SQLSTATE of its error.
    pub fn answer(&mut self, sql: &str) -> Result<Vec<String>, String> {
        self.ask(sql)
    }

    fn ask(&mut self, sql: &str) -> Result<Vec<String>, String> {
        self.ask_by(sql, ";")
    }

    /// Runs a statement that ends with a semicolon, or with a command of psql instead.
    fn ask_by(&mut self, sql: &str, end: &str) -> Result<Vec<String>, String> {
        writeln!(self.requests, "{}{end}\n\\echo :SQLSTATE\n\\echo '{END}'", sql.replace('\n', " ")).unwrap();
        let mut lines = vec![];
        loop {
            let mut line = String::new();
            assert!(self.answers.read_line(&mut line).unwrap() > 0, "psql has ended: {sql}");
            let line = line.trim_end_matches('\n');
            if line == END {
                break;
            }
            lines.push(line.to_owned());
        }
        match lines.pop().as_deref() {
            Some("00000") => Ok(lines),
            state => Err(state.unwrap_or_default().to_owned()),
        }
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        let _ = self.psql.kill();
        let _ = self.psql.wait();
        // A fast shutdown, which also ends the server's children.
        let _ = Command::new("kill").args(["-INT", &self.server.id().to_string()]).status();
        let _ = self.server.wait();
    }
}

fn is_ready(socket: &Path) -> bool {
    let ready = Command::new(binary("pg_isready")).arg("-q").arg("-h").arg(socket).status();
    ready.unwrap().success()
}

fn connect(socket: &Path) -> Child {
    Command::new(binary("psql"))
        .args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=0", "-U", "postgres", "-d", "postgres", "-h"])
        .arg(socket)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// A program of PostgreSQL's; Debian keeps them out of `PATH`.
fn binary(name: &str) -> PathBuf {
    let mut versions: Vec<PathBuf> = std::fs::read_dir("/usr/lib/postgresql")
        .map(|versions| versions.filter_map(|entry| Some(entry.ok()?.path())).collect())
        .unwrap_or_default();
    versions.sort();
    let found = versions.iter().rev().map(|version| version.join("bin").join(name)).find(|path| path.exists());
    found.unwrap_or_else(|| PathBuf::from(name))
}

/// Whether a type of PostgreSQL has this name here.
pub fn is_same_type(postgres: &str, here: &str) -> bool {
    postgres == here
        || matches!(
            (postgres, here),
            ("character varying" | "character" | "unknown", "text") | ("timestamp without time zone", "timestamp")
        )
}
