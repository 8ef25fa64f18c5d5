use super::*;
use clap::Parser;

#[derive(Parser)]
struct ExplainLine {
    #[arg(long)]
    json: bool,
    #[arg(long)]
    topology: bool,
    #[command(flatten)]
    question: ExplainQuestion,
}

fn parse(line: &str) -> Result<ExplainQuestion, String> {
    let words = std::iter::once("mica").chain(line.split_whitespace());
    let parsed = ExplainLine::try_parse_from(words).map_err(|error| error.to_string())?;
    Ok(parsed.question)
}

#[test]
fn questions() {
    let question = parse("--explain 64K --level node --layout vector:1K --skewed").unwrap();
    assert_eq!(question.subject(), Ok(Subject::Message(65536)));
    assert_eq!(question.level, Some(Level::Node));
    assert_eq!(question.layout, ExplainLayout::Vector { block: 1024 });
    assert!(question.skewed && !question.nonblocking && question.is_asked());
    assert!(!parse("").unwrap().is_asked());
    for (line, word) in [
        ("--explain lots", "65536 or 64K, or one of barrier, bcast"),
        ("--explain allreduce lots", "65536 or 64K"),
        ("--explain allreduce 64K 4", "unexpected"),
        ("--explain allreduce 64K -n 0", "at least 1"),
        ("--explain allreduce 64K -n many", "at least 1"),
        ("--explain allreduce 64K --cores 0", "at least 1"),
        ("--explain allreduce 64K --reach far", "unknown, windows, cma, packed or none"),
        ("-n 8", "--explain"),
        ("--explain 1 --level moon", "shared-cache"),
        ("--explain 1 --layout vector:0", "at least 1"),
        ("--explain 1 --layout tree", "vector:BLOCK"),
        ("--explain 1 --paths cells,carrier", "carrier"),
        ("--explain 1 --json", "cannot be used"),
        ("--skewed", "--explain"),
    ] {
        let error = parse(line).err().expect(line);
        assert!(error.contains(word), "{line}: {error}");
    }
}

#[test]
fn questions_about_collectives() {
    let subject = |line| parse(line).unwrap().subject();
    assert_eq!(
        subject("--explain allreduce 64K -n 8"),
        Ok(Subject::Collective(Collective::Allreduce, 65536))
    );
    assert_eq!(subject("--explain barrier"), Ok(Subject::Collective(Collective::Barrier, 0)));
    for (line, word) in [
        ("--explain allreduce", "how long"),
        ("--explain alltoall", "the block of each pair"),
        ("--explain barrier 8", "no length"),
        ("--explain 64K 64K", "CALL SIZE"),
        ("--explain 64K allreduce", "CALL SIZE"),
        ("--explain bcast allreduce", "CALL SIZE"),
        ("--explain 64K -n 8", "-n is for collectives"),
        ("--explain 64K --non-commutative", "--non-commutative is for collectives"),
        ("--explain bcast 8 --skewed", "--skewed is for messages"),
        ("--explain bcast 8 --layout vector:8", "--layout is for messages"),
        ("--explain bcast 8 --level network", "network"),
    ] {
        let error = parse(line).unwrap().answer().expect_err(line).to_string();
        assert!(error.contains(word), "{line}: {error}");
    }
}

fn answer(message: OutgoingMessage, situation: Situation) -> String {
    let costs = PathCosts::default();
    let thresholds = Thresholds::derive(&costs, &situation);
    let source = TuningSource::Shipped;
    render(&message, &situation, &costs, &source, &thresholds, &Mapped::Asked)
}

/// Paths that the channels of `mica info` permit are not called impossible, only not yet
/// possible.
#[test]
fn distinguishes_buffers_that_will_migrate_from_those_that_cannot() {
    let (costs, message) = (PathCosts::default(), OutgoingMessage::contiguous(1 << 20));
    let situation = Situation::waiting(Level::SharedCache, MessagePaths::SHARED_MEMORY);
    let thresholds = Thresholds::derive(&costs, &situation);
    let with =
        |mapped| render(&message, &situation, &costs, &TuningSource::Shipped, &thresholds, &mapped);
    let later = with(Mapped::Later(8));
    let row = |text: &str| {
        let mut rows = text.lines().map(str::trim_start);
        rows.find(|row| row.starts_with("mapped ")).unwrap_or_default().to_owned()
    };
    assert!(row(&later).ends_with("not been used 8 times yet"), "{later}");
    assert!(later.contains("From use 9 of the same buffers on"), "{later}");
    assert!(later.contains(": mapped"), "{later}");
    let never = with(Mapped::Never("no such kernel".to_owned()));
    assert!(row(&never).ends_with("no such kernel") && !never.contains("From use"), "{never}");
    let question = |line: &str| {
        let question = parse(line).unwrap();
        let Ok(Subject::Message(len)) = question.subject() else { panic!("{line}") };
        question.mapped_here(&question.message(len)).unwrap()
    };
    assert_eq!(question("--explain 64K --mapped"), Mapped::Asked);
    match ProcMap::open() {
        Ok(_) => {
            assert_eq!(question("--explain 64K"), Mapped::Later(8));
            let short = question("--explain 1K");
            assert!(matches!(short, Mapped::Never(why) if why.contains("MICA_MAPPED_MIN")));
        }
        Err(_) => assert!(matches!(question("--explain 64K"), Mapped::Never(_))),
    }
}

#[test]
fn answer_lists_every_path_with_estimate_or_reason() {
    let paths = MessagePaths::SHARED_MEMORY.with(MessagePath::Pull);
    let situation = Situation::waiting(Level::Node, paths);
    let text = answer(OutgoingMessage::contiguous(1 << 20), situation);
    for path in MessagePath::ALL {
        let rows = || text.lines().map(|line| line.trim_start_matches([' ', '*']));
        assert!(rows().any(|row| row.starts_with(path.name())), "{path:?}: {text}");
    }
    assert!(text.contains("Path       pull") && text.contains("*pull"), "{text}");
    assert!(text.contains("carries at most 65536 bytes"), "{text}");
    assert!(text.contains("not available") && text.contains("shipped defaults"), "{text}");
    assert!(text.contains("1 MiB") && text.contains("one copy from"), "{text}");
}

#[test]
fn a_last_resort_says_so() {
    let situation = Situation {
        peer_waiting: false,
        ..Situation::waiting(Level::Node, MessagePaths::SHARED_MEMORY)
    };
    let text = answer(OutgoingMessage::contiguous(1 << 20), situation);
    assert!(text.contains("taken since nothing else is possible"), "{text}");
}

#[test]
fn times_for_people() {
    for (ns, text) in [
        (0.4, "0 ns"),
        (355.0, "355 ns"),
        (1700.0, "1.70 us"),
        (26_000.0, "26.0 us"),
        (630_000.0, "630 us"),
        (1.72e6, "1.72 ms"),
        (2.5e9, "2.50 s"),
    ] {
        assert_eq!(time(ns), text);
    }
}
