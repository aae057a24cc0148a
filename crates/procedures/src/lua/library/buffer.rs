use thermocline_lua::Raised;
use thermocline_types::Error;

use super::super::machine::L;

/// A string under construction; it costs instructions, and takes no more memory than there is.
pub struct Buffer<'b, 's> {
    stack: &'b L<'s>,
    bytes: Vec<u8>,
}

impl<'b, 's> Buffer<'b, 's> {
    pub const fn new(stack: &'b L<'s>) -> Self {
        Self { stack, bytes: Vec::new() }
    }

    pub fn push(&mut self, bytes: &[u8]) -> Result<(), Raised> {
        self.reserve(bytes.len())?;
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    /// Checks that this many more bytes may be allocated.
    pub fn reserve(&mut self, more: usize) -> Result<(), Raised> {
        let (held, machine) = (self.bytes.len(), self.stack.host());
        // Doubled, because Lua copies the finished string.
        if !self.stack.may_hold(held.saturating_add(more).saturating_mul(2)) {
            let message = format!("no memory for a string of {} bytes", held.saturating_add(more));
            return Err(machine.abort(self.stack, Error::OutOfMemory(message.into())));
        }
        machine.spend(self.stack, 1 + more / 64)
    }

    /// Spends instructions for work on the string.
    pub fn spend(&self, instructions: usize) -> Result<(), Raised> {
        self.stack.host().spend(self.stack, instructions)
    }

    /// Pushes the string onto Lua's stack.
    pub fn finish(self) {
        self.stack.push_bytes(&self.bytes);
    }

    /// The string.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}
