use thermocline_machine::Wait;
use thermocline_machine::ids::Sequence;

/// Outcome of handing records to the log.
#[derive(Debug)]
pub enum Appended {
    /// Handed over; the results may be told once the log is durable up to this sequence.
    At(Sequence),
    /// No room until this wait ends; the batch is unchanged.
    Full(Wait),
}
