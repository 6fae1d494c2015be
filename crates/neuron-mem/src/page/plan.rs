//! A plan as a page: every block at its address, in the order in which it was allocated.

use neuron_abi::arch::{Generation, HbmRange, PAGE_SIZE};
use neuron_page::{Axis, Block, Cell, HbmMap, Layout, Moment, Page, Point, Table, Timeline, Verdict};
use neuron_plan::{Answer, Hbm, Model, Placed, Planned, Term};

use super::{BEFORE, fact, pools};
use crate::bytes::{exact_and_human, human, plural};
use crate::render::plan::{cores_line, costs_line, model_line, place, refused_line, smallest_line};

/// The page of a plan for these models. `costs_from` says where the figures of a core are from.
#[must_use]
pub fn page(planned: &Planned, models: &[Model], notes: &[String], costs_from: &str) -> Page {
    let answer = &planned.answer;
    let names: Vec<&str> = models.iter().map(|model| model.name.as_str()).collect();
    let groups = groups(planned);
    let hbms: Vec<HbmMap> = groups.iter().flat_map(|group| maps(planned, models, group)).collect();
    let several = groups.len() < answer.devices as usize;
    let mut notes = notes.to_vec();
    if several {
        notes.push("devices of which the same is wanted look the same, and one of them is drawn".to_owned());
    }
    Page {
        title: format!("neuron-mem plan: {} on {}", names.join(", "), answer.instance),
        verdict: if answer.fits { Verdict::Good } else { Verdict::Bad },
        sentence: if answer.fits {
            let spare = human(answer.spare_bytes);
            format!("Fits on {}: {spare} left on the HBM that has least", answer.instance)
        } else {
            format!("Does not fit on {}: {} short", answer.instance, human(answer.short_bytes))
        },
        facts: facts(answer, costs_from),
        hbms,
        timeline: timeline(planned, models),
        owners: Some(owners(planned, models)),
        notes,
    }
}

fn facts(answer: &Answer, costs_from: &str) -> Vec<neuron_page::Fact> {
    let lines = |lines: Vec<String>| lines.join("\n");
    let mut facts = vec![fact("models", lines(answer.models.iter().map(model_line).collect()))];
    facts.extend(refused_line(answer).map(|line| fact("refused", line)));
    facts.push(fact("cores", cores_line(answer)));
    let term = |facts: &neuron_plan::TermFacts| {
        format!(
            "{}: {} in {}",
            facts.term.name(),
            exact_and_human(facts.bytes),
            plural(facts.blocks, "block")
        )
    };
    facts.push(fact("wanted", lines(answer.terms.iter().map(term).collect())));
    facts.push(fact("per core", format!("{} ({costs_from})", costs_line(answer))));
    if !answer.code_counted {
        facts.push(fact("without", "instructions: a model's file does not tell them; --code-bytes does"));
    }
    facts.push(fact("smallest", smallest_line(answer)));
    facts
}

/// A device whose blocks are known, and those that look the same.
struct Group<'a> {
    hbms: Vec<&'a Hbm>,
    others: usize,
}

fn groups(planned: &Planned) -> Vec<Group<'_>> {
    let mut groups: Vec<(u32, Group<'_>)> = Vec::new();
    for hbms in planned.answer.hbms.chunk_by(|one, other| one.device == other.device) {
        let Some(device) = hbms.first().map(|hbm| hbm.device) else { continue };
        let is_known = planned.placed.iter().any(|placed| placed.device == device);
        let same = |(_, group): &&mut (u32, Group<'_>)| {
            group.hbms.iter().zip(hbms).all(|(one, other)| Hbm { device, ..(*one).clone() } == *other)
        };
        match groups.iter_mut().find(same).filter(|_| !is_known) {
            Some((_, group)) => group.others += 1,
            None => groups.push((device, Group { hbms: hbms.iter().collect(), others: 0 })),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}

fn maps<'a>(
    planned: &'a Planned,
    models: &'a [Model],
    group: &'a Group<'_>,
) -> impl Iterator<Item = HbmMap> + 'a {
    let range = |hbm: &Hbm| range(&planned.answer, hbm);
    group.hbms.iter().filter_map(move |hbm| {
        let range = range(hbm)?;
        let before = Block {
            from: range.base,
            bytes: hbm.before,
            category: BEFORE.to_owned(),
            owner: String::new(),
            hint: String::new(),
        };
        let placed = on(planned, hbm).map(|placed| Block {
            from: placed.pa,
            bytes: taken(placed.block.bytes),
            category: placed.block.term.name().to_owned(),
            owner: format!("core {}", placed.block.core),
            hint: tensor(placed, models).to_owned(),
        });
        let blocks = std::iter::once(before).chain(placed).collect();
        let used = hbm.main.used + hbm.small.used;
        let cores = match &hbm.cores[..] {
            [] => "no core in use".to_owned(),
            cores => {
                let cores: Vec<_> = cores.iter().map(u32::to_string).collect();
                format!("{} {}", if cores.len() == 1 { "core" } else { "cores" }, cores.join(", "))
            }
        };
        let alike = match group.others {
            0 => String::new(),
            others => format!("; the same on {}", plural(others as u64, "other device")),
        };
        Some(HbmMap {
            name: place(hbm),
            note: Some(format!("{cores}; {} of {} in use{alike}", human(used), human(hbm.size))),
            refused: hbm.refused.as_ref().map(|refused| {
                let (name, bytes, hole) = (&refused.name, human(refused.bytes), human(refused.largest_hole));
                format!("no room for {name}, {bytes}: the largest hole was {hole}")
            }),
            layout: Layout::Addresses { pools: pools(&range), blocks },
        })
    })
}

fn range(answer: &Answer, hbm: &Hbm) -> Option<HbmRange> {
    let generation = Generation::ALL.iter().find(|generation| generation.name() == answer.generation)?;
    generation.geometry().hbm(hbm.hbm).copied()
}

fn on<'a>(planned: &'a Planned, hbm: &Hbm) -> impl Iterator<Item = &'a Placed> {
    let place = (hbm.device, hbm.hbm);
    planned.placed.iter().filter(move |placed| (placed.device, placed.hbm) == place)
}

/// What a block takes: whole pages.
fn taken(bytes: u64) -> u64 {
    bytes.checked_next_multiple_of(PAGE_SIZE).unwrap_or(bytes)
}

fn tensor<'a>(placed: &Placed, models: &'a [Model]) -> &'a str {
    let tensor = placed.block.tensor.and_then(|(m, t)| models.get(m)?.tensors.get(t));
    tensor.map_or("", |tensor| &tensor.name)
}

/// Of the HBM that refused a block first, else of the fullest.
fn timeline(planned: &Planned, models: &[Model]) -> Option<Timeline> {
    let hbms = &planned.answer.hbms;
    let known = |hbm: &&Hbm| on(planned, hbm).next().is_some();
    let refusing = hbms.iter().filter(known).find(|hbm| hbm.refused.is_some());
    let hbm =
        refusing.or_else(|| hbms.iter().filter(known).max_by_key(|hbm| hbm.main.used + hbm.small.used))?;
    let terms: Vec<Term> =
        Term::ALL.into_iter().filter(|term| on(planned, hbm).any(|it| it.block.term == *term)).collect();
    let mut bytes = vec![0; terms.len() + 1];
    bytes.splice(..1, [hbm.before]);
    let mut points = vec![Point { at: 0, bytes: bytes.clone() }];
    for (at, placed) in (1..).zip(on(planned, hbm)) {
        let place = terms.iter().position(|term| *term == placed.block.term);
        if let Some(bytes) = place.and_then(|place| bytes.get_mut(place + 1)) {
            *bytes += taken(placed.block.bytes);
        }
        points.push(Point { at, bytes: bytes.clone() });
    }
    let failing = hbm.refused.as_ref().map(|refused| {
        let (name, bytes) = (&refused.name, human(refused.bytes));
        Moment { at: points.len() as u64, text: format!("{name}, {bytes}, found no room") }
    });
    let models = if models.len() == 1 { "the model" } else { "the models" };
    let names = terms.iter().map(|term| term.name().to_owned());
    Some(Timeline {
        label: format!("{}, filled allocation by allocation, as loading {models} would", place(hbm)),
        axis: Axis::Events,
        categories: std::iter::once(BEFORE.to_owned()).chain(names).collect(),
        points,
        failing,
        limit: Some(hbm.size),
    })
}

fn owners(planned: &Planned, models: &[Model]) -> Table {
    let mut placed: Vec<&Placed> = planned.placed.iter().collect();
    placed.sort_by_key(|placed| std::cmp::Reverse(placed.block.bytes));
    let row = |placed: &Placed| {
        let term = placed.block.term.name();
        let model = placed.block.tensor.and_then(|(m, _)| models.get(m));
        let name = match tensor(placed, models) {
            "" => term,
            name => name,
        };
        let mut row = vec![Cell::Text(name.to_owned()), Cell::Text(term.to_owned())];
        if models.len() > 1 {
            row.push(Cell::Text(model.map_or(String::new(), |model| model.name.clone())));
        }
        row.extend([
            Cell::Text(format!("neuron{} HBM {} core {}", placed.device, placed.hbm, placed.block.core)),
            Cell::Bytes(placed.block.bytes),
            Cell::Address(placed.pa),
        ]);
        row
    };
    let model = (models.len() > 1).then_some("model");
    let columns = ["block", "what for"].into_iter().chain(model).chain(["where", "size", "address"]);
    Table {
        label: "Owners".to_owned(),
        columns: columns.map(str::to_owned).collect(),
        // What is not shown need not be made.
        rows: placed.into_iter().map(row).collect(),
    }
}
