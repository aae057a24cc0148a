use super::check::check;
use super::load::load;
use crate::arguments::Arguments;
use crate::drive::{Client, drive};
use crate::oltp::Calls;
use crate::peer::Failure;
use crate::record::{Records, tpcc_record};
use crate::tpcc::{Remote, Terminal, Transaction};

/// Number of the run that terminals draw for, that of `thermocline bench tpcc`.
const RUN: u64 = 1;

/// Runs the standard mix, and checks the conditions after it.
///
/// # Errors
/// If the server fails, or a condition is violated.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let (peer, scale) = (arguments.tpcc_peer()?, arguments.scale());
    if arguments.load {
        load(&*peer, scale, arguments.connections)?;
        peer.settle()?;
    }
    let engine = peer.engine()?;
    let data_bytes = peer.data_bytes()?;
    let mut records = Records::new(arguments)?;
    let client = |number| {
        let terminal = Terminal::new(scale, Remote::Standard, RUN, number);
        Ok::<Client, Failure>((Box::new(terminal) as Box<dyn Calls>, peer.connect()?))
    };
    let clients = (0..arguments.connections as u64).map(client).collect::<Result<Vec<_>, _>>()?;
    let driven = drive(clients, Transaction::ALL.len(), arguments.warm_up(), arguments.timed())?;
    let record = tpcc_record(arguments, &engine, data_bytes, &driven);
    check(&*peer, scale)?;
    records.put(&record)
}
