//! Compiles Lua from `lua-5.4.9`, which is modified for deterministic scripts.

use std::env;
use std::path::Path;

fn main() {
    let directory = env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    let source = Path::new(&directory).join("lua-5.4.9");
    println!("cargo:rerun-if-changed={}", source.display());
    println!("cargo:rerun-if-env-changed=CFLAGS");
    let mut build = cc::Build::new();
    // With a `__lt`, `a <= b` is `not (b < a)`, as bodies in older logs may require.
    build.include(&source).define("LUA_COMPAT_LT_LE", None).warnings(false).flag_if_supported("-fno-common");
    if env::var("CARGO_CFG_UNIX").is_ok() {
        build.define("LUA_USE_POSIX", None);
    }
    println!("cargo:rustc-check-cfg=cfg(checked_blocks)");
    let sanitizers = env::var("CARGO_CFG_SANITIZE").unwrap_or_default();
    if sanitizers.split(',').any(|name| name == "address") {
        // So that the sanitizer sees each block.
        println!("cargo:rustc-cfg=checked_blocks");
        // All of Lua's own checks, in addition to the sanitizer.
        build.flag("-fsanitize=address").flag("-fno-omit-frame-pointer").flag("-g");
        build.define("LUA_USE_APICHECK", None).define("LUAI_ASSERT", None);
    } else if env::var("PROFILE").is_ok_and(|profile| profile == "debug") {
        build.define("LUA_USE_APICHECK", None);
    }
    let files = std::fs::read_dir(&source).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut files: Vec<_> = files.filter(|path| path.extension().is_some_and(|extension| extension == "c")).collect();
    files.sort();
    build.files(files).compile("lua");
}
