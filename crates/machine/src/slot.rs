use std::sync::Arc;

use parking_lot::Mutex;

use super::{EventCount, Step, Wait};

/// A slot for one value that a receiver waits for.
pub fn slot<T>() -> (Sender<T>, Receiver<T>) {
    slot_of(&EventCount::new())
}

/// [`slot`] for a receiver that waits for any of several slots with one event.
pub fn slot_of<T>(changed: &Arc<EventCount>) -> (Sender<T>, Receiver<T>) {
    let state = Mutex::new(State { value: None, is_over: false });
    let place = Arc::new(Place { state, changed: Arc::clone(changed) });
    (Sender { place: Arc::clone(&place) }, Receiver { place })
}

#[derive(Debug)]
struct Place<T> {
    state: Mutex<State<T>>,
    changed: Arc<EventCount>,
}

#[derive(Debug)]
struct State<T> {
    value: Option<T>,
    /// Whether no value will come.
    is_over: bool,
}

/// Sends the value. Dropping it means that there is none.
#[derive(Debug)]
pub struct Sender<T> {
    place: Arc<Place<T>>,
}

impl<T> Sender<T> {
    /// Sends the value; the receiver may have stopped waiting.
    pub fn send(self, value: T) {
        self.place.state.lock().value = Some(value);
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.place.state.lock().is_over = true;
        self.place.changed.advance();
    }
}

/// Takes the value out.
#[derive(Debug)]
pub struct Receiver<T> {
    place: Arc<Place<T>>,
}

impl<T> Receiver<T> {
    /// The value, once; `None` if there is none and none will come.
    pub fn receive(&self) -> Step<Option<T>> {
        let seen = self.place.changed.seen();
        let mut state = self.place.state.lock();
        match state.value.take() {
            None if !state.is_over => Step::Wait(Wait::new(&self.place.changed, seen)),
            value => Step::Over(value),
        }
    }
}
