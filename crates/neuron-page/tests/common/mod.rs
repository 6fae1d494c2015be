//! Pages to test.

use neuron_page::{
    Axis, Block, Cell, Fact, HbmMap, Layout, Moment, Page, Point, Pool, Share, Table, Timeline, Verdict,
};

const MIB: u64 = 1 << 20;

/// Text that would do something if it were markup.
#[allow(dead_code, reason = "each test file uses its part")]
pub(crate) const HOSTILE: &str = "</title></script><img src=x onerror=\"document.title='OWNED'\"><b>'\"&amp;<script>document.title='OWNED'</script>";

fn text(text: impl Into<String>) -> Cell {
    Cell::Text(text.into())
}

/// A page with everything that a page can have, all foreign text made by `name`.
fn page(name: impl Fn(&str) -> String) -> Page {
    let pools = vec![
        Pool { name: name("main pool"), from: 0, bytes: 15360 * MIB },
        Pool { name: name("small pool"), from: 15360 * MIB, bytes: 1024 * MIB },
    ];
    let block = |place: u64| Block {
        from: place * 16 * MIB,
        bytes: (1 + place % 16) * MIB,
        category: name(["weights", "KV cache", "rings"][place as usize % 3]),
        owner: name("core 1"),
        hint: name("model.layers.7.mlp.down_proj.weight"),
    };
    let map = HbmMap {
        name: name("neuron0 HBM 0"),
        note: Some(name("the same on 7 other devices")),
        refused: Some(name("no room for model.layers.17.mlp.gate_proj.weight, 448.0 MiB")),
        layout: Layout::Addresses { pools, blocks: (0..900).map(block).collect() },
    };
    let share = |category: &str, bytes| Share { category: name(category), bytes, tol: MIB };
    let bar = HbmMap {
        name: name("ND 0 HBM 2"),
        ..HbmMap::new(Layout::Shares {
            shares: vec![share("tensors", 9000 * MIB), share("model code", 4000 * MIB)],
            used: (14000 * MIB, MIB),
            size: Some(16000 * MIB),
        })
    };
    let row = |place: u64| {
        let owner = format!("a.very.long.name.without.any.blank.model.layers.{place}.mlp.down_proj.weight");
        let place_of = format!("neuron0 HBM 0 core {}", place % 2);
        vec![
            text(name(&owner)),
            text(name(&place_of)),
            Cell::Bytes(place * MIB),
            Cell::Address(place * MIB),
            Cell::Count(place),
        ]
    };
    Page {
        title: name("neuron-mem plan: llama on trn1.2xlarge"),
        verdict: Verdict::Bad,
        sentence: name("Does not fit on trn1.2xlarge: 99.5 GiB short"),
        facts: vec![Fact { name: name("refused"), text: name("/a/path/without/blanks").repeat(12) }],
        hbms: vec![map, bar],
        timeline: Some(Timeline {
            label: name("neuron0 HBM 0"),
            axis: Axis::Events,
            categories: vec![name("weights"), name("KV cache")],
            points: (0..2000).map(|at| Point { at, bytes: vec![at * MIB, at * MIB / 2] }).collect(),
            failing: Some(Moment { at: 1500, text: name("found no room") }),
            limit: Some(4000 * MIB),
        }),
        owners: Some(Table {
            label: name("Owners"),
            columns: ["owner", "where", "size", "address", "count"].map(&name).to_vec(),
            rows: (0..30).map(row).collect(),
        }),
        notes: vec![name("a note")],
    }
}

/// A page with everything.
#[allow(dead_code, reason = "each test file uses its part")]
pub(crate) fn full() -> Page {
    page(str::to_owned)
}

/// The same with hostile text wherever there is text.
#[allow(dead_code, reason = "each test file uses its part")]
pub(crate) fn hostile() -> Page {
    page(|text| format!("{text}{HOSTILE}"))
}
