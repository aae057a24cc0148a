use thermocline_machine::Wait;
use thermocline_machine::ids::Sequence;

/// What became of records on their way to the log.
#[derive(Debug)]
pub enum Appended {
    /// The sequence up to which the log has to be durable before their results may be told.
    At(Sequence),
    /// There is no room before this is over; the batch is as it was.
    Full(Wait),
}
