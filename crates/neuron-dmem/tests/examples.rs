//! The examples run, and end well. (`timeline`, which writes a file of one's choice, is tried in
//! `tests/trace.rs`.)

macro_rules! examples {
    ($($path:literal $name:ident;)*) => {$(
        #[path = $path]
        mod $name;

        #[test]
        fn $name() -> Result<(), Box<dyn std::error::Error>> {
            $name::main()
        }
    )*};
}

examples! {
    "../examples/allocate.rs" allocate;
    "../examples/budgets.rs" budgets;
    "../examples/out_of_memory.rs" out_of_memory;
    "../examples/share.rs" share;
    "../examples/survive_oom.rs" survive_oom;
}
