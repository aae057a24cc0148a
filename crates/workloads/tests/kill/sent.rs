//! Requests that clients may have sent, and their answers, as the parent knows them.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use thermocline_transactions::types::Value;
use thermocline_workloads::oltp::Call;

use super::child::{DIRECTORY, EARLY, LANGUAGES, LOAD, PROCESS};
use super::clients::{CLIENTS, IN_FLIGHT, Languages, Workload, calls};

/// A call that was made, or may have been.
#[derive(Debug, Clone)]
pub struct Sent {
    pub workload: Workload,
    pub call: Call,
    /// The line after which it was made; lines are numbered over all processes, from 1.
    pub begin: u64,
    /// The line that reports its end. It was over before that, or else the process ended here.
    pub end: u64,
    pub fate: Fate,
}

impl Sent {
    /// Whether it is an order or a payment of several warehouses.
    pub fn is_remote(&self) -> bool {
        match (self.workload, self.call.procedure, &*self.call.arguments) {
            (Workload::Tpcc, 0, [home, _, _, Value::Text(lines), _]) => {
                let home = format!(":{home}:");
                lines.split(' ').any(|line| !line.contains(&home))
            }
            (Workload::Tpcc, 1, [home, _, of, ..]) => home != of,
            _ => false,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    /// Committed, with the client's answer.
    Committed(Box<str>),
    Refused,
    /// Unanswered: it may or may not be there.
    Unknown,
}

/// When and how a process is started and killed.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// A unique number of the process.
    pub process: u64,
    pub languages: Languages,
    pub loads: bool,
    /// Whether it answers too early.
    pub early: bool,
    /// Its output before it is killed.
    pub phase: &'static str,
    /// Time from that output to the kill.
    pub wait: Duration,
}

/// State that a process has left behind.
#[derive(Debug)]
pub struct Killed {
    pub sent: Vec<Sent>,
    pub recovered: bool,
    pub loaded: bool,
    pub ran: bool,
}

/// Starts a process and kills it. `line` counts the lines of all processes.
pub fn kill(directory: &Path, plan: Plan, line: &mut u64) -> Killed {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "clients", "--ignored", "--nocapture"]);
    command.env(DIRECTORY, directory).env(PROCESS, plan.process.to_string());
    command.env(LANGUAGES, plan.languages.to_string()).env(LOAD, u64::from(plan.loads).to_string());
    command.env(EARLY, u64::from(plan.early).to_string());
    let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
    let stdout = process.stdout.take().unwrap();
    let (phase, reached) = mpsc::channel();
    let reader = std::thread::spawn(move || read(stdout, plan.phase, &phase));
    let waited = reached.recv_timeout(Duration::from_secs(300));
    std::thread::sleep(plan.wait);
    let ended = process.try_wait().unwrap();
    process.kill().unwrap();
    process.wait().unwrap();
    let lines = reader.join().unwrap();
    assert!(ended.is_none(), "the process has ended by itself, {ended:?}, after {:?}", lines.last());
    assert!(waited.is_ok(), "the process was never {}, after {:?}", plan.phase, lines.last());
    understand(&lines, plan, line)
}

/// Whole lines; the kill may have cut off the last.
fn read(stdout: impl Read, phase: &str, reached: &mpsc::Sender<()>) -> Vec<String> {
    let mut stdout = BufReader::new(stdout);
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if stdout.read_line(&mut line).unwrap() == 0 || line.pop() != Some('\n') {
            return lines;
        }
        if line == phase {
            // The receiver may have stopped waiting.
            let _ = reached.send(());
        }
        lines.push(line);
    }
}

/// A line about a call, as clients write it.
fn reply(line: &str) -> Option<(usize, u64, Fate)> {
    let mut words = line.splitn(4, ' ');
    let (client, number) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    match (words.next()?, words.next()?) {
        ("committed", told) => Some((client, number, Fate::Committed(told.into()))),
        ("refused", _) => Some((client, number, Fate::Refused)),
        _ => None,
    }
}

/// Converts lines to calls: each reply makes room for one more, so as many calls as have room may have been made.
fn understand(lines: &[String], plan: Plan, line: &mut u64) -> Killed {
    let said = |phase: &str| lines.iter().any(|line| line == phase);
    let (recovered, loaded, ran) = (said("recovered"), said("loaded"), said("running"));
    let mut running = 0;
    let mut replies: Vec<Vec<(u64, u64, Fate)>> = vec![Vec::new(); CLIENTS];
    for text in lines {
        *line += 1;
        if text == "running" {
            running = *line;
        } else if running > 0 {
            let (client, number, fate) = reply(text).unwrap_or_else(|| panic!("a line that no client writes: {text}"));
            replies[client].push((*line, number, fate));
        }
    }
    *line += 1;
    let mut sent = Vec::new();
    for (client, replies) in replies.into_iter().enumerate().filter(|_| ran) {
        let workload = Workload::of(client);
        let mut calls = calls(client, plan.process, plan.languages);
        let first = sent.len();
        for number in 0..replies.len() + IN_FLIGHT {
            let begin = number.checked_sub(IN_FLIGHT).map_or(running, |before| replies[before].0);
            sent.push(Sent { workload, call: calls.next_call(), begin, end: *line, fate: Fate::Unknown });
        }
        for (end, number, fate) in replies {
            let call = &mut sent[first + number as usize];
            assert_eq!(call.fate, Fate::Unknown, "client {client} was told twice of call {number}");
            assert!(call.begin < end, "client {client} was told of call {number} before it was made");
            (call.end, call.fate) = (end, fate);
        }
    }
    Killed { sent, recovered, loaded, ran }
}
