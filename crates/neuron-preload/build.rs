//! The name by which the library is known to the loader.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libneuron_preload.so");
}
