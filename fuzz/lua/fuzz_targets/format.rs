#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| thermocline_simulator::fuzz::format(bytes));
