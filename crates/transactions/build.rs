//! Compiles Lua 5.4 with what `src/procedure/lua/vm/deterministic.h` changes.

use std::path::Path;

fn main() {
    let directory = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    let header = Path::new(&directory).join("src/procedure/lua/vm/deterministic.h");
    println!("cargo:rerun-if-changed={}", header.display());
    println!("cargo:rerun-if-changed=build.rs");
    // The builder of Lua takes flags from nowhere but the environment.
    let given = std::env::var("CFLAGS").unwrap_or_default();
    let quoted = header.display().to_string().replace('\'', "'\\''");
    set("CC_SHELL_ESCAPED_FLAGS", "1");
    set("CFLAGS", &format!("{given} -include '{quoted}'"));
    lua_src::Build::new().build(lua_src::Lua54).print_cargo_metadata();
}

#[expect(unsafe_code, reason = "a build script has one thread")]
fn set(name: &str, value: &str) {
    // SAFETY: nothing else reads the environment meanwhile.
    unsafe { std::env::set_var(name, value) };
}
